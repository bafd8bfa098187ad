#!/usr/bin/env bash
# Is a queue bounded exactly, for a model and for all; are priorities and deadlines kept while every worker is busy; is
# what waits bounded in bytes; is a client that has gone dropped before its request is computed?
. "$(dirname "$0")/lib.sh"
layer='"layer":{"kind":"routing_mha","embedding_dim":4,"n_heads":2},"dynamic_batching":{"max_batch_requests":1}'
model() { # NAME [POLICY]
    py "$here/models.py" layer "$scratch/models/$1" routing_mha "{$layer${2:+,\"queue_policy\":$2}}"
}
model plain
model other
model three '{"max_queue_size":3}'
model levels '{"priority_levels":3,"default_priority_level":2}'
model timed '{"default_timeout_microseconds":50000}'
py "$here/models.py" layer "$scratch/models/holder" speech_mha

# A body that is too large to be served in the middle of another request, and takes no time to compute.
n=2500
bulky_json() { # [PARAMETERS]
    request "$(binary_tensor query FP32 '[1,1,4]' 16),$(binary_tensor key FP32 "[1,$n,4]" $((n * 16))),$(
        binary_tensor value FP32 "[1,$n,4]" $((n * 16)))" "\"parameters\":{$1}"
}
bulky() { # MODEL NAME [PARAMETERS [CURL-ARGUMENTS...]]
    local model=$1 name=$2 json
    json=$(bulky_json "${3:-}")
    shift 2
    { printf '%s' "$json"; head -c $((n * 32 + 16)) /dev/zero; } >"$scratch/$name.request"
    curl -s -m "$PATIENCE" --data-binary "@$scratch/$name.request" -H "Inference-Header-Content-Length: ${#json}" -H 'Expect:' \
        -H "X-Request-Id: $name" -o "$scratch/$name.body" -D "$scratch/$name.head" -w '%{http_code} %{time_total}' "${@:2}" \
        "$base/v2/models/$model/infer" >"$scratch/$name.code"
}
answer_of() { # NAME
    echo "$(cut -d ' ' -f 1 "$scratch/$1.code") $(sed -nE 's/.*"code":"([a-z_]+)".*/\1/p' "$scratch/$1.body")"
}

# Keep the worker busy for some seconds, by a request of as many samples as that takes here.
zeros=$(printf '0,%.0s' {1..4799})0
one=$(tensor k FP32 '[1,1200,4]' "[$zeros]"),$(tensor v FP32 '[1,1200,4]' "[$zeros]"),$(tensor q FP32 '[1,1200,4]' "[$zeros]")
write_hold() { # SAMPLES
    request "$one" "\"parameters\":{\"training\":true,\"seed\":1,\"samples\":$1},\"outputs\":[{\"name\":\"output.mean\"}]" >"$scratch/hold"
}
send_hold() {
    curl -s -m 120 --data-binary "@$scratch/hold" -H 'Expect:' -o "$scratch/held" -w '%{http_code}\n' "$base/v2/models/holder/infer"
}
hold() {
    send_hold >"$scratch/held.code" &
    holder=$!
    wait_for metric_is 1 attentiond_requests_running 'model="holder"'
}
is_held() {
    [ ! -s "$scratch/held.code" ]
}
waits() { # NUMBER MODEL
    wait_for metric_is "$1" attentiond_requests_waiting "model=\"$2\""
}
release() { # NAME
    holds "$1: all the while the worker was busy" is_held
    wait "$holder"
    equal "$1: what kept it busy is answered" 200 "$(cat "$scratch/held.code")"
}
serve() { # ARGUMENTS...
    start_daemon --model-repository="$scratch/models" --workers=1 --log-level=debug --log-format=json "$@"
}

# ---- how many may wait -----------------------------------------------------------------------
serve --queue-size=5
write_hold 16
fastest=60000
for _ in 1 2 3 4; do
    begin=$(date +%s%N)
    equal "a request that takes its time" 200 "$(send_hold)"
    took=$((($(date +%s%N) - begin) / 1000000 + 1))
    fastest=$((took < fastest ? took : fastest))
done
write_hold $((fastest < 94 ? 1024 : 96000 / fastest)) # some six seconds
hold
clients=()
for i in 1 2 3; do
    bulky three "w$i" &
    clients+=($!)
done
holds "max_queue_size: three wait" waits 3 three
for i in 1 2 3; do
    bulky three refused
    equal "max_queue_size: one more is refused ($i)" '503 queue_full' "$(answer_of refused)"
