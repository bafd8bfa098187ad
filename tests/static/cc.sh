#!/usr/bin/env bash
# Stands in for the compiler: compiles a file as it is told, and has it analysed with the same flags. What has
# no source of ours goes to the compiler alone. A finding fails the compilation.
#
# Off, of what gcc 12 looks for: -Wanalyzer-malloc-leak, which loses sight of what is stored through a pointer to
# a structure (LeakSanitizer and valgrind look for leaks in the tests); -Wanalyzer-shift-count-overflow, which
# takes the count for the width; and lib/kernels as a whole, where it follows unrolled intrinsics for minutes and
# takes arrays of vectors for never written.
set -u
here=$(dirname "$0")
source=
object=
flags=()
tidy_flags=()
for argument; do
    case $argument in
    lib/*.c | server/*.c) source=$argument ;;
    -c | -o | -MMD | -MP) ;;
    *.o) object=$argument ;;
    -W*) ;; # the build itself sees to those, and contracts.h is not written for them
    -fstack-clash-protection | *FORTIFY_SOURCE*) flags+=("$argument") ;;
    *) flags+=("$argument") tidy_flags+=("$argument") ;;
    esac
done
[ -n "$source" ] || exec gcc "$@"

# those that define the functions read them as they are
case $source in
lib/status.c | server/base/error.c | server/codec/fault.c | server/codec/nested.c | \
    server/http/json_reader.c | server/model/manifest_json.c) contracts=() ;;
*) contracts=(-include "$here/contracts.h") ;;
esac
case $source in
lib/kernels/*) analyse=() ;;
*) analyse=(-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-shift-count-overflow) ;;
esac
# the object is a mark that the file passed
gcc "${flags[@]}" "${contracts[@]}" "${analyse[@]}" -Werror -MMD -MP -c "$source" -o "$object" || exit 1
if ! clang-tidy --quiet "$source" -- "${tidy_flags[@]}" "${contracts[@]}" >"$object.tidy" 2>&1; then
    grep -v 'warnings\? generated\|^Suppressed\|^Use -header' "$object.tidy"
    rm -f "$object"
    exit 1
fi
