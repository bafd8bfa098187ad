#!/usr/bin/env bash
# Do metrics, statistics, log and traces tell operators what happened: every request counted once with what became of
# it, in formats that their tools take, and nothing of it at a client's choice?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
py "$here/models.py" layer "$scratch/models/waits" routing_mha '{"layer":{"kind":"routing_mha","embedding_dim":4,"n_heads":2},
    "dynamic_batching":{"max_queue_delay_microseconds":1500000},"queue_policy":{"max_queue_size":1}}'
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
serve() { # ARGUMENTS...
    start_daemon --model-repository="$scratch/models" --model-control-mode=explicit \
        --load-model=mha,speech,nan,causal,relational,waits,versions "$@"
}

# ---- the page --------------------------------------------------------------------------------
serve
for _ in 1 2 3; do
    infer mha "$good"
done
infer versions/versions/2 "$good"
infer mha junk
declare -A types=([text]='text/plain; version=0.0.4; charset=utf-8'
    [open]='application/openmetrics-text; version=1.0.0; charset=utf-8')
prometheus3='application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'
page() { # NAME FORM ACCEPT
    ask GET /metrics -H "Accept:$3"
    expect_status "$1: status" 200
    equal "$1: type" "${types[$2]}" "$(header Content-Type)"
}
page "no Accept" text ''
holds "text is well formed" "$PYTHON" -I "$here/exposition.py" text "$scratch/body"
cp "$scratch/body" "$scratch/text"
page "OpenMetrics" open ' application/openmetrics-text; version=1.0.0; charset=utf-8'
holds "OpenMetrics is well formed" "$PYTHON" -I "$here/exposition.py" openmetrics "$scratch/body"
page "what Prometheus 3 asks" open " $prometheus3"
page "anything" text ' */*'
page "text alone" text ' text/plain'
page "text rather" text ' application/openmetrics-text;q=0.3, text/plain;q=0.4'
page "OpenMetrics not at all" text ' application/openmetrics-text;q=0, */*;q=0.1'
page "an OpenMetrics that we do not have" text ' application/openmetrics-text;version=2.0.0'
page "a browser" text ' text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
page "nonsense" text ' ;;;q=,"'
ask HEAD /metrics
equal "HEAD: type" "${types[text]}" "$(header Content-Type)"
ask POST /metrics --data x
expect_error "POST" 405 'GET'
contains "Triton's names too" 'nv_inference_request_success{model="mha",version="1"} 3|nv_inference_request_failure{model="mha",version="1",reason="OTHER"} 1|nv_inference_count{|nv_inference_exec_count{|nv_inference_request_duration_us{|nv_inference_queue_duration_us{|nv_inference_compute_input_duration_us{|nv_inference_compute_infer_duration_us{|nv_inference_compute_output_duration_us{|nv_inference_pending_request_count{' "$scratch/text"
contains "the native ones" 'attentiond_requests_total{model="mha",version="1",outcome="success"} 3|attentiond_request_duration_seconds_bucket{|attentiond_queue_duration_seconds_sum{|attentiond_compute_duration_seconds_count{model="mha",version="1"} 3|attentiond_batch_size_bucket{|attentiond_model_loaded{model="versions",version="10"} 1|attentiond_queue_length 0|attentiond_sequences_active 0|attentiond_kv_cache_bytes 0|attentiond_build_info{version=|process_resident_memory_bytes|process_open_fds' "$scratch/text"
equal "the version that was asked" 1 "$(metric attentiond_requests_total 'model="versions"' 'version="2"' 'outcome="success"')"
stop_daemon "the page: it stops"
serve --metrics-triton=false
infer mha "$good"
page "without Triton's names" text ''
holds "... there are none" test -z "$(grep nv_ "$scratch/body")"
if command -v promtool >/dev/null; then
    equal "promtool has nothing to say" '' "$(promtool check metrics <"$scratch/body" 2>&1)"
fi
stop_daemon "without Triton's names: it stops"