done
holds "... and told when to come back" grep -qi '^Retry-After: 1' "$scratch/refused.head"
contains "... and why" '3 requests|three|max_queue_size' "$scratch/refused.body"
for i in 4 5 6 7 8; do
    bulky plain "w$i" &
    clients+=($!)
done
holds "--queue-size: five of another model wait" waits 5 plain
bulky plain refused
equal "--queue-size: one more is refused" '503 queue_full' "$(answer_of refused)"
contains "... and told why" '5 requests|plain|--queue-size' "$scratch/refused.body"
bulky other w9 &
clients+=($!)
holds "a third model has room" waits 1 other
equal "what waits, in all" 9 "$(metric attentiond_queue_length)"
equal "what is in flight" 10 "$(metric attentiond_requests_in_flight)"
release "queue size"
wait "${clients[@]}"
for i in 1 2 3 4 5 6 7 8 9; do
    equal "queue size: w$i is answered" '200 ' "$(answer_of "w$i")"
done
equal "refusals are counted" 4 "$(metric attentiond_requests_rejected_total 'reason="queue_full"')"
equal "... with their model" 3 "$(metric attentiond_requests_total 'model="three"' 'outcome="rejected"')"
equal "nothing is held any more" '0 0' "$(metric attentiond_queue_bytes) $(metric attentiond_requests_in_flight)"
stop_daemon "queue size: it stops"

# ---- priorities ------------------------------------------------------------------------------
serve --trace-file="$scratch/traces"
hold
clients=()
i=0
for priority in 3 0 1 9 2 1 3; do
    i=$((i + 1))
    bulky levels "p$i" "\"priority\":$priority" &
    clients+=($!)
    waits "$i" levels
done
bulky levels bad '"priority":-1,"timeout":1' # a bad parameter does not keep it from having a deadline
equal "a bad priority beside a deadline" '503 timeout' "$(answer_of bad)"
release "priorities"
wait "${clients[@]}"
equal "the highest priority first, then by age; none and what is not one count as the default" \
    'p3 p6 p2 p4 p5 p1 p7' "$(py "$here/order.py" "$scratch/traces" p)"
bulky levels bad '"priority":-1'
equal "a negative priority" '400 ' "$(answer_of bad)"
bulky levels bad '"priority":"first"'
equal "a priority of a kind" '400 ' "$(answer_of bad)"
stop_daemon "priorities: it stops"

# ---- deadlines -------------------------------------------------------------------------------
serve
hold
expires() { # NAME REQUEST
    local took
    equal "$1: refused when its time is over" '503 timeout' "$(answer_of "$2")"
    took=$(cut -d ' ' -f 2 "$scratch/$2.code")
    holds "$1: soon after that ($took s)" py -c 'import sys; sys.exit(not 0.05 <= float(sys.argv[1]) < 1.05)' "$took"
    echo "queue: $1: 50 ms are over, answered after $took s"
    holds "$1: told when to come back" grep -qi '^Retry-After: 1' "$scratch/$2.head"
}
bulky plain late '"timeout":50000'
expires "a timeout of 50 ms" late
bulky timed late
expires "a default of 50 ms" late
bulky timed unhurried '"timeout":60000000' &
client=$!
values=$(printf '0,%.0s' {1..39999})0
printf '%s' "$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,10000,4]' "[$values]"),$(
    tensor value FP32 '[1,10000,4]' "[$values]")" '"parameters":{"timeout":50000}')" >"$scratch/long.request"
curl -s -m "$PATIENCE" --data-binary "@$scratch/long.request" -H 'Expect:' -o "$scratch/long.body" -D "$scratch/long.head" \
    -w '%{http_code} %{time_total}' "$base/v2/models/plain/infer" >"$scratch/long.code"
expires "a timeout at the end of a long body" long
equal "nothing was begun of what had expired" 0 "$(metric attentiond_passes_total 'model="plain"')"
release "deadlines"
wait "$client"
equal "a request's own time goes before the default" '200 ' "$(answer_of unhurried)"
bulky plain early '"timeout":60000000'
equal "a timeout that does not come to pass" '200 ' "$(answer_of early)"
bulky plain none '"timeout":0'
equal "a timeout of 0 is none" '200 ' "$(answer_of none)"
bulky plain bad '"timeout":-1'
equal "a negative timeout" '400 ' "$(answer_of bad)"
bulky plain bad '"timeout":"soon"'
equal "a timeout of a kind" '400 ' "$(answer_of bad)"
equal "what expired is counted" 3 "$(metric attentiond_requests_rejected_total 'reason="timeout"')"
stop_daemon "deadlines: it stops"

