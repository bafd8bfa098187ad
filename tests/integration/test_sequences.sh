#!/usr/bin/env bash
# Do sequences give what the whole request gives: growing, with a context that stays, forked, by turns? Is what is lost,
# busy, over a limit or refused told by a code that a program can read, and is a sequence left as it was by an error?
. "$(dirname "$0")/lib.sh"

model() { # NAME KIND OPTIONS
    py "$here/trained.py" "$scratch/models/$1" "{\"layer\":{\"kind\":\"$2\"${3:+,$3}}}"
}
model causal causal_mha '"output_shape":[48,32],"n_heads":4'
model batchnorm causal_mha '"output_shape":[40,16],"n_heads":2,"normalisation":{"type":"BatchNorm"},"activation":{"type":"Tanh"}'
model layernorm causal_mha '"output_shape":[6,8],"normalisation":{"type":"LayerNorm"}'
model groupnorm causal_mha '"output_shape":[6,8],"normalisation":{"type":"GroupNorm","num_groups":2}'
model softmax causal_mha '"output_shape":[6,8],"activation":{"type":"SoftMax","dim":1}'
model open causal_mha '"output_shape":[6,8],"use_mask":false'
model proj routing_mha_proj '"embedding_dim":32,"n_heads":4'
model given routing_mha '"embedding_dim":32,"n_heads":2'
model score routing_score ''
model speech speech_mha '"num_heads":4,"d_model":32'
model relation relational_mha '"num_heads":2,"num_edge_types":3,"key_query_dimension":4,"value_dimension":4,"output_dimension":12,"dropout_rate":0.1,"use_edge_value_biases":true'
model long causal_mha '"output_shape":[6000,128],"n_heads":8'
py "$here/models.py" layer "$scratch/models/small" causal_mha '{"layer":{"kind":"causal_mha","output_shape":[4,4],"n_heads":2}}'
py "$here/models.py" layer "$scratch/models/mha" routing_mha_proj
mkdir -p "$scratch/models/mha/2"
cp "$scratch/models/mha/1/model.safetensors" "$scratch/models/mha/2/"
serve() { # ARGUMENTS...
    start_daemon --model-repository="$scratch/models" --workers=2 "$@"
}

lost() {
    code_is "$1" 409 sequence_lost
}

# ---- the numbers -----------------------------------------------------------------------------
serve
steps() { # NAME WHAT...
    local name=$1
    shift
    holds "$name" "$PYTHON" -I "$here/steps.py" "${base##*:}" "$@"
}
steps "growing, against the full forward" grow causal 48 32
steps "growing, with BatchNorm and an activation" grow batchnorm 40 16
steps "a context that stays, against sending it again" fixed
steps "forks, each against its own full forward" fork causal 48 32
steps "clients who take turns" turns causal 32
stop_daemon "it stops with sequences kept"

# ---- start, end, restart ---------------------------------------------------------------------
serve
step 1,0,0,0 '"sequence_id":1'
lost "a step before the start"
step 1,0,0,0 '"sequence_id":1,"sequence_start":false'
lost "... also with the start said to be false"
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
expect_json "a start" 'close(output("output"), [1, 0, 0, 0]) and j["outputs"][0]["shape"] == [1, 1, 4]'
step 1,0,0,0 '"sequence_id":1,"sequence_start":false,"sequence_end":false'
expect_json "a step, as Triton's clients mark it" 'close(output("output"), [1, 0, 0, 0])'
step 1,0,0,0,1,0,0,0 '"sequence_id":"1"'
expect_status "a step of two; an integer is its digits" 200
step 1,0,0,0 '"sequence_id":1'
expect_error "no more positions than the layer serves" 400 'input|4'
step 1,0,0,0 '"sequence_id":1,"sequence_end":true'
expect_error "... and it is there still" 400 'input|4'
step 0,0,0,0 '"sequence_id":1,"sequence_start":true'
expect_json "a start anew" 'close(output("output"), [0, 0, 0, 0])'
step 4,4,4,4 '"sequence_id":1,"sequence_end":true'
expect_status "the end is a step too" 200
step 1,0,0,0 '"sequence_id":1'
lost "a step after the end"
step 1,0,0,0 '"sequence_id":1,"sequence_end":true'
lost "an end after the end"
step 1,0,0,0 '"sequence_id":1,"sequence_start":true,"sequence_end":true'
expect_status "start and end in one" 200
step 1,0,0,0 '"sequence_id":1'
lost "... keeps nothing"
for id in '"x"' '"9223372036854775807"' 9223372036854775807 '"a\"b\n"' '"Ω"'; do
    step 1,0,0,0 '"sequence_id":'"$id"',"sequence_start":true'
    expect_status "the id $id: start" 200
    step 1,0,0,0 '"sequence_id":'"$id"',"sequence_end":true'
    expect_status "the id $id: end" 200
