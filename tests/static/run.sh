#!/usr/bin/env bash
# Static analysis: gcc -fanalyzer and clang-tidy by way of cc.sh, as far as files changed since they passed, then
# cppcheck. Usage: run.sh BUILD [JOBS]. Every finding is a line with its file; there are to be none.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1
jobs=${2:-$(nproc)}
export LC_ALL=C
passed=0
failed=0

finish() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "static: $2 has findings"
    fi
}

make --no-print-directory -k -j"$jobs" MODE=static BUILD="$build" CC=tests/static/cc.sh objects >"$build/static.log" 2>&1
status=$?
[ $status -eq 0 ] || grep -v '^  CC ' "$build/static.log"
finish $status 'gcc -fanalyzer or clang-tidy'

# memleak in server/base/buffer.c: what realloc would have done, with room in front of the block
cppcheck -q -j"$jobs" --enable=warning,performance,portability --std=c11 --error-exitcode=1 --inline-suppr \
    --suppress=memleak:server/base/buffer.c --suppress=missingIncludeSystem -D_GNU_SOURCE -D__x86_64__ \
    -DATTN_VERSION='""' -Iinclude -Ilib -Iserver lib server
finish $? cppcheck

# Functions that threads cannot share, or that cannot be used safely. The main thread's setenv comes before all others.
! grep -nE '\b(strtok|localtime|gmtime|ctime|asctime|rand|srand|random|setenv|putenv|gethostbyname|inet_ntoa|ttyname|getpwnam|getgrnam|strcpy|strcat|sprintf|vsprintf|gets|alloca|tmpnam|mktemp|system|popen)[[:space:]]*\(' \
    -r lib server | grep -v '^server/main\.c:.*OPENBLAS_NUM_THREADS'
finish $? 'what threads may call'

echo "static: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
