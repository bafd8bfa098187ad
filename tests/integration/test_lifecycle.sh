#!/usr/bin/env bash
# Does the daemon start, read its options, report broken models, and end as it should?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")

# Run the daemon to its end; $code, $scratch/out and $scratch/err hold what came.
run() { # ARGUMENTS...
    timeout -k 1 "$PATIENCE" "$DAEMON" "$@" >"$scratch/out" 2>"$scratch/err"
    code=$?
}

refuses() { # NAME TEXTS ARGUMENTS...
    local name=$1 texts=$2
    shift 2
    run "$@"
    if [ "$code" -eq 0 ] || [ "$code" -ge 124 ]; then
        fail "$name" "exit status $code"
    else
        contains "$name" "$texts" "$scratch/err"
    fi
}

# ---- what it says about itself ---------------------------------------------------------------
run --help
equal "--help: exit status" 0 "$code"
for option in model-repository http-address http-port http-max-input-size http-max-output-size workers queue-size \
    strict-readiness check-config exit-timeout-secs log-level log-format config version help; do
    contains "--help lists --$option" "--$option" "$scratch/out"
done
run --version
equal "--version: exit status" 0 "$code"
holds "--version: one line with a number" grep -qE '^attentiond [0-9]+\.[0-9]+\.[0-9]+' "$scratch/out"

# ---- configuration ---------------------------------------------------------------------------
repository=--model-repository=$scratch/models
config=$scratch/config.json
run --check-config "$repository"
equal "--check-config, good" 0 "$code"
refuses "an unknown option" 'no-such-option' --no-such-option
refuses "an option without its value" 'http-port' --http-port
refuses "a port that is no number" 'http-port|abc' --http-port=abc
refuses "a port out of range" 'http-port|65536' --http-port=65536
refuses "a negative number" 'workers|-1' --workers=-1
refuses "a word too many" 'extra' extra
refuses "an address that is none" '300.1.2.3' "$repository" --http-address=300.1.2.3 --http-port=0
refuses "a log level that is none" 'log-level|loud' --log-level=loud
refuses "a repository that is not there" '/nonexistent' --model-repository=/nonexistent --http-port=0
refuses "a configuration that is not there" '/nonexistent.json' --config=/nonexistent.json
echo '{"http-port": "x"}' >"$config"
refuses "a bad value in the file: file and key" "$config|http-port" --config="$config"
echo '{"no-such-key": 1}' >"$config"
refuses "an unknown key in the file" "$config|no-such-key" --check-config --config="$config"
printf '{\n  "http-port": 0,\n  oops\n}\n' >"$config"
refuses "a syntax error in the file: line and column" "$config|3" --check-config --config="$config"
ATTENTIOND_HTTP_PORT=zero refuses "a bad value in the environment" 'ATTENTIOND_HTTP_PORT|zero' --check-config

# Who wins: file, then environment, then command line.
first=$(free_port)
second=$(free_port)
third=$(free_port)
echo '{"http-port": '"$first"', "model-repository": "'"$scratch/models"'"}' >"$config"
start_on() { # PORT ARGUMENTS...
    base=http://127.0.0.1:$1
    shift
    launch "$DAEMON" "$@"
    wait_for_start
    ask GET /v2/models/mha
    stop_daemon "it stops"
}
start_on "$first" --config="$config"
expect_status "options come from the file" 200
ATTENTIOND_HTTP_PORT=$second start_on "$second" --config="$config"
expect_status "the environment goes before the file" 200
ATTENTIOND_HTTP_PORT=$second start_on "$third" --config "$config" --http-port "$third"
expect_status "the command line goes before both" 200

# ---- no arguments ----------------------------------------------------------------------------
# As in a source tree: the daemon two folders down, config/ at the top.
mkdir -p "$scratch/tree/build/mode"
cp -P "$DAEMON" "$(dirname "$DAEMON")"/libattention.so* "$scratch/tree/build/mode/"
cp -r "$here/../../config" "$scratch/tree/"
start_unasked "$scratch/tree/build/mode/attentiond"
ask POST /v2/repository/index
expect_json "no arguments: a demo model of every preset" 'len(j) >= 6 and all(m["state"] == "READY" for m in j)'
py -c 'import json, sys
for model in sorted({m["name"] for m in json.load(open(sys.argv[1]))}):
    print(model)' "$scratch/body" >"$scratch/demo-models"
while read -r model; do
    ask GET "/v2/models/$model"
    py "$here/zero_request.py" "$scratch/body" >"$scratch/request"
    infer "$model" "@$scratch/request"
    expect_status "no arguments: $model computes" 200
done <"$scratch/demo-models"
stop_daemon "no arguments: it stops" INT