# ---- every request is counted once -----------------------------------------------------------
serve --queue-memory=1048576 --sequence-max=1 --http-max-input-size=1000000 --http-max-output-size=40000 --trace-file="$scratch/traces"
: >"$scratch/sent"
n_sent=0
# Send a request, and note which status came and what has to be counted for the model: counted OUTCOME STATUS ARGUMENTS
counted() {
    local outcome=$1 expected=$2
    shift 2
    n_sent=$((n_sent + 1))
    "$@"
    echo "$status $outcome" >>"$scratch/sent"
    equal "request $n_sent ($outcome): $*" "$expected" "$status"
}
post() { # PATH BODY [CURL-ARGUMENTS...]
    ask POST "$1" --data-binary "$2" "${@:3}"
}
blocked=$(request "$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor mask BOOL '[1,1,2]' '[false,false]')")
token=$(tensor input FP32 '[1,1,4]' '[1,2,3,4]')
for _ in 1 2 3 4; do
    counted success 200 infer mha "$good"
done
counted success 200 infer versions/versions/2 "$good"
counted success 200 gradient mha "${good/\"inputs\":[/\"inputs\":[$(tensor grad_output FP32 '[1,1,4]' '[1,2,3,4]'),}"
counted success 200 infer causal "$(request "$token" '"parameters":{"sequence_id":1,"sequence_start":true}')"
counted other 400 infer mha junk
counted other 400 infer mha ''
counted other 400 infer mha "${good/query/queries}"
counted other 400 infer mha "${good/\[1,1,4\]/[1,2,4]}"
counted other 400 infer mha "$good" -H 'Inference-Header-Content-Length: 99999'
counted other 400 infer mha "${good%\}},\"parameters\":{\"timeout\":-1}}"
counted other 400 gradient mha "$good"
counted other 400 infer causal "$(request "$token" '"parameters":{"sequence_start":true}')"
counted other 409 infer causal "$(request "$token" '"parameters":{"sequence_id":2}')"
counted rejected 503 infer causal "$(request "$token" '"parameters":{"sequence_id":2,"sequence_start":true}')"
counted other 413 infer mha "$(request "$(tensor query FP32 '[1,2600,4]' "[$(printf '0,%.0s' {1..10399})0]"),$(tensor key FP32 '[1,0,4]' '[]'),$(tensor value FP32 '[1,0,4]' '[]')")"
counted other 422 infer nan "$blocked"
counted other 501 infer mha "${good%\}},\"outputs\":[{\"name\":\"out\",\"parameters\":{\"classification\":1}}]}"
head -c 600000 /dev/zero >"$scratch/zeros"
counted other 413 post /v2/models/mha/infer "@$scratch/zeros"
contains "... which no one may take of the memory for all" '--queue-memory' "$scratch/body"
head -c 2000000 /dev/zero >"$scratch/zeros"
counted other 413 post /v2/models/mha/infer "@$scratch/zeros"
counted other 415 infer mha "$good" -H 'Content-Encoding: br'
counted other 400 infer mha "$good" -H 'Inference-Header-Content-Length: 0'
counted rejected 503 infer waits "${good%\}},\"parameters\":{\"timeout\":20000}}"
contains "... for its time" '"timeout"' "$scratch/body"
{
    printf '%s' "$good"
    head -c 400000 /dev/zero | tr '\0' ' '
} >"$scratch/long"
post /v2/models/waits/infer "@$scratch/long" &
waiting=$!
wait_for metric_is 1 attentiond_requests_waiting 'model="waits"'
counted rejected 503 infer waits "$good"
contains "... for want of room" '"queue_full"' "$scratch/body"
head -c 400000 /dev/zero >"$scratch/zeros"
counted rejected 503 post /v2/models/mha/infer "@$scratch/zeros"
contains "... for want of memory" '"memory"' "$scratch/body"
wait "$waiting"
status=200
counted success 200 :
leave() {
    curl -s -m 0.4 --data-binary "$good" "$base/v2/models/waits/infer"
    status=499
    wait_for metric_is 1 attentiond_requests_total 'model="waits"' 'outcome="canceled"'
}
counted canceled 499 leave
ask POST /v2/repository/models/speech/unload
# of no model that is served, so in the routes' counts alone
counted none 503 infer speech "$blocked"
counted none 404 infer nobody "$good"
counted none 404 infer versions/versions/3 "$good"
counted none 404 infer mha/versions/x "$good"
counted none 405 ask PUT /v2/models/mha/infer --data x
counted none 405 ask GET /v2/models/mha/gradient
counted none 400 post /v2/models/%2e%2e/infer "$good"
counted none 404 post /v2/nowhere "$good"
ask GET /metrics
cp "$scratch/body" "$scratch/before"
py "$here/counted.py" "$scratch/before" "$scratch/sent" >"$scratch/said"
equal "as many as were sent, by status and by outcome" 'the same' "$(cat "$scratch/said")"
for reason in queue_full timeout memory not_loaded canceled; do
    equal "rejected: $reason" 1 "$(metric attentiond_requests_rejected_total "reason=\"$reason\"")"
