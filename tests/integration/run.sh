#!/usr/bin/env bash
# Run every suite beside this file against a daemon: run.sh DAEMON [SUITE...]. Each has a fresh daemon
# on a free port, a scratch folder and a time limit. Closes with the count of all checks.
set -u
here=$(cd "$(dirname "$0")" && pwd)
daemon=${1:?usage: run.sh DAEMON [SUITE...]}
shift
limit=${SUITE_TIMEOUT:-180}
. "$here/../tally.sh"

if [ $# -eq 0 ]; then
    for file in "$here"/test_*.sh; do
        name=${file##*/test_}
        set -- "$@" "${name%.sh}"
    done
fi
for suite in "$@"; do
    output=$(timeout -k 5 "$limit" bash "$here/test_$suite.sh" "$daemon" 2>&1)
    code=$?
    if ! tally "$suite" "$code" "$output"; then
        [ "$code" -ne 124 ] || output="$output"$'\n'"$suite: not done within $limit s"
        [ "$code" -eq 124 ] || output="$output"$'\n'"$suite: ended with status $code before its count"
    fi
    if [ "$code" -eq 0 ] && [ -z "${VERBOSE:-}" ]; then
        echo "  $(tail -n 1 <<<"$output")"
    else
        echo "$output"
    fi
done
echo "integration: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
