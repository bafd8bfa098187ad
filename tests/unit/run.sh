#!/bin/sh
# Run the unit test programs named as arguments, each by $RUNNER (an emulator) if that is set; close
# with one line that counts all tests.
set -u
passed=0
failed=0
for program in "$@"; do
    # shellcheck disable=SC2086 # no runner is no word
    output=$(${RUNNER:-} "$program" 2>&1)
    status=$?
    last=$(printf '%s\n' "$output" | tail -n 1)
    case $last in
    *' passed, '*' failed')
        passed=$((passed + ${last%% passed*}))
        n=${last##* passed, }
        n=${n%% failed*}
        failed=$((failed + n))
        ;;
    *)
        n=0
        ;;
    esac
    if [ "$status" -ne 0 ]; then
        printf '%s\n%s: exit status %s\n' "$output" "$program" "$status"
        [ "$n" -gt 0 ] || failed=$((failed + 1))
    else
        printf '  %-40s %s\n' "${program##*/unit/}" "$last"
    fi
done
echo "unit: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
