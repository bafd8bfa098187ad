#!/usr/bin/env bash
# Does what `make install` puts down work on its own: daemon, demo models, library, header, pkg-config?
. "$(dirname "$0")/lib.sh"
root=$(cd "$here/../.." && pwd)
built=$(dirname "$DAEMON")
prefix=/usr
installed=$scratch/installed$prefix

# The daemon lies in BUILD/MODE: install from there, so that nothing is built again.
mode=$(basename "$built")
holds "make install" make -C "$root" --no-print-directory install BUILD="$(dirname "$built")" MODE="$mode" \
    DESTDIR="$scratch/installed" PREFIX="$prefix"
for file in bin/attentiond lib/libattention.so include/attention.h lib/pkgconfig/libattention.pc \
    share/attentiond/attentiond.json share/attentiond/models; do
    holds "$file is there" test -e "$installed/$file"
done
equal "pkg-config has the prefix" "prefix=$prefix" "$(grep '^prefix=' "$installed/lib/pkgconfig/libattention.pc")"
equal "nothing installed names the source tree" '' \
    "$(grep -rlF "$root" "$installed" --include='*.pc' --include='*.json')"

# Without arguments, from another folder, it serves the models it was installed with.
cd / || exit 1
start_unasked "$installed/bin/attentiond"
ask POST /v2/repository/index
expect_json "the installed daemon serves every demo model" 'len(j) >= 6 and all(m["state"] == "READY" for m in j)'
holds "... those that were installed" grep -qF "$installed/share/attentiond/models" "$scratch/log"
stop_daemon "the installed daemon stops"

# The service beside it, with the folders that a distribution chooses; what an administrator has
# written is not overwritten.
elsewhere=$scratch/elsewhere
mkdir -p "$elsewhere/etc/attentiond"
echo '{"http-port": 1}' >"$elsewhere/etc/attentiond/attentiond.json"
holds "make install-service" make -C "$root" --no-print-directory install-service BUILD="$(dirname "$built")" \
    MODE="$mode" DESTDIR="$elsewhere" PREFIX=/opt/attn LIBDIR=/opt/attn/lib64 SYSCONFDIR=/etc UNITDIR=/units
for file in opt/attn/lib64/libattention.so.0 opt/attn/lib64/libattention.a units/attentiond.socket \
    opt/attn/lib/sysusers.d/attentiond.conf opt/attn/share/man/man8/attentiond.8; do
    holds "$file is there" test -e "$elsewhere/$file"
done
contains "pkg-config has the folder of the library" "libdir=\${prefix}/lib64" \
    "$elsewhere/opt/attn/lib64/pkgconfig/libattention.pc"
equal "the unit starts what was installed" 'ExecStart=/opt/attn/bin/attentiond --config=/etc/attentiond/attentiond.json' \
    "$(grep '^ExecStart=' "$elsewhere/units/attentiond.service")"
equal "the configuration that was there stays" '{"http-port": 1}' "$(cat "$elsewhere/etc/attentiond/attentiond.json")"
equal "the manual page has an option for each of the daemon's" "$("$DAEMON" --help | grep -c '^  --')" \
    "$(sed -n '/^\.SH OPTIONS/,/^\.SH SIGNALS/p' "$elsewhere/opt/attn/share/man/man8/attentiond.8" | grep -c '^\.B \\-\\-')"
equal "the changelog of the packages has this version" "$(sed -n 's/^VERSION := //p' "$root/Makefile")" \
    "$(sed -n '1s/^attentiond (\(.*\)-[^-]*).*/\1/p' "$root/config/debian/changelog")"

# A program of somebody else's.
case $mode in
asan) sanitizer=-fsanitize=address,undefined ;;
tsan) sanitizer=-fsanitize=thread ;;
*) sanitizer= ;;
esac
export PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/installed
# System folders are left out of what pkg-config prints unless it is told to keep them.
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
read -ra flags <<<"$sanitizer $(pkg-config --cflags --libs libattention)"
holds "a program compiles against what was installed" "${CC:-gcc}" -Wall -Werror -o "$scratch/program" "$here/program.c" "${flags[@]}"
equal "... and runs" '1.4142 0.0000' "$(LD_LIBRARY_PATH=$installed/lib "$scratch/program" 2>&1)"
finish
