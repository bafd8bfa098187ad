#!/usr/bin/env bash
# Which lines and branches of lib/ and server/ do the tests reach? coverage.sh BUILD [SUITE...], after
# `make MODE=coverage BUILD=BUILD tests-built`. A suite is unit, golden, fuzz, integration, or the name
# of one suite of integration; without any, what the last run has counted is told again.
#
# A branch is a way that a condition can go, each && and || of it by itself; a switch over an enum has
# one way more, that of no value, which stays untaken. Not counted: the branches of assert(), which
# cannot fail, and those that the compiler puts on lines without code. Of a text that is compiled for
# several instruction sets, a line is reached if one of them reached it. What a process has counted is
# lost if it is killed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: coverage.sh BUILD [SUITE...]}
shift
built=$build/coverage
failed=0

run_make() { # TARGET
    ${MAKE:-make} --no-print-directory MODE=coverage BUILD="$build" "$1"
}

[ $# -eq 0 ] || find "$built" -name '*.gcda' -delete
# Everything is slower here than in the build that the limits of tests are made for.
export SUITE_TIMEOUT=${SUITE_TIMEOUT:-600} CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-5}
export ATTENTIOND_EXIT_TIMEOUT_SECS=300
for suite in "$@"; do
    case $suite in
    unit | golden | fuzz | integration) run_make "check-$suite" ;;
    *) tests/integration/run.sh "$built/attentiond" "$suite" ;;
    esac || failed=1
done

# FILE LINES COVERED PERCENT BRANCHES COVERED PERCENT, of every file: the worst of them, then all together.
tell() { # FOLDER TABLE
    echo "$1, the ten files with the largest share of untaken branches:"
    sort -k 7,7n -k 4,4n "$2" | head -n 10 |
        awk '{printf "  %-32s lines %5.1f %% of %4d, branches %5.1f %% of %4d\n", $1, $4, $2, $7, $5}'
    echo "$1, the five with the largest share of lines that are not reached:"
    sort -k 4,4n "$2" | head -n 5 |
        awk '{printf "  %-32s lines %5.1f %% of %4d, %d not reached\n", $1, $4, $2, $2 - $3}'
    awk -v folder="$1" '{lines += $2; reached += $3; branches += $5; taken += $6}
        END {printf "coverage of %s: lines %.1f %% (%d of %d), branches %.1f %% (%d of %d)\n", folder,
            100 * reached / lines, reached, lines, 100 * taken / branches, taken, branches}' "$2"
}

for folder in lib server; do
    report=$built/report/$folder
    rm -rf "$report"
    mkdir -p "$report" || exit 1
    gcovr --root . --filter "$folder/" --exclude-unreachable-branches \
        --exclude-branches-by-pattern '\s*assert\(.*' --csv "$report/files.csv" \
        --json "$report/lines.json" --html-details "$report/index.html" "$built/$folder" || exit 1
    tail -n +2 "$report/files.csv" |
        awk -F, '{printf "%s %d %d %.1f %d %d %.1f\n", $1, $2, $3, $2 ? 100 * $3 / $2 : 100, $5, $6,
            $5 ? 100 * $6 / $5 : 100}' >"$report/files"
    tell "$folder" "$report/files"
    echo "$folder, line by line: $report/index.html"
done
exit "$failed"