done
equal "rejected: sequence" 2 "$(metric attentiond_requests_rejected_total 'reason="sequence"')"

# ---- what clients cannot do ------------------------------------------------------------------
lines=$(curl -s "$base/metrics" | wc -l)
for n in $(seq 1 30); do
    printf 'url = "%s/v2/models/invented%s/infer"\ndata = "x"\noutput = /dev/null\nnext\n' "$base" "$n"
    printf 'url = "%s/invented/%s"\nrequest = "INVENT%s"\noutput = /dev/null\nnext\n' "$base" "$n" "$n"
    printf 'url = "%s/v2/models/mha/infer"\ndata = "x"\nheader = "X-Request-Id: invented%s"\noutput = /dev/null\n' "$base" "$n"
    [ "$n" = 30 ] || echo next
done | curl -s -K -
ask GET /metrics
holds "no label is a client's invention" test -z "$(grep -i invent "$scratch/body")"
holds "... and the page does not grow ($lines lines, then $(wc -l <"$scratch/body"))" [ "$(wc -l <"$scratch/body")" -le $((lines + 2)) ]

# ---- statistics ------------------------------------------------------------------------------
ask GET /v2/models/mha/stats
expect_json "statistics of a model: every field that perf_analyzer reads" '[(m["name"], m["version"]) for m in j["model_stats"]] == [("mha", "1")] and all(
    set(m) >= {"name", "version", "last_inference", "inference_count", "execution_count", "inference_stats", "response_stats", "batch_stats", "memory_usage"} and
    set(m["inference_stats"]) == {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"} and
    all(set(d) == {"count", "ns"} for d in m["inference_stats"].values()) for m in j["model_stats"])'
expect_json "... and its numbers" '[(m["inference_count"], m["inference_stats"]["success"]["count"], m["inference_stats"]["queue"]["count"],
    m["inference_stats"]["compute_infer"]["count"]) for m in j["model_stats"]] == [(5, 5, 5, 5)] and
    0 < j["model_stats"][0]["execution_count"] <= 5 and j["model_stats"][0]["last_inference"] > 1.6e12 and
    j["model_stats"][0]["inference_stats"]["success"]["ns"] > j["model_stats"][0]["inference_stats"]["compute_infer"]["ns"] > 0 and
    sum(b["compute_infer"]["count"] for b in j["model_stats"][0]["batch_stats"]) == j["model_stats"][0]["execution_count"] and
    j["model_stats"][0]["memory_usage"][0]["byte_size"] > 0'
ask GET /v2/models/versions/stats
expect_json "statistics of all versions" '[m["version"] for m in j["model_stats"]] == ["1", "2", "10"]'
ask GET /v2/models/versions/versions/2/stats
expect_json "statistics of one" '[(m["version"], m["inference_count"]) for m in j["model_stats"]] == [("2", 1)]'
ask GET /v2/models/stats
expect_json "statistics of all models" '{m["name"] for m in j["model_stats"]} == {"mha", "nan", "causal", "relational", "waits", "versions"}'
ask GET /v2/models/nobody/stats
expect_error "statistics of no model" 404 'nobody'
ask GET /v2/models/speech/stats
expect_error "statistics of one that is not loaded" 503 'speech'
ask GET /v2
expect_json "the extensions" '{"statistics", "logging", "model_repository", "schedule_policy", "sequence"} <= set(j["extensions"])'