done
step 1,0,0,0 '"sequence_id":0,"sequence_start":false,"sequence_end":false'
expect_status "the id 0 is none" 200
step 1,0,0,0 '"sequence_id":"","sequence_start":false'
expect_status "so is the empty one" 200
step 1,0,0,0 '"sequence_id":9,"sequence_start":true'
infer causal "$(request "$(tensor input FP32 '[1,1,32]' "[$(printf '0,%.0s' {1..31})0]")" '"parameters":{"sequence_id":9}')"
lost "a sequence of another model"
mha() { # VERSION PARAMETERS [H]
    infer "mha/versions/$1" "$(request "$(tensor q FP32 '[1,1,4]' '[1,2,3,4]')${3:+,$(tensor h FP32 '[1,1,4]' "$3")}" "\"parameters\":{$2}")"
}
mha 1 '"sequence_id":3,"sequence_start":true' '[1,1,1,1]'
mha 2 '"sequence_id":3'
lost "a sequence of another version"
mha 2 '"sequence_id":3,"sequence_start":true' '[2,2,2,2]'
mha 1 '"sequence_id":3'
expect_json "each version has its own" 'close(output("out"), [1, 1, 1, 1])'
mha 1 '"sequence_id":4,"sequence_start":true'
expect_json "a context of its own queries" 'close(output("out"), [1, 2, 3, 4])'
mha 1 '"sequence_id":4'
expect_status "... which stays" 200

# ---- forks -----------------------------------------------------------------------------------
step 1,1,1,1 '"sequence_id":"trunk","sequence_start":true'
step 3,3,3,3 '"sequence_id":"branch","sequence_start":true,"sequence_fork":"trunk"'
expect_status "a fork" 200
step 1,1,1,1 '"sequence_id":"trunk"'
expect_json "what it came from goes on without it" 'close(output("output"), [1, 1, 1, 1])'
step 1,1,1,1 '"sequence_id":"trunk","sequence_end":true'
step 3,3,3,3 '"sequence_id":"branch","sequence_end":true'
expect_status "and ends before it" 200
mha 1 '"sequence_id":5,"sequence_start":true' '[1,1,1,1]'
mha 1 '"sequence_id":6,"sequence_start":true,"sequence_fork":5'
expect_json "a fork of a context needs none" 'close(output("out"), [1, 1, 1, 1])'
step 1,1,1,1 '"sequence_id":7,"sequence_start":true,"sequence_fork":"nobody"'
lost "a fork of what is not there"
step 1,1,1,1 '"sequence_id":7'
lost "... leaves nothing"

# ---- what does not go together ---------------------------------------------------------------
bad() { # NAME TEXTS PARAMETERS [CURL-ARGUMENTS...]
    step 1,0,0,0 "$3" "${@:4}"
    expect_error "$1" 400 "$2"
}
bad "a start without an id"          'sequence_start|sequence_id' '"sequence_start":true'
bad "an end without an id"           'sequence_end|sequence_id'   '"sequence_end":true'
bad "a fork without an id"           'sequence_fork|sequence_id'  '"sequence_fork":1,"sequence_start":true'
bad "a start with the id 0"          'sequence_start|sequence_id' '"sequence_id":0,"sequence_start":true'
bad "a fork without a start"         'sequence_fork|sequence_start' '"sequence_id":1,"sequence_fork":2'
bad "a fork of itself"               'sequence_fork|another'      '"sequence_id":1,"sequence_fork":"1","sequence_start":true'
bad "a negative id"                  'sequence_id|-1'             '"sequence_id":-1,"sequence_start":true'
bad "an id with a fraction"          'sequence_id|integer'        '"sequence_id":1.5,"sequence_start":true'
bad "an id of a kind"                'sequence_id|string'         '"sequence_id":true,"sequence_start":true'
bad "an id that is too long"         'sequence_id|256'            '"sequence_id":"'"$(printf 'x%.0s' {1..300})"'","sequence_start":true'
bad "an id with NUL"                 ''                           '"sequence_id":"a\u0000b","sequence_start":true'
bad "a start of a kind"              'sequence_start|boolean'     '"sequence_id":1,"sequence_start":1'
bad "an end of a kind"               'sequence_end|boolean'       '"sequence_id":1,"sequence_end":"yes"'
bad "training"                       'sequence_id|training'       '"sequence_id":1,"sequence_start":true,"training":true'
bad "samples"                        'sequence_id|training'       '"sequence_id":1,"sequence_start":true,"training":true,"samples":2'
bad "a header that does not agree"   'X-Sequence-Id|sequence_id'  '"sequence_id":1,"sequence_start":true' -H 'X-Sequence-Id: 2'
bad "a header alone"                 'X-Sequence-Id|sequence_id'  '"nonfinite":"null"' -H 'X-Sequence-Id: 2'
step 1,0,0,0 '"sequence_id":"s 1","sequence_start":true' -H 'X-Sequence-Id: s 1'
expect_status "a header that agrees" 200
step 1,0,0,0 '"sequence_id":21,"sequence_start":true' -H 'x-sequence-id: 21'
expect_status "... with an integer" 200
gradient small "$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor grad_output FP32 '[1,1,4]' '[1,2,3,4]')" \
    '"parameters":{"sequence_id":1,"sequence_start":true}')"