# ---- a broken model beside good ones ---------------------------------------------------------
cp -r "$scratch/models" "$scratch/broken"
mkdir -p "$scratch/broken"/{syntax,key,kind,noweights,empty}
echo '{"layer": {"kind": "speech_mha",' >"$scratch/broken/syntax/config.json"
echo '{"layer": {"kind": "speech_mha", "num_heads": 2, "d_model": 4, "colour": 1}}' >"$scratch/broken/key/config.json"
echo '{"layer": {"kind": "nonsense"}}' >"$scratch/broken/kind/config.json"
cp "$scratch/models/speech/config.json" "$scratch/broken/noweights/"
mkdir "$scratch/broken/noweights/1"
echo 'not a model' >"$scratch/broken/stray-file"
start_daemon --model-repository="$scratch/broken"
ask POST /v2/repository/index
cp "$scratch/body" "$scratch/index"
expect_json "the index has the good ones" '[m["state"] for m in j if m["name"] == "mha"] == ["READY"]'
for pair in 'syntax config.json' 'key colour' 'kind nonsense' 'noweights model.safetensors'; do
    read -r model reason <<<"$pair"
    expect_json "the index has $model as UNAVAILABLE, with its reason" \
        '[m for m in j if m["name"] == "'"$model"'" and m["state"] == "UNAVAILABLE" and "'"$reason"'" in m["reason"]]' \
        "$scratch/index"
    ask GET "/v2/models/$model/ready"
    expect_status "$model is not ready" 503
    infer "$model" "$good"
    expect_error "$model cannot be asked, and says why" 503 "$reason"
done
infer mha "$good"
expect_status "the good ones compute" 200
ask POST /v2/repository/index --data '{"ready":true}'
expect_json "the index of ready ones leaves the broken ones out" 'all(m["state"] == "READY" for m in j) and len(j) == 10'
ask GET /v2/health/ready
expect_status "ready beside broken models" 200
stop_daemon "it stops beside broken models"
start_daemon --model-repository="$scratch/broken" --strict-readiness
ask GET /v2/health/ready
expect_status "--strict-readiness: not ready" 503
ask GET /v2/health/live
expect_status "--strict-readiness: live" 200
infer mha "$good"
expect_status "--strict-readiness: the good ones compute" 200
stop_daemon "--strict-readiness: it stops"

# ---- the port --------------------------------------------------------------------------------
start_daemon "$repository"
refuses "a port in use: one clear line" "${base##*:}" "$repository" --http-port="${base##*:}"
equal "a port in use: exit status" 1 "$code"
infer mha "$good"
expect_status "a port in use: the first one does not mind" 200
stop_daemon "it stops on SIGINT" INT
if py -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' 2>/dev/null; then
    port=$(free_port)
    start_on6() {
        base="http://[::1]:$port"
        launch "$DAEMON" "$repository" --http-address=::1 --http-port="$port"
        wait_for_start
    }
    start_on6
    infer mha "$good"
    expect_status "IPv6" 200
    stop_daemon "IPv6: it stops"
fi

# ---- the end ---------------------------------------------------------------------------------
# Three heavy requests to one worker with room for one more: the first is at work, and once one of the
# others is refused, the other one waits.
occupy() {
    clients=()
    codes=("$scratch"/code.{1,2,3})
    for file in "${codes[@]}"; do
        heavy -o /dev/null -w '%{http_code}\n' >"$file" &
        clients+=($!)
        [ "${#clients[@]}" -gt 1 ] || wait_for is_at_work
    done
    wait_for grep -qs 503 "${codes[@]}"
}

write_heavy 16
start_daemon "$repository" --workers=1 --queue-size=1
occupy
stop_daemon "SIGTERM with requests at work"
wait "${clients[@]}"
equal "SIGTERM: what was taken in is answered" '200 200 503 ' "$(sort "${codes[@]}" | tr '\n' ' ')"
# One connection that has said nothing, one in the middle of a body.
start_daemon "$repository"
exec 3<>"/dev/tcp/127.0.0.1/${base##*:}" 4<>"/dev/tcp/127.0.0.1/${base##*:}"
printf 'POST /v2/models/mha/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{' >&4
ask GET /v2/health/live
begin=$(date +%s%N)
stop_daemon "SIGTERM with connections open"
took=$((($(date +%s%N) - begin) / 1000000))
holds "SIGTERM with connections open: it does not wait for them ($took ms)" [ "$took" -lt 10000 ]
exec 3>&- 4>&-

# Far more than fits into the patience of the second signal.
write_heavy 40
start_daemon "$repository" --workers=1 --queue-size=1
occupy
begin=$(date +%s%N)
kill -TERM "$daemon_pid"
sleep 0.2
if is_gone "$daemon_pid"; then
    fail "the second signal" "the first one was enough"
else
    kill -TERM "$daemon_pid" 2>/dev/null
    wait_for is_gone "$daemon_pid"
    took=$((($(date +%s%N) - begin) / 1000000))
    wait "$daemon_pid"
    holds "the second signal ends it at once ($took ms)" [ "$took" -lt 2000 ]
fi
daemon_pid=
wait "${clients[@]}"

# ---- the log ---------------------------------------------------------------------------------
start_daemon "$repository" --log-format=json --log-level=debug
infer mha "$good"
infer mha 'junk'
stop_daemon "it stops with a log in JSON"
holds "every line of the log is JSON" py -c 'import json, sys
for line in open(sys.argv[1]):
    entry = json.loads(line)
    assert entry["time"] and entry["level"] and entry["message"], line' "$scratch/log"
finish