# ---- series come and go ----------------------------------------------------------------------
equal "what is not loaded has no series" 0 "$(curl -s "$base/metrics" | grep -c 'model="speech"')"
ask POST /v2/repository/models/mha/unload
equal "... of what was unloaded" 0 "$(curl -s "$base/metrics" | grep -c 'model="mha"')"
ask POST /v2/repository/models/mha/load
equal "they come again" 1 "$(metric attentiond_model_loaded 'model="mha"')"
for _ in 1 2; do
    infer mha "$good"
done
ask POST /v2/repository/models/mha/load
infer mha "$good"
equal "a reload takes the counts along" 3 "$(metric attentiond_requests_total 'model="mha"' 'outcome="success"')"

# ---- request ids and times -------------------------------------------------------------------
infer mha "$good" -H 'X-Request-Id: my id 1'
equal "a request's id comes back" 'my id 1' "$(header X-Request-Id)"
infer mha junk
holds "one without has one made" grep -qE '^[0-9a-f]{16}$' <(header X-Request-Id)
id=$(header X-Request-Id)
contains "... which is in the log" "$id|JSON" <(grep -F "$id" "$scratch/log")
ask GET /v2/health/live -H "X-Request-Id: $(printf 'x%.0s' {1..300})"
holds "one that is too long is replaced" grep -qE '^[0-9a-f]{16}$' <(header X-Request-Id)
ask GET /v2/nowhere -H 'X-Request-Id: lost'
equal "errors have it too" lost "$(header X-Request-Id)"
infer mha "$good"
equal "no times unasked" '' "$(header Server-Timing)"
infer mha "$good" -H 'Server-Timing: ?1'
holds "times when asked" grep -qE '^queue;dur=[0-9]+\.[0-9]+, decode;dur=[0-9.]+, batch;dur=[0-9.]+, compute;dur=[0-9.]+, encode;dur=[0-9.]+, total;dur=[0-9.]+$' \
    <(header Server-Timing)

# ---- traces ----------------------------------------------------------------------------------
trace=4bf92f3577b34da6a3ce929d0e0e4736
span=00f067aa0ba902b7
infer mha "$good" -H "traceparent: 00-$trace-$span-01" -H 'X-Request-Id: traced'
holds "a request is a child of its caller's span" py "$here/spans.py" "$scratch/traces" $trace $span traced
mv "$scratch/traces" "$scratch/traces.1"
kill -HUP "$daemon_pid"
holds "SIGHUP opens the file anew" wait_for test -e "$scratch/traces"
infer mha "$good" -H "traceparent: 00-$trace-$span-00" -H 'X-Request-Id: unsampled'
holds "the rate traces what its caller does not" py "$here/spans.py" "$scratch/traces" $trace $span unsampled
infer mha "$good" -H "traceparent: 00-$trace-xx-01" -H 'X-Request-Id: bad'
holds "a bad traceparent begins a trace" [ "$(grep -c '"bad"' "$scratch/traces")" = 1 -a -z "$(grep '"bad"' "$scratch/traces" | grep $trace)" ]
stop_daemon "traces: it stops"
serve --trace-file="$scratch/sampled" --trace-rate=0
infer mha "$good"
infer mha "$good" -H "traceparent: 00-$trace-$span-00"
infer mha "$good" -H "traceparent: 00-$trace-$span-01" -H 'X-Request-Id: sampled'
equal "rate 0: what its caller samples, and nothing else" 1 "$(wc -l <"$scratch/sampled")"
holds "... that one" py "$here/spans.py" "$scratch/sampled" $trace $span sampled
stop_daemon "rate 0: it stops"
holds "a trace file that cannot be" grep -q '/nonexistent/x' <("$DAEMON" --model-repository="$scratch/models" --http-port=0 --trace-file=/nonexistent/x 2>&1)

