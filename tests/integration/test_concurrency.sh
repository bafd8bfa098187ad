#!/usr/bin/env bash
# Do many clients at once, some of them wrong, each get their own right answer?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models" --workers=4

# Client N asks five times on one connection, in a different order each: its own numbers in JSON, the
# same to another version, a request that is wrong, an unknown model, and metadata.
client() { # N
    local n=$1 folder=$scratch/clients/$1 good wrong
    mkdir -p "$folder"
    good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
        tensor value FP32 '[1,2,4]' "[$n,$n,$n,$n,$n,$n,$n,$n]")" "\"id\":\"client $n\"")
    wrong=$(request "$(tensor query FP32 '[1,1,4]' "[$n]")")
    local steps=(
        "-o $folder/own $base/v2/models/mha/infer good"
        "-o $folder/double $base/v2/models/versions/versions/2/infer good"
        "-o $folder/wrong $base/v2/models/mha/infer wrong"
        "-o $folder/unknown $base/v2/models/nobody$n/infer good"
        "-o $folder/metadata $base/v2/models/mha get"
    )
    local arguments=() i step words
    for ((i = 0; i < 25; i++)); do
        step=${steps[(i + n) % 5]}
        read -ra words <<<"$step"
        arguments+=(${arguments:+--next} -s -m "$PATIENCE" "${words[@]:0:3}" -w '%{http_code}\n')
        case ${words[3]} in
        good) arguments+=(--data-binary "$good") ;;
        wrong) arguments+=(--data-binary "$wrong") ;;
        esac
    done
    curl "${arguments[@]}" | sort | uniq -c | tr -s ' \n' ' ' >"$folder/statuses"
}
clients=()
for n in $(seq 1 32); do
    client "$n" &
    clients+=($!)
done
wait "${clients[@]}"
for n in $(seq 1 32); do
    folder=$scratch/clients/$n
    equal "client $n: statuses" ' 15 200 5 400 5 404 ' "$(cat "$folder/statuses")"
    contains "client $n: its own id" "client $n\"" "$folder/own"
    contains "client $n: its own error" "query" "$folder/wrong"
    contains "client $n: its own model" "nobody$n" "$folder/unknown"
done
holds "every client has its own numbers" py -c 'import json, sys
for n in range(1, 33):
    for name, factor in (("own", 1), ("double", 2)):
        reply = json.load(open("%s/%d/%s" % (sys.argv[1], n, name)))
        assert reply["outputs"][0]["data"] == [n * factor] * 4, reply
        assert reply["id"] == "client %d" % n, reply' "$scratch/clients"

# Clients that hang up in the middle take nothing from the others, and leave nothing behind.
small=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[7,7,7,7,7,7,7,7]')")
printf '%s' "$small" >"$scratch/small"
py "$here/leavers.py" "${base##*:}" /v2/models/mha/infer "$scratch/small" 500 &
leavers=$!
for n in 1 2 3 4 5 6 7 8 9 10; do
    infer mha "$small"
    expect_status "beside clients that leave: $n" 200
done
wait "$leavers"
equal "the clients that leave could ask" 0 $?
nothing_is_held() {
    metric_is 0 attentiond_requests_in_flight && metric_is 0 attentiond_queue_bytes
}
holds "nothing is held of those that left" wait_for nothing_is_held
n_asked=$(metric attentiond_requests_total 'model="mha"')
n_ended=$(($(metric attentiond_requests_total 'model="mha"' 'outcome="success"') +
    $(metric attentiond_requests_total 'model="mha"' 'outcome="canceled"') +
    $(metric attentiond_requests_total 'model="mha"' 'outcome="other"')))
equal "each of them is counted once" "$n_asked" "$n_ended"
echo "concurrency: $(metric attentiond_requests_total 'model="mha"' 'outcome="canceled"') of $n_asked had left before their answer"

# A request large enough that idle workers join in: the same bytes whatever their number.
stop_daemon "the daemon stops after its clients"
shape='[2,1500,4]'
large=$(request "$(binary_tensor query FP32 "$shape" 48000),$(binary_tensor key FP32 "$shape" 48000),$(
    binary_tensor value FP32 "$shape" 48000)" '"parameters":{"binary_data_output":true}')
py -c 'import random, struct, sys
random.seed(1)
sys.stdout.buffer.write(struct.pack("<36000f", *(random.uniform(-2, 2) for i in range(36000))))' \
    >"$scratch/rows"
for workers in 1 2 4; do
    start_daemon --model-repository="$scratch/models" --workers=$workers
    for n in 1 2 3; do
        infer_binary mha "$large" "$scratch/rows"
        expect_status "$workers workers: a large request" 200
        cp "$scratch/body" "$scratch/large-$workers-$n"
        holds "$workers workers: the bytes of one worker" \
            cmp "$scratch/large-1-1" "$scratch/large-$workers-$n"
    done
    [ "$workers" = 4 ] || stop_daemon "$workers workers stop"
done
finish
