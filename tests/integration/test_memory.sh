#!/usr/bin/env bash
# Does a request take no more memory than its body, the tensors that have to be converted, and the result; and a client
# that announces much and sends little next to none?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"

# Pages of a run-time that sees every access come on top of what is measured here.
if grep -q -a -e __asan_init -e __tsan_init "$DAEMON" || [ -n "${VALGRIND:-}" ]; then
    pass "memory is not measured with a sanitizer"
    finish
fi

# What the daemon itself grows by beside a request: stacks, scratch, a large page at the end of each block.
SLACK=$((8 << 10))

peak() { # in KiB
    sed -nE 's/^VmHWM:\s+([0-9]+) kB$/\1/p' "/proc/$daemon_pid/status"
}

# Send the file to a daemon that has seen nothing yet: takes NAME KIB CURL-ARGUMENTS...
takes() {
    local name=$1 most=$(($2 + SLACK)) before grown
    shift 2
    start_daemon --model-repository="$scratch/models" --http-max-input-size=67108864
    before=$(peak)
    ask POST /v2/models/mha/infer -H 'Expect:' "$@"
    expect_status "$name" 200
    grown=$(($(peak) - before))
    holds "$name: $grown KiB, at most $most" [ "$grown" -le "$most" ]
    stop_daemon "$name: it stops"
}

kib() { # FILE
    echo $(($(stat -c %s "$1") >> 10))
}

n=24000
tensors=$(binary_tensor query FP32 "[$n,1,4]" $((n * 16))),$(binary_tensor key FP32 "[$n,64,4]" $((n * 1024))),$(
    binary_tensor value FP32 "[$n,64,4]" $((n * 1024)))
json=$(request "$tensors" '"parameters":{"binary_data_output":true}')
length=(-H "Inference-Header-Content-Length: ${#json}")
{ printf '%s' "$json"; head -c $((n * 2064)) /dev/zero; } >"$scratch/binary"
result=$((n * 16 >> 10))
takes "48 MB of bytes" $(($(kib "$scratch/binary") + result)) --data-binary "@$scratch/binary" "${length[@]}"
takes "48 MB of bytes in chunks" $(($(kib "$scratch/binary") + result)) --data-binary "@$scratch/binary" "${length[@]}" \
    -H 'Transfer-Encoding: chunked'
py "$here/coded.py" pack gzip <"$scratch/binary" >"$scratch/gzip"
takes "48 MB of bytes in gzip" $(($(kib "$scratch/binary") + $(kib "$scratch/gzip") + result)) \
    --data-binary "@$scratch/gzip" "${length[@]}" -H 'Content-Encoding: gzip'

# All of it becomes floats, and the answer is written in JSON too.
n=9000
py "$here/memory.py" json $n 64 >"$scratch/json"
needed=$(($(kib "$scratch/json") + (n * 2064 >> 10) + (n * 16 >> 10) + (n * 48 >> 10)))
takes "40 MB of JSON" $needed --data-binary "@$scratch/json"
takes "40 MB of JSON in chunks" $needed --data-binary "@$scratch/json" -H 'Transfer-Encoding: chunked'

start_daemon --model-repository="$scratch/models"
ask GET /v2/health/live
grown=$(py "$here/memory.py" slow "${base##*:}" 200 60000000 1024 "$daemon_pid")
holds "200 clients that announce 60 MB and send 1 KB: $grown KiB" [ "$grown" -le 16384 ]
finish
