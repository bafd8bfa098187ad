#!/usr/bin/env bash
# Does the daemon write where its options say, and nowhere else? By the files that are there afterwards, and where
# strace is installed by every call that could change one.
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
mkdir "$scratch"/{run,logs,home,tmp,work}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/tls.key" -out "$scratch/tls.pem" \
    -days 2 -subj /CN=localhost 2>/dev/null
printf '{"keys":[{"name":"a","sha256":"%s","admin":true}]}' "$(printf key | sha256sum | cut -c 1-64)" >"$scratch/keys.json"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
token=$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]')" '"parameters":{"sequence_id":7,"sequence_start":true}')

object=attentiond_writes_$$
head -c 16 /dev/zero >/dev/shm/$object
trap 'rm -f /dev/shm/$object; cleanup' EXIT

# Those that there are, but for the suite's own.
files() {
    (cd "$scratch" && find . -type f ! -name log ! -name files ! -name calls ! -name trace ! -name holds ! -name body \
        ! -name head | sort)
}

run_all() { # COMMAND...
    cp -r "$scratch/models" "$scratch/before"
    (cd "$scratch/work" && files >"$scratch/files")
    local port
    port=$(free_port)
    base=https://127.0.0.1:$port
    launch env -C "$scratch/work" HOME="$scratch/home" TMPDIR="$scratch/tmp" "$@" "$DAEMON" --http-port="$port" \
        --model-repository="$scratch/models" --model-control-mode=explicit --load-model='*' --api-keys="$scratch/keys.json" \
        --tls-certificate="$scratch/tls.pem" --tls-key="$scratch/tls.key" --http-unix-socket="$scratch/run/socket" \
        --log-dir="$scratch/logs" --log-level=debug --trace-file="$scratch/traces" --trace-rate=1 --allow-client-shm
    wait_for started_or_gone
    local with=(--insecure -H 'X-API-Key: key')
    infer mha "$good" "${with[@]}"
    expect_status "$1: infer" 200
    infer causal "$token" "${with[@]}"
    expect_status "$1: a step of a sequence" 200
    ask GET /v2/models/causal/sequences/7 "${with[@]}"
    expect_status "$1: a sequence is fetched" 200
    cp "$scratch/body" "$scratch/holds"
    ask POST /v2/models/causal/sequences/8 "${with[@]}" --data-binary "@$scratch/holds"
    expect_status "$1: ... and brought" 200
    for action in unload load; do
        ask POST /v2/repository/models/mha/$action "${with[@]}"
        expect_status "$1: $action" 200
    done
    ask POST /v2/repository/models/sent/load "${with[@]}" --data-binary \
        '{"parameters":{"config":"{\"layer\":{\"kind\":\"routing_mha\",\"embedding_dim\":4,\"n_heads\":2}}","file:1/model.safetensors":"'"$(
            base64 -w 0 "$scratch/models/mha/1/model.safetensors")"'"}}'
    expect_status "$1: a model that is sent" 200
    ask POST /v2/logging "${with[@]}" --data '{"log_file":"written"}'
    expect_status "$1: a file for the log" 200
    ask POST /v2/systemsharedmemory/region/r/register "${with[@]}" --data '{"key":"/'"$object"'","offset":0,"byte_size":16}'
    expect_status "$1: memory that a client shares" 200
    ask GET /metrics "${with[@]}"
    expect_status "$1: metrics" 200
    kill -HUP "$(running)"
    wait_for grep -q reloading "$scratch/logs/written"
    kill -TERM "$(running)"
    wait_for is_gone "$daemon_pid"
    wait "$daemon_pid"
    equal "$1: it stops" 0 $?
    daemon_pid=
}

# The daemon itself, where something else has started it.
running() {
    pgrep -f -- "--http-unix-socket=$scratch/run/socket" | tail -n 1
}

leaves() { # NAME
    equal "$1: new files" './logs/written ./traces ' "$(comm -13 "$scratch/files" <(files) | grep -v ^./before | tr '\n' ' ')"
    holds "$1: the models are as they were" diff -r "$scratch/models" "$scratch/before"
    rm -rf "$scratch"/{before,traces,logs/written}
}

run_all nice
leaves "by files"
if strace -o /dev/null true 2>/dev/null; then
    run_all strace -f -qq -e signal=none -e trace=%file,bind -o "$scratch/trace"
    leaves "by calls"
    # but for the counters of a build that measures coverage
    py "$here/writes.py" "$scratch/trace" | sed -E "s|$scratch||g; /\.gcda$/d" | sort -u >"$scratch/calls"
    equal "by calls: what is changed" "bind /run/socket
chmod /run/socket
open /dev/shm/$object
open /traces
open written
unlink /run/socket" "$(cat "$scratch/calls")"
fi
finish
