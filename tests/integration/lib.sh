# shellcheck shell=bash
# lib.sh - what every suite shares: a daemon on a free port, a scratch folder, checks that count.
#
# A suite is called with the daemon as its argument, sources this file, and ends with `finish`. Its
# daemon runs in the background; whatever happens, it and the scratch folder are gone at the end.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=$(basename "$0" .sh)
suite=${suite#test_}
DAEMON=$(realpath "${1:?usage: $0 DAEMON}")
# The interpreter itself: python3 may be a script that takes its time to find it.
PYTHON=${PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}

py() {
    "$PYTHON" -I -S "$@"
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/attentiond-$suite.XXXXXX")
daemon_pid=
base=
n_passed=0
n_failed=0
status=

# Seconds that a start, a stop or an answer may take; generous, for sanitizers and valgrind.
PATIENCE=${PATIENCE:-30}

cleanup() {
    if [ -n "$daemon_pid" ]; then
        kill -KILL "$daemon_pid" 2>/dev/null
        wait "$daemon_pid" 2>/dev/null
    fi
    if [ "$n_failed" -eq 0 ]; then
        rm -rf "$scratch"
    fi
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# ---- counting --------------------------------------------------------------------------------

pass() { # NAME
    n_passed=$((n_passed + 1))
    [ -z "${VERBOSE:-}" ] || echo "$suite: $1: holds"
}

fail() { # NAME WHAT-CAME
    n_failed=$((n_failed + 1))
    echo "$suite: $1: $2"
}

equal() { # NAME EXPECTED GOT
    if [ "$2" = "$3" ]; then
        pass "$1"
    else
        fail "$1" "'${3:0:400}', expected '${2:0:400}'"
    fi
}

holds() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$scratch/holds" 2>&1; then
        pass "$name"
    else
        fail "$name" "$* failed: $(head -c 400 "$scratch/holds")"
    fi
}

# Every text, between bars, must be in the file: contains NAME 'query|4' FILE
contains() { # NAME TEXTS FILE
    local text wanted content missing=
    { content=$(<"$3"); } 2>/dev/null # bytes that a variable cannot hold are left out
    IFS='|' read -ra wanted <<<"$2"
    for text in "${wanted[@]}"; do
        [[ $content == *"$text"* ]] || missing+=" '$text'"
    done
    if [ -z "$missing" ]; then
        pass "$1"
    else
        fail "$1" "no$missing in: ${content:0:400}"
    fi
}

finish() {
    if [ -n "$daemon_pid" ]; then
        stop_daemon "the daemon stops cleanly"
    fi
    [ "$n_failed" -eq 0 ] || echo "$suite: what it left is in $scratch"
    echo "$suite: $n_passed passed, $n_failed failed"
    [ "$n_failed" -eq 0 ] && [ "$n_passed" -gt 0 ]
    exit
}

# ---- the daemon ------------------------------------------------------------------------------

# Below those that the system gives to outgoing connections, of which one could take it meanwhile.
free_port() {
    py - <<'END'
import random
import socket

while True:
    port = random.randrange(10000, 32768)
    try:
        socket.create_server(("127.0.0.1", port)).close()
        break
    except OSError:
        continue
print(port)
END
}

# Wait until a command succeeds.
wait_for() { # COMMAND...
    local i
    for ((i = 0; i < PATIENCE * 20; i++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    return 1
}

# One request is with a worker, and none waits.
is_at_work() {
    local metrics
    metrics=$(curl -sS --max-time 5 "$base/metrics") &&
        grep -qx 'attentiond_requests_in_flight 1' <<<"$metrics" &&
        grep -qx 'attentiond_queue_length 0' <<<"$metrics"
}

is_gone() { # PID
    ! kill -0 "$1" 2>/dev/null
}

# The port that the daemon says it has, where it was left to choose one.
logged_port() {
    sed -nE 's/.*port[=":]+ ?([0-9]+).*/\1/p' "$scratch/log" | head -n 1
}

has_port_or_gone() {
    [ -n "$(logged_port)" ] || is_gone "$daemon_pid"
}

answers_or_gone() {
    curl -s -o /dev/null -m "$PATIENCE" "$base/v2/health/live" || is_gone "$daemon_pid"
}

# Start it in the background, with a log that has nothing of the one before it.
launch() { # COMMAND...
    : >"$scratch/log"
    "$@" >>"$scratch/log" 2>&1 &
    daemon_pid=$!
}

started_or_gone() {
    grep -q -e ' started ' -e '"started"' "$scratch/log" || is_gone "$daemon_pid"
}

# Start the daemon with these arguments on a free port, and wait until it answers.
start_daemon() { # ARGUMENTS...
    local port
    port=$(free_port)
    base=http://127.0.0.1:$port
    launch "$DAEMON" --http-port="$port" "$@"
    wait_for_start
}

# Start it as it comes, but on a port of its own choice.
start_unasked() { # DAEMON
    launch env ATTENTIOND_HTTP_PORT=0 "$1"
    wait_for has_port_or_gone
    base=http://127.0.0.1:$(logged_port)
    wait_for_start
}

wait_for_start() {
    wait_for answers_or_gone
    if is_gone "$daemon_pid"; then
        fail "the daemon starts" "it ended: $(tail -n 5 "$scratch/log")"
        daemon_pid=
        finish
    fi
}

# Send SIGTERM (or another signal) and expect exit status 0 (or another).
stop_daemon() { # NAME [SIGNAL [STATUS]]
    local pid=$daemon_pid code
    kill "-${2:-TERM}" "$pid"
    if ! wait_for is_gone "$pid"; then
        fail "$1" "still running after $PATIENCE s"
        kill -KILL "$pid"
    fi
    wait "$pid"
    code=$?
    daemon_pid=
    equal "$1" "${3:-0}" "$code"
    if grep -q -e 'Sanitizer' -e 'runtime error' "$scratch/log"; then
        fail "$1" "a sanitizer spoke: $(grep -m 3 -e 'Sanitizer' -e 'runtime error' "$scratch/log")"
    fi
}

# ---- requests --------------------------------------------------------------------------------

# Ask; $status, $scratch/body and $scratch/head hold the answer. PATH may be followed by curl's own
# arguments.
ask() { # VERB PATH [CURL-ARGUMENTS...]
    local verb=$1 path=$2
    shift 2
    local verb_arguments=(-X "$verb")
    [ "$verb" != HEAD ] || verb_arguments=(-I)
    : >"$scratch/body"
    : >"$scratch/head"
    status=$(curl -s -m "$PATIENCE" --path-as-is "${verb_arguments[@]}" -o "$scratch/body" \
        -D "$scratch/head" -w '%{http_code}' "$@" "$base$path")
}

# A request that keeps a worker busy for a while, as bytes in a file; `heavy` sends it to `mha`.
write_heavy() { # SAMPLES
    local length=4500 ports='' port
    for port in query key value; do
        ports+=${ports:+,}$(binary_tensor $port FP32 "[$1,$length,4]" $(($1 * length * 16)))
    done
    heavy_json=$(request "$ports" '"outputs":[{"name":"out","parameters":{"binary_data":true}}]')
    { printf '%s' "$heavy_json"; head -c $(($1 * length * 48)) /dev/zero; } >"$scratch/heavy"
}

heavy() { # CURL-ARGUMENTS...
    curl -s -m 120 --data-binary "@$scratch/heavy" -H 'Expect:' \
        -H "Inference-Header-Content-Length: ${#heavy_json}" "$@" "$base/v2/models/mha/infer"
}

# The value of a header of the last answer.
header() { # NAME
    local line value=
    while IFS= read -r line; do
        line=${line%$'\r'}
        [[ ${line,,} != "${1,,}:"* ]] || value=${line#*:}
    done <"$scratch/head"
    echo "${value# }"
}

# A step of `small`, whose projections are the identity: so many tokens of four numbers.
step() { # NUMBERS PARAMETERS [CURL-ARGUMENTS...]
    local numbers=$1 parameters=$2 count
    shift 2
    count=$(tr -dc , <<<"$numbers" | wc -c)
    infer small "$(request "$(tensor input FP32 "[1,$(((count + 1) / 4)),4]" "[$numbers]")" "\"parameters\":{$parameters}")" "$@"
}

expect_status() { # NAME STATUS
    equal "$1" "$2" "$status"
}

# Status and code of the last answer; no code is ''.
code_is() { # NAME STATUS CODE
    equal "$1" "$2 $3" "$status $(sed -nE 's/.*"code": ?"([a-z_]+)".*/\1/p' "$scratch/body")"
}

# The last answer is JSON of which a Python expression over j holds; f(x) flattens and compares.
expect_json() { # NAME EXPRESSION [FILE]
    local said
    said=$(py "$here/holds.py" "$2" "${3:-$scratch/body}" 2>&1)
    if [ "$said" = True ]; then
        pass "$1"
    else
        fail "$1" "$said: $2 over $(head -c 400 "${3:-$scratch/body}")"
    fi
}

# The last answer is an error of this status whose text, of one line, has these words in it.
expect_error() { # NAME STATUS TEXTS
    local content type
    { content=$(<"$scratch/body"); } 2>/dev/null
    type=$(header Content-Type)
    if [ "$status" != "$2" ]; then
        fail "$1" "status $status, expected $2: ${content:0:300}"
    elif [ "$type" != application/json ]; then
        fail "$1" "Content-Type $type, expected application/json"
    elif [[ ! $content =~ ^\{\"error\":\ ?\".+\".*\}$ ]] || [[ $content == *[[:cntrl:]]* ]]; then
        fail "$1" "no error text of one line in: ${content:0:300}"
    else
        contains "$1" "$3" "$scratch/body"
    fi
}

# An infer or gradient request with this JSON body.
infer() { # MODEL BODY [CURL-ARGUMENTS...]
    local model=$1 body=$2
    shift 2
    ask POST "/v2/models/$model/infer" --data-binary "$body" "$@"
}

gradient() { # MODEL BODY
    ask POST "/v2/models/$1/gradient" --data-binary "$2"
}

# A request whose JSON is followed by the bytes of files.
ask_binary() { # PATH JSON FILES...
    local path=$1 json=$2
    shift 2
    printf '%s' "$json" | cat - "$@" >"$scratch/request"
    ask POST "$path" --data-binary "@$scratch/request" -H "Inference-Header-Content-Length: ${#json}"
}

infer_binary() { # MODEL JSON FILES...
    ask_binary "/v2/models/$1/infer" "${@:2}"
}

gradient_binary() { # MODEL JSON FILES...
    ask_binary "/v2/models/$1/gradient" "${@:2}"
}

# The bytes of the last answer behind its JSON, in $scratch/bytes.
reply_bytes() {
    tail -c "+$(($(header Inference-Header-Content-Length) + 1))" "$scratch/body" >"$scratch/bytes"
}

# The sum of a metric's samples, of those whose labels have all of these texts: metric NAME ['model="a"'...]
metric() {
    local name=$1
    shift
    curl -s -m "$PATIENCE" "$base/metrics" | NAME=$name LABELS=$(IFS='|'; echo "$*") awk '
        { split($0, part, /[{ ]/) }
        part[1] == ENVIRON["NAME"] {
            n = split(ENVIRON["LABELS"], label, "|")
            for (i = 1; i <= n; i++) if (index($0, label[i]) == 0) next
            sum += $NF
        }
        END { printf "%.0f\n", sum }'
}

metric_is() { # NUMBER METRIC...
    [ "$(metric "${@:2}")" = "$1" ]
}

# The JSON of a request from its tensors, between commas, and other members.
request() { # TENSORS [MEMBERS]
    printf '{"inputs":[%s]%s}' "$1" "${2:+,$2}"
}

# A tensor as it stands in a request's `inputs`.
tensor() { # NAME DATATYPE SHAPE DATA
    printf '{"name":"%s","datatype":"%s","shape":%s,"data":%s}' "$@"
}

binary_tensor() { # NAME DATATYPE SHAPE SIZE
    printf '{"name":"%s","datatype":"%s","shape":%s,"parameters":{"binary_data_size":%s}}' "$@"
}

# Numbers as little-endian bytes: pack FP32 1 2.5 >file
pack() { # DATATYPE NUMBERS...
    py "$here/models.py" pack "$@"
}