# ---- memory ----------------------------------------------------------------------------------
serve --queue-memory=2000000
hold
clients=()
for i in $(seq 1 40); do
    bulky plain "m$i" &
    clients+=($!)
done
sent_back() { # NUMBER
    [ "$(($(metric attentiond_queue_length) + $(metric attentiond_requests_rejected_total 'reason="memory"')))" = "$1" ]
}
holds "--queue-memory: 40 times 80 KB are taken in or sent back" wait_for sent_back 40
echo "queue: of 40 times 80 KB $(metric attentiond_queue_length) fit into the half of 2 MB, $(metric attentiond_queue_bytes) bytes"
holds "--queue-memory: no more than half for one model" [ "$(metric attentiond_queue_bytes)" -le 1100000 ]
bulky other guest &
clients+=($!)
holds "--queue-memory: another model has room" waits 1 other
release "memory"
wait "${clients[@]}"
equal "... and is served" '200 ' "$(answer_of guest)"
served=0
refused=0
for i in $(seq 1 40); do
    case $(answer_of "m$i") in
    '200 ') served=$((served + 1)) ;;
    '503 memory') refused=$((refused + 1)) ;;
    *) fail "an answer of 40" "$(answer_of "m$i")" ;;
    esac
done
holds "--queue-memory: served $served, refused $refused of 40" [ $((served + refused)) = 40 -a $served -ge 5 -a $refused -ge 5 ]
equal "nothing is held any more" '0 0' "$(metric attentiond_queue_bytes) $(metric attentiond_requests_in_flight)"
bulky plain after
equal "afterwards there is room" '200 ' "$(answer_of after)"
stop_daemon "memory: it stops"

# ---- clients that go -------------------------------------------------------------------------
serve
hold
for i in 1 2 3; do
    bulky plain "gone$i" &
    client=$!
    holds "clients that go: request $i waits" waits 1 plain
    kill "$(cat "/proc/$client/task/$client/children")" # curl, of this client
    wait "$client"
    holds "clients that go: request $i is dropped while the worker is busy" \
        wait_for metric_is "$i" attentiond_requests_rejected_total 'reason="canceled"'
done
py "$here/raw.py" "${base##*:}" queued_gone
equal "many go at once" 0 $?
holds "... dropped too" wait_for metric_is 23 attentiond_requests_rejected_total 'reason="canceled"'
bulky plain stays &
client=$!
holds "... and the one that stays waits" waits 1 plain
equal "... with its bytes alone" 1 "$(metric attentiond_queue_length)"
equal "each that is dropped is counted" '23 23' "$(metric attentiond_requests_total 'model="plain"' 'outcome="canceled"') $(
    metric attentiond_http_requests_total 'code="499"')"
equal "... and logged" 23 "$(grep -c '"model":"plain".*"status":499' "$scratch/log")"
contains "... with its name" 'gone1|gone2|gone3' "$scratch/log"
py "$here/raw.py" "${base##*:}" queued_half
equal "a client that closes its half is gone too" 0 $?
release "clients that go"
wait "$client"
equal "the one that stays is served" '200 ' "$(answer_of stays)"
equal "nothing was computed for those that went" 1 "$(metric attentiond_passes_total 'model="plain"')"
equal "nothing is held any more" '0 0' "$(metric attentiond_queue_bytes) $(metric attentiond_requests_in_flight)"
stop_daemon "clients that go: it stops"

# ---- bad settings ----------------------------------------------------------------------------
bad() { # NAME TEXTS SETTINGS
    rm -rf "$scratch/bad"
    py "$here/models.py" layer "$scratch/bad/m" routing_mha "{$layer,\"queue_policy\":$3}"
    "$DAEMON" --check-config --model-repository="$scratch/bad" >"$scratch/checked" 2>&1
    contains "$1" "$2" "$scratch/checked"
}
bad "too many levels"     'config.json|queue_policy.priority_levels|16|17' '{"priority_levels":17}'
bad "a level that is none" 'default_priority_level|3|4'     '{"priority_levels":3,"default_priority_level":4}'
bad "a negative size"     'max_queue_size|-1'               '{"max_queue_size":-1}'
bad "a timeout of a kind" 'default_timeout_microseconds'    '{"default_timeout_microseconds":"1s"}'
bad "an unknown setting"  'queue_policy|timeout_action'     '{"timeout_action":"DELAY"}'
bad "settings of a kind"  'queue_policy|object'             '[]'
finish
