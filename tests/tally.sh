# shellcheck shell=bash
# tally.sh - how many checks the suites of a run have passed and failed, for the scripts that run them.
passed=0
failed=0

# Count a suite by the line that it closed with, "SUITE: N passed, N failed". False: there is none, and the suite
# itself counts as a failure; as it does where it says that all is well and ends otherwise.
tally() { # SUITE STATUS OUTPUT
    local last
    last=$(tail -n 1 <<<"$3")
    if ! [[ $last =~ ^$1:\ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        failed=$((failed + 1))
        return 1
    fi
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    [ "$2" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
}