# ---- the log ---------------------------------------------------------------------------------
mkdir "$scratch/logs"
serve --log-dir="$scratch/logs"
ask GET /v2/logging
expect_json "settings of the log" 'j == {"log_file": "", "log_info": True, "log_warning": True, "log_error": True,
    "log_verbose_level": 0, "log_format": "default"}'
logs() { # NAME SETTINGS EXPRESSION
    post /v2/logging "$2"
    expect_json "$1" "$3"
}
is_logged() { # ID
    infer mha "$good" -H "X-Request-Id: $1"
    grep -qs "$1" "$scratch/log"
}
holds "what succeeds is not logged" eval '! is_logged quiet'
logs "a verbose level" '{"log_verbose_level":1}' 'j["log_verbose_level"] == 1 and j["log_info"]'
holds "... has it logged" wait_for is_logged loud
logs "JSON" '{"log_format":"json"}' 'j["log_format"] == "json" and j["log_verbose_level"] == 1'
infer mha "$good" -H 'X-Request-Id: as-json'
line=$(grep as-json "$scratch/log" | tail -n 1)
holds "... with what operators ask" py -c 'import json, sys
j = json.loads(sys.argv[1])
assert (j["request"], j["model"], j["version"], j["status"], j["client"]) == ("as-json", "mha", "1", 200, "127.0.0.1"), j
assert j["bytes_in"] > 0 and j["bytes_out"] > 0 and j["batch"] == 1 and j["compute_us"] >= 0 and j["queue_us"] >= 0, j' "$line"
logs "another file" '{"log_file":"other.log"}' 'j["log_file"] == "other.log"'
infer mha "$good" -H 'X-Request-Id: elsewhere'
contains "... has the lines" elsewhere "$scratch/logs/other.log"
mv "$scratch/logs/other.log" "$scratch/logs/old.log"
kill -HUP "$daemon_pid"
holds "SIGHUP opens it anew" wait_for test -e "$scratch/logs/other.log"
logs "back to where it was" '{"log_file":"","log_format":"ISO8601","log_verbose_level":0}' 'j["log_file"] == "" and j["log_format"] == "ISO8601"'
logs "without a level" '{"log_info":false,"log_warning":false}' 'not j["log_info"] and not j["log_warning"] and j["log_error"]'
infer mha junk -H 'X-Request-Id: unheard'
holds "... nothing of it" test -z "$(grep unheard "$scratch/log")"
logs "nothing changes nothing" '{}' 'not j["log_info"] and j["log_format"] == "ISO8601"'
ask POST /v2/logging
expect_json "an empty body too" 'not j["log_info"]'
bad() { # NAME TEXTS BODY
    post /v2/logging "$3"
    expect_error "log: $1" 400 "$2"
}
bad "no JSON"           ''                  'junk'
bad "a list"            'object'            '[]'
bad "an unknown one"    'colour|log_file'   '{"colour":true}'
bad "a kind"            'log_info'          '{"log_info":"yes"}'
bad "a negative level"  'log_verbose_level' '{"log_verbose_level":-1}'
bad "a format"          'log_format'        '{"log_format":"loud"}'
bad "one twice"         'log_info'          '{"log_info":true,"log_info":false}'
for file in ../x /tmp/x . .. a/b 'a\u0000b' "$(printf 'x%.0s' {1..300})"; do
    bad "the file ${file:0:9}" 'log_file' '{"log_file":"'"$file"'"}'
done
bad "all or nothing"    'log_format'        '{"log_info":true,"log_format":"loud"}'
ask GET /v2/logging
expect_json "... nothing" 'not j["log_info"]'
stop_daemon "the log: it stops"
serve
bad "a file without a folder" 'log_file|log-dir' '{"log_file":"x.log"}'
finish
