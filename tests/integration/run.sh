#!/usr/bin/env bash
# Run every suite beside this file against a daemon: run.sh DAEMON [SUITE...]. Each has a fresh daemon
# on a free port, a scratch folder and a time limit; JOBS of them (1) run at once. Closes with the count
# of all checks.
set -u
here=$(cd "$(dirname "$0")" && pwd)
daemon=${1:?usage: run.sh DAEMON [SUITE...]}
shift
limit=${SUITE_TIMEOUT:-180}
jobs=${JOBS:-1}
. "$here/../tally.sh"

results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT

if [ $# -eq 0 ]; then
    for file in "$here"/test_*.sh; do
        name=${file##*/test_}
        set -- "$@" "${name%.sh}"
    done
fi

run_suite() { # SUITE
    timeout -k 5 "$limit" bash "$here/test_$1.sh" "$daemon" >"$results/$1.output" 2>&1
    echo $? >"$results/$1.code"
}

report() { # SUITE
    local suite=$1 code output
    code=$(cat "$results/$suite.code" 2>/dev/null || echo 1)
    output=$(cat "$results/$suite.output" 2>/dev/null)
    if ! tally "$suite" "$code" "$output"; then
        [ "$code" -ne 124 ] || output="$output"$'\n'"$suite: not done within $limit s"
        [ "$code" -eq 124 ] || output="$output"$'\n'"$suite: ended with status $code before its count"
    fi
    if [ "$code" -eq 0 ] && [ -z "${VERBOSE:-}" ]; then
        echo "  $(tail -n 1 <<<"$output")"
    else
        echo "$output"
    fi
}

# Told in the order of their names, each as soon as those before it are.
n_told=0
n_started=0
n_done=0
names=("$@")
while [ "$n_told" -lt "${#names[@]}" ]; do
    while [ "$n_started" -lt "${#names[@]}" ] && [ $((n_started - n_done)) -lt "$jobs" ]; do
        run_suite "${names[n_started]}" &
        n_started=$((n_started + 1))
    done
    wait -n
    n_done=$((n_done + 1))
    while [ "$n_told" -lt "${#names[@]}" ] &&
        { [ -e "$results/${names[n_told]}.code" ] || [ "$n_done" -ge "${#names[@]}" ]; }; do
        report "${names[n_told]}"
        n_told=$((n_told + 1))
    done
done
echo "integration: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
