#!/usr/bin/env bash
# Can text from outside forge a line of the log, steer a terminal, or be read as something else? Control
# characters, marks of direction and bytes that are no text, in every place that such text comes from.
. "$(dirname "$0")/lib.sh"
# Sets a title, begins another line in four ways, turns the direction of what follows, is no UTF-8.
evil=$'a\e]0;x\a\r\xc2\x9b2J\xc2\x85\xe2\x80\xa8\x7f\xe2\x80\xae\xd8\x9c\xe2\x81\xa6\xe2\x80\x8fb'
broken=$'\xff\xc3(\xed\xa0\x80'
escaped='a%1b%5d0;x%07%0d%c2%9b2J%c2%85%e2%80%a8%7f%e2%80%ae%d8%9c%e2%81%a6%e2%80%8fb%ff'
# Those of them that a header or a path takes as they are, and that are bytes of many characters.
high=$'\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\xd8\x9c\xff'
in_json='a\u001b]0;x\u0007\r\u009b2J\u0085\u2028\u007f\u202e\u061c\u2066\u200fb'

printable() { # NAME FILES...
    holds "$1" py "$here/printable.py" "${@:2}"
}

# ---- what is printed -------------------------------------------------------------------------
models=$scratch/$evil$'\nline'/models
mkdir "$scratch/$evil"$'\nline'
py "$here/models.py" repository "$models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
says() { # NAME TEXTS ARGUMENTS...
    timeout "$PATIENCE" "$DAEMON" "${@:3}" >"$scratch/said" 2>&1
    contains "$1" "$2" "$scratch/said"
    printable "$1: printable" "$scratch/said"
}
says "--check-config: where" 'OK: 8 models in' --check-config --model-repository="$models"
says "an option that there is not" '--a' "--$evil$broken"
says "the value of an option" '--log-level: expected|a?]0' --log-level="$evil$broken"
says "an argument" 'attentiond: ' "$evil$broken"
ATTENTIOND_LOG_LEVEL=$evil$broken says "a variable" 'LOG_LEVEL|a?]0' --check-config
says "the path of a configuration" 'a?]0' --config="$scratch/$evil$broken"
printf '{"%s":1}' "$in_json" >"$scratch/config.json"
says "a key in a configuration" 'config.json|a?]0' --config="$scratch/config.json"
printf '{"log-level":"%s"}' "$in_json" >"$scratch/config.json"
says "a value in a configuration" 'config.json|a?]0' --config="$scratch/config.json"
printf '{"%s' "$evil" >"$scratch/config.json"
says "what is no configuration" 'config.json' --config="$scratch/config.json"

# ---- what the repository brings --------------------------------------------------------------
mkdir "$models/$evil" "$models/$broken" "$models/"{kind,tensor,key}
cp "$models/mha/config.json" "$models/$evil/"
printf '{"layer":{"kind":"%s"}}' "$in_json" >"$models/kind/config.json"
printf '{"layer":{"kind":"routing_score","%s":1}}' "$in_json" >"$models/key/config.json"
cp -r "$models/mha/." "$models/tensor/"
sed -i "s/project_out.weight/x\xe2\x80\xae\xe2\x80\xa8\xc2\x9bx.wei/" "$models/tensor/1/model.safetensors"
mkdir "$models/causal/notes$evil" "$models/mha/$evil"
timeout "$PATIENCE" "$DAEMON" --check-config --model-repository="$models" >"$scratch/said" 2>&1
contains "--check-config: models" 'model kind: |a?]0|model tensor version 1: |x????????x|model key: ' "$scratch/said"
printable "--check-config: printable" "$scratch/said"

# ---- what clients send -----------------------------------------------------------------------
hash=$(printf secret | sha256sum | cut -c 1-64)
printf '{"keys":[{"name":"%s","sha256":"%s","models":["mha"]}]}' "$in_json" "$hash" >"$scratch/keys.json"
collect() { # VERB PATH CURL-ARGUMENTS...
    ask "$@" -H 'traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'
    cat "$scratch/body" "$scratch/head" | tr -d '\r' >>"$scratch/answers"
    holds "refused: $1 $2" [ "$status" -ge 400 ]
}

send_all() {
    collect GET "/$escaped"
    collect GET "/v2/models/$escaped"
    collect GET "/v2/models/mha%e2%80%ae%c2%85%e2%80%a8%ff"
    collect GET "/v2/models/mha/versions/%e2%80%ae%c2%85"
    collect GET "/v2/models/mha?$high" -X "$high"
    collect GET "/$high"
    collect DELETE "/v2/models/causal/sequences/$escaped"
    collect GET /v2/nothing -H "X-Request-Id: $high"
    for name in Content-Encoding Inference-Header-Content-Length Content-Length Transfer-Encoding Host \
        X-Sequence-Id Origin; do
        collect POST /v2/models/mha/infer -H "$name: x$high" --data-binary "${good%?}"
    done
    for body in "{\"id\":\"$in_json\",\"inputs\":[]}" "{\"$in_json\":1}" "{\"inputs\":[{\"name\":\"$in_json\"}]}" \
        "$(request "$(tensor "$in_json" FP32 '[1]' '[0]')")" "$(request "$(tensor query "$in_json" '[1]' '[0]')")" \
        "{\"inputs\":[{\"name\":\"$evil\"}]}" "{\"$broken" "${good%?},\"outputs\":[{\"name\":\"$in_json\"}]}"; do
        collect POST /v2/models/mha/infer --data-binary "$body"
    done
    collect POST "/v2/repository/models/$escaped/load"
    collect POST "/v2/repository/models/nobody%e2%80%ae/load"
    collect POST /v2/repository/index --data "{\"$in_json\":1}"
    collect POST /v2/logging --data "{\"log_file\":\"$in_json\"}"
    collect POST /v2/logging --data "{\"$in_json\":true}"
}

for format in text json; do
    start_daemon --model-repository="$models" --model-control-mode=explicit --load-model='*' --log-level=debug \
        --log-format=$format --log-dir="$scratch" --trace-file="$scratch/traces"
    send_all
    ask POST /v2/repository/index
    cp "$scratch/body" "$scratch/index"
    ask GET /metrics
    cp "$scratch/body" "$scratch/metrics"
    stop_daemon "$format: stops"
    contains "$format: a folder that is no model" 'entry skipped|a\u001b]0;x\u0007\r\u009b2J\u0085\u2028\u007f\u202e\u061c\u2066\u200fb' "$scratch/log"
    contains "$format: reasons" 'a?]0|x????????x' "$scratch/log"
    printable "$format: the log" "$scratch/log"
    printable "$format: traces" "$scratch/traces"
    printable "$format: metrics" "$scratch/metrics"
    printable "$format: index" "$scratch/index"
    printable "$format: answers" "$scratch/answers"
    start_daemon --model-repository="$models" --model-control-mode=explicit --log-format=$format --api-keys="$scratch/keys.json"
    collect GET /v2/models/speech -H 'X-API-Key: secret'
    stop_daemon "$format: stops again"
    contains "$format: the name of a key" '\u202e' "$scratch/log"
    printable "$format: the log of refusals" "$scratch/log"
    printable "$format: refusals" "$scratch/answers"
done
finish
