#!/usr/bin/env bash
# Does the source keep the rules that a compiler does not check? Every finding is a
# line with its file. Closes with the number of checks that hold and that do not.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
passed=0
failed=0

mapfile -t c_files < <(find include lib server tests -name '*.[ch]' | sort)
mapfile -t product < <(find include lib server -name '*.[ch]' | sort)
mapfile -t scripts < <(find . -path ./build -prune -o -path ./.git -prune -o \( -name '*.sh' -o -path ./.ci/run \) -print | sort)

# Run a check: it prints its findings, and holds when there are none.
check() { # WHAT FUNCTION
    local findings
    findings=$("$2" 2>&1)
    if [ -z "$findings" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'lint: %s\n%s\n' "$1" "$(head -n 40 <<<"$findings")"
    fi
}

# A check that needs a tool which may not be there.
check_with() { # TOOL WHAT FUNCTION
    if command -v "$1" >/dev/null; then
        check "$2" "$3"
    else
        echo "lint: $2: skipped, $1 is not installed"
    fi
}

formatting() {
    clang-format --dry-run -Werror "${c_files[@]}" 2>&1 | grep -E 'error:'
}

file_length() {
    wc -l "${c_files[@]}" "${scripts[@]}" | awk '$1 > 600 && $2 != "total" {print $2 ": " $1 " lines, at most 600"}'
}

# By our layout a function's body opens and closes in the first column.
function_length() {
    awk 'FNR == 1 {open = 0}
        /^\{/ {open = FNR}
        /^\}/ && open {
            if (FNR - open + 1 > 80) {
                print FILENAME ":" open ": a function of " FNR - open + 1 " lines, at most 80"
            }
            open = 0
        }' "${c_files[@]}"
}

unfinished() {
    grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${product[@]}"
}

# A file of another owner's header: include FILE-PATTERN of HEADER is allowed in these files only.
only_in() { # HEADER ALLOWED-PATH-REGEX
    grep -nE "#[[:space:]]*include[[:space:]]*[<\"]$1[>\"]" "${product[@]}" | grep -vE "^($2)"
}

owned_headers() {
    only_in microhttpd.h 'server/http/'
    only_in jansson.h 'server/codec/|server/model/(manifest|config_file)|server/base/(options|secrets|json_load)|server/http/keys_file'
    only_in cblas.h 'lib/blas\.c:'
    only_in xxhash.h 'lib/fingerprint\.c:'
    only_in seccomp.h 'server/base/sandbox_calls\.c:'
    only_in linux/landlock.h 'server/base/sandbox_files\.c:'
    only_in 'z(lib|std|std_errors).h' 'server/codec/(un)?pack\.c:'
}

# A layer includes itself and those before it; of the library it knows attention.h alone.
layers() {
    local layer allowed=
    for layer in base model sched codec http; do
        allowed+=${allowed:+|}$layer
        grep -nE '#[[:space:]]*include[[:space:]]*"' server/"$layer"/*.[ch] |
            grep -vE "include[[:space:]]*\"(($allowed)/[a-z0-9_]+\.h|attention\.h)\""
    done
    grep -nE '#[[:space:]]*include[[:space:]]*"attention\.h"' server/base/*.[ch]
    grep -nE '#[[:space:]]*include[[:space:]]*"(base|model|sched|codec|http)/' include/*.h "${product[@]}" | grep -E '^(lib|include)/'
    grep -nE '#[[:space:]]*include[[:space:]]*"[^"]*\.\./' "${product[@]}"
}

# The library returns a status and leaves the rest to its caller.
quiet_library() {
    find lib -name '*.[ch]' -exec grep -nE '\b(v?f?printf|puts|putchar|perror|exit|_exit|abort|system|getenv|pthread_create)[[:space:]]*\(' {} + |
        grep -vE '^lib/kernels/select\.c:[0-9]+:.*getenv\("ATTN_ISA"\)'
}

no_conditionals() {
    grep -nE '^[[:space:]]*#[[:space:]]*if' lib/*.c server/*/*.c server/*.c
}

# Each file opens with a comment, each header has its guard; kernels share texts that are included once
# for every instruction set and have none.
openings() {
    local file
    for file in "${product[@]}"; do
        [[ $(head -c 2 "$file") == '/*' ]] || echo "$file: does not open with a comment that says its job"
        [[ $file != *.h || $file == lib/kernels/vector_* ]] || grep -q '^#ifndef [A-Z0-9_]*_H$' "$file" || echo "$file: no include guard"
    done
}

shell() {
    # SC2317: functions that are called by their names in a variable look unreachable
    shellcheck -x -P SCRIPTDIR -e SC2317 "${scripts[@]}"
}

yaml() {
    yamllint -s -d '{extends: relaxed, rules: {line-length: {max: 140}}}' docker config tests/cluster
}

compose() {
    /usr/bin/python3 tests/cluster/compose.py # the one that has yamllint's parser
}

# Rules, and what the dashboard asks, are read by promtool; alerts fire when they should.
prometheus() {
    local board=config/grafana/dashboards/attentiond.json asked
    promtool check config config/prometheus/prometheus.yml >/dev/null
    promtool test rules tests/cluster/rules_test.yml 2>&1 | grep -v -e '^Unit Testing' -e '^ *SUCCESS' -e '^$'
    asked=$(mktemp)
    python3 tests/cluster/expressions.py "$board" >"$asked" && promtool check rules "$asked" >/dev/null
    rm -f "$asked"
}

check_with clang-format 'C files are formatted' formatting
check 'files have at most 600 lines' file_length
check 'functions have at most 80 lines' function_length
check 'nothing is left unfinished' unfinished
check 'headers of other libraries are included by their owners alone' owned_headers
check 'includes follow the layers' layers
check 'the library does not print, exit, start threads or read the environment' quiet_library
check 'conditional compilation stays in lib/kernels' no_conditionals
check 'every file says its job' openings
check_with shellcheck 'shell scripts pass shellcheck' shell
check_with yamllint 'YAML files are in order' yaml
check_with yamllint 'compose files fit the daemon, its image and HAProxy' compose
check_with promtool 'Prometheus takes its rules and what the dashboard asks' prometheus
echo "lint: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