expect_error "gradients" 400 'sequence_id|gradients'
refused() { # MODEL TEXTS
    infer "$1" "$(request "$(tensor input FP32 '[1,1,8]' '[1,2,3,4,5,6,7,8]')" '"parameters":{"sequence_id":1,"sequence_start":true}')"
    expect_error "a layer that cannot grow: $1" 400 "$2"
    infer "$1" "$(request "$(tensor input FP32 '[1,1,8]' '[1,2,3,4,5,6,7,8]')" '"parameters":{"sequence_id":1}')"
    lost "... so $1 keeps nothing"
}
refused layernorm 'normalisation|positions'
refused groupnorm 'normalisation|positions'
refused softmax 'activation|positions'
refused open 'mask'

# ---- errors leave it as it was ---------------------------------------------------------------
step 1,0,0,0 '"sequence_id":30,"sequence_start":true'
infer small "$(request "$(tensor input FP32 '[1,1,3]' '[1,2,3]')" '"parameters":{"sequence_id":30}')"
expect_error "a step of another width" 400 'input'
infer small "$(request "$(tensor input FP32 '[2,1,4]' '[1,2,3,4,1,2,3,4]')" '"parameters":{"sequence_id":30}')"
expect_error "a step of another batch" 400 'input'
infer small "$(request "$(tensor input FP32 '[1,0,4]' '[]')" '"parameters":{"sequence_id":30}')"
expect_error "a step of nothing" 400 'input'
infer small "$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]')" '"parameters":{"sequence_id":30},"outputs":[{"name":"nothing"}]')"
expect_error "a step with an unknown output" 400 'nothing'
step 1,0,0,0 '"sequence_id":30,"sequence_start":"x"'
expect_error "a step with a bad parameter" 400 'sequence_start'
infer small "$(request "$(tensor input FP32 '[1,1,4]' '[1,0,0,0]')" '"parameters":{"sequence_id":30},"outputs":[{"name":"attention"}]')"
expect_json "the next one is the second" 'j["outputs"][0]["shape"] == [1, 2, 1, 2] and close(output("attention"), [0.62245933, 0.37754067, 0.5, 0.5]) or
    j["outputs"][0]["shape"] == [1, 2, 1, 2] and close([sum(output("attention")[:2]), sum(output("attention")[2:])], [1, 1])'
mha 1 '"sequence_id":31,"sequence_start":true' '[1,1,1,1]'
mha 1 '"sequence_id":31' '[2,2,2,2]'
expect_error "another context for one that is kept" 400 'h'
infer mha/versions/1 "$(request "$(tensor q FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor mask BOOL '[1,1,2]' '[false,false]')" '"parameters":{"sequence_id":31}')"
expect_error "a mask that does not fit it" 400 'mask'
mha 1 '"sequence_id":31'
expect_json "... which stays" 'close(output("out"), [1, 1, 1, 1])'
step 1,0,0 '"sequence_id":32,"sequence_start":true'
expect_error "a start that fails" 400 'input'
step 1,0,0,0 '"sequence_id":32'
lost "... keeps nothing"
# An answer that cannot be sent: the step was made, and the client does not know.
json=$(request "$(binary_tensor input FP32 '[1,1,4]' 16)" '"parameters":{"sequence_id":33,"sequence_start":true}')
pack FP32 1 2 3 4 >"$scratch/four"
pack FP32 nan 2 3 4 >"$scratch/nan"
infer_binary small "$json" "$scratch/four"
expect_status "a step in bytes" 200
infer_binary small "${json/,\"sequence_start\":true/}" "$scratch/nan"
expect_error "an answer that JSON cannot carry" 422 'NaN'
infer_binary small "${json/,\"sequence_start\":true/}" "$scratch/four"
lost "... ends the sequence"

# ---- busy ------------------------------------------------------------------------------------
# A start of `long`, of so many positions that are all zeros.
start_long() { # ID POSITIONS [CURL-ARGUMENTS...]
    local id=$1 length=$2 json
    json=$(request "$(binary_tensor input FP32 "[1,$length,128]" $((length * 512)))" \
        "\"parameters\":{\"sequence_id\":\"$id\",\"sequence_start\":true,\"binary_data_output\":true}")
    { printf '%s' "$json"; head -c $((length * 512)) /dev/zero; } >"$scratch/long"
    curl -s -m 120 --data-binary "@$scratch/long" -H 'Expect:' -H "Inference-Header-Content-Length: ${#json}" \
        -o "$scratch/started" -w '%{http_code}' "$base/v2/models/long/infer"
}
started() { # NAME STATUS CODE
    equal "$1" "$2 $3" "$(cat "$scratch/longest") $(sed -nE 's/.*"code": ?"([a-z_]+)".*/\1/p' "$scratch/started")"
}
token=$(request "$(tensor input FP32 '[1,1,128]' "[$(printf '0,%.0s' {1..127})0]")" '"parameters":{"sequence_id":"busy"}')
is_busy_or_over() {
    infer long "$token"
    grep -q sequence_busy "$scratch/body" || is_gone "$client"
}
start_long busy 6000 >"$scratch/longest" &
client=$!
wait_for is_busy_or_over
code_is "two at once: the second is told so" 409 sequence_busy
wait "$client"
equal "... and the first does not mind" 200 "$(cat "$scratch/longest")"
infer long "$token"
expect_error "... nor is anything lost" 400 6000
stop_daemon "it stops"

# ---- limits ----------------------------------------------------------------------------------
serve --sequence-max=2 --sequence-memory=1048576
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
step 1,0,0,0 '"sequence_id":2,"sequence_start":true'
expect_status "as many as --sequence-max" 200
step 1,0,0,0 '"sequence_id":3,"sequence_start":true'
code_is "one more" 503 sequence_limit
equal "... may come again" 1 "$(header Retry-After)"
step 1,0,0,0 '"sequence_id":2,"sequence_start":true'
expect_status "a start in its own place" 200
step 1,0,0,0 '"sequence_id":1,"sequence_end":true'
step 1,0,0,0 '"sequence_id":3,"sequence_start":true'
expect_status "there is room when one has ended" 200
step 1,0,0,0 '"sequence_id":3,"sequence_end":true'
start_long busy 6000 >"$scratch/longest"
started "alone more than --sequence-memory" 413 sequence_too_large
infer long "$token"
lost "... keeps nothing"
start_long busy 600 >"$scratch/longest"
started "more than half of --sequence-memory" 200 ''
step 1,0,0,0 '"sequence_id":2,"sequence_end":true'
start_long other 600 >"$scratch/longest"
started "together more than --sequence-memory" 503 sequence_limit
infer long "$token"
expect_status "... and what was there goes on" 200
infer long "${token/\"busy\"/\"busy\",\"sequence_end\":true}"
step 1,0,0,0 '"sequence_id":2,"sequence_start":true'
step 1,0,0,0 '"sequence_id":2'
expect_status "... and pushes nobody out" 200
step 1,0,0,0 '"sequence_id":3,"sequence_start":true'
starts() {
    step 1,0,0,0 '"sequence_id":4,"sequence_start":true'
    [ "$status" = 200 ]
}
holds "what is idle for a while makes room" wait_for starts
stop_daemon "limits: it stops"

serve --sequence-idle-timeout-secs=2
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
step 1,0,0,0 '"sequence_id":1'
expect_status "idle timeout: not at once" 200
sleep 4
step 1,0,0,0 '"sequence_id":1'
lost "idle timeout: forgotten"
stop_daemon "idle timeout: it stops"

# ---- a reload --------------------------------------------------------------------------------
serve --model-control-mode=explicit --load-model=small,mha
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
mha 1 '"sequence_id":1,"sequence_start":true' '[1,1,1,1]'
ask POST /v2/repository/models/small/load
step 1,0,0,0 '"sequence_id":1'
lost "a reload drops what was kept"
mha 1 '"sequence_id":1'
expect_status "... of its model alone" 200
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
expect_status "it starts again" 200
ask POST /v2/repository/models/small/unload
step 1,0,0,0 '"sequence_id":1'
expect_error "an unload: not served" 503 'unloaded'
finish
