#!/usr/bin/env bash
# Do good requests of every form get the right numbers: each preset, JSON, bytes, types, outputs?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models"

query=$(tensor query FP32 '[1,1,4]' '[0,0,0,0]')
key=$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
value=$(tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
good="$(request "$query,$key,$value")"

# ---- each preset, in JSON --------------------------------------------------------------------
infer score "$(request "$(tensor query FP32 '[1,1,2]' '[2,0]'),$(tensor key FP32 '[1,2,2]' '[1,0,0,1]')")"
expect_status "routing_score" 200
expect_json "routing_score: scores" 'close(output("logits"), [2 / 2 ** 0.5, 0])'
expect_json "routing_score: shape" 'named(j["outputs"], "logits")["shape"] == [1, 1, 2]'

infer mha "$good"
expect_status "routing_mha" 200
expect_json "routing_mha: the mean of the values" 'close(output("out"), [2, 3, 4, 5])'
expect_json "routing_mha: model, version, type" 'j["model_name"] == "mha" and j["model_version"] == "1" and
    j["outputs"][0]["datatype"] == "FP32" and j["outputs"][0]["shape"] == [1, 1, 4]'
expect_json "routing_mha: attention only when asked for" '[o["name"] for o in j["outputs"]] == ["out"]'
expect_json "no id given, none in the answer" '"id" not in j'
equal "an answer in JSON has its type" application/json "$(header Content-Type)"

h=$(tensor h FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
infer proj "$(request "$(tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$h")"
expect_json "routing_mha_proj, cross" 'close(output("out"), [2, 3, 4, 5])'
infer proj "$(request "$(tensor q FP32 '[1,2,4]' '[1,2,3,4,1,2,3,4]')")"
expect_json "routing_mha_proj, self" 'close(output("out"), [1, 2, 3, 4] * 2)'

k=$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
v=$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
q=$(tensor q FP32 '[1,1,4]' '[0,0,0,0]')
infer speech "$(request "$k,$v,$q")"
expect_json "speech_mha" 'close(output("output"), [2, 3, 4, 5])'
infer speech "$(request "$q,$v,$k")"
expect_json "inputs in another order" 'close(output("output"), [2, 3, 4, 5])'
infer causal "$(request "$(tensor input FP32 '[1,3,4]' '[1,2,3,4,1,2,3,4,1,2,3,4]')")"
expect_json "causal_mha" 'close(output("output"), [1, 2, 3, 4] * 3)'
infer causal "$(request "$(tensor input FP32 '[1,2,4]' '[1,2,3,4,0,0,0,0]')")"
expect_json "causal_mha, a shorter input" 'close(output("output"), [1, 2, 3, 4, 0.5, 1, 1.5, 2])'

queries=$(tensor queries FP32 '[1,1,1,2]' '[0,0]')
keys=$(tensor keys FP32 '[1,2,1,2]' '[1,0,0,0]')
values=$(tensor values FP32 '[1,2,1,2]' '[1,2,3,4]')
relational=$queries,$keys,$values
infer relational "$(request "$relational")"
expect_json "relational_mha without edges" 'close(output("output"), [2, 3])'
for datatype in INT32 INT64; do
    infer relational "$(request "$relational,$(tensor edges $datatype '[1,3]' '[[0,0,0]]'),$(
        tensor edge_types $datatype '[1]' '[1]')")"
    expect_json "relational_mha, one $datatype edge" 'close(output("output"), [1, 2])'
done
infer relational "$(request "$relational,$(tensor edges INT64 '[0,3]' '[]'),$(
    tensor edge_types INT64 '[0]' '[]')")"
expect_json "relational_mha, an empty list of edges" 'close(output("output"), [2, 3])'

# ---- masks, attention ------------------------------------------------------------------------
mask=$(tensor mask BOOL '[1,1,2]' '[true,false]')
infer mha "$(request "$query,$key,$value,$mask" '"outputs":[{"name":"attention"},{"name":"out"}]')"
expect_json "a mask: true blocks" 'close(output("out"), [3, 4, 5, 6])'
expect_json "attention, in the order asked for" '[o["name"] for o in j["outputs"]] == ["attention", "out"] and
    close(output("attention"), [0, 1, 0, 1]) and named(j["outputs"], "attention")["shape"] == [1, 2, 1, 2]'
infer speech "$(request "$k,$v,$q,$mask")"
expect_json "speech_mha's mask: true keeps" 'close(output("output"), [1, 2, 3, 4])'
infer mha "$(request "$query,$key,$value" '"outputs":[{"name":"attention"}]')"
expect_json "attention alone" '[o["name"] for o in j["outputs"]] == ["attention"]'
infer mha "$(request "$query,$key,$value" '"outputs":[]')"
expect_json "an empty list of outputs means the usual ones" '[o["name"] for o in j["outputs"]] == ["out"]'

# ---- what surrounds the tensors --------------------------------------------------------------
infer mha "$(request "$query,$key,$value" '"id":"a \"quoted\" \u00fc"')"
expect_json "the id comes back" 'j["id"] == "a \"quoted\" \u00fc"'
infer mha "$(request "$query,$key,$value" '"id":""')"
expect_status "an empty id" 200
infer mha "$(request "$query,$key,$value" '"model_name":"mha","parameters":{"unknown":1,"x":"y","z":true}')"
expect_status "members and parameters that are not known" 200
infer mha $' \r\n\t{ "inputs" : [ '"$query , $key , $value"$' ] } \n'
expect_status "white space everywhere" 200
nested=$(tensor value FP32 '[1,2,4]' '[[[1,2,3,4],[3,4,5,6]]]')
infer mha "$(request "$query,$key,$nested")"
expect_json "data in its natural shape" 'close(output("out"), [2, 3, 4, 5])'
infer mha "$(request "$query,$key,$(tensor value FP32 '[1,2,4]' '[1e0,2.0,0.3E+1,400e-2,3,4,5,6.000]')")"
expect_json "numbers in every notation" 'close(output("out"), [2, 3, 4, 5])'
infer mha "$(request "$query,$key,$(tensor value FP32 '[1,2,4]' '[1e-400,-0,-0.0,4,1e-46,0,0,6]')")"
expect_json "numbers too small for a float are zero" 'close(output("out"), [0, 0, 0, 5])'
ask POST /v2/models/mha/infer --data-binary "$good" -H 'Content-Type: application/octet-stream'
expect_status "the request's content type does not matter" 200
ask POST /v2/models/mha/infer --data-binary "$good" -H 'Content-Type:'
expect_status "no content type at all" 200
ask POST /v2/models/mha/infer --data-binary "$good" -H 'Transfer-Encoding: chunked'
expect_json "a chunked body" 'close(output("out"), [2, 3, 4, 5])'
ask POST /v2/models/mha/infer --data-binary "$good" -H 'Expect: 100-continue'
expect_json "a body that waits to be asked for" 'close(output("out"), [2, 3, 4, 5])'

# ---- bytes -----------------------------------------------------------------------------------
b_query=$(binary_tensor query FP32 '[1,1,4]' 16)
b_key=$(binary_tensor key FP32 '[1,2,4]' 32)
b_value=$(binary_tensor value FP32 '[1,2,4]' 32)
pack FP32 0 0 0 0 >"$scratch/query"
pack FP32 1 0 0 0 0 1 0 0 >"$scratch/key"
pack FP32 1 2 3 4 3 4 5 6 >"$scratch/value"
pack FP32 2 3 4 5 >"$scratch/expected"
all_binary=$b_query,$b_key,$b_value

infer_binary mha "$(request "$all_binary")" "$scratch"/{query,key,value}
expect_json "bytes in, JSON out" 'close(output("out"), [2, 3, 4, 5])'
infer_binary mha "$(request "$all_binary" '"parameters":{"binary_data_output":true}')" "$scratch"/{query,key,value}
expect_status "bytes in, bytes out" 200
equal "bytes out have their type" application/octet-stream "$(header Content-Type)"
reply_bytes
holds "bytes out: the numbers" cmp "$scratch/expected" "$scratch/bytes"
head -c "$(header Inference-Header-Content-Length)" "$scratch/body" >"$scratch/reply.json"
expect_json "bytes out: their size stands in the head" \
    'j["outputs"][0]["parameters"]["binary_data_size"] == 16 and "data" not in j["outputs"][0]' "$scratch/reply.json"
infer mha "$(request "$query,$key,$value" '"outputs":[{"name":"out","parameters":{"binary_data":true}}]')"
reply_bytes
holds "JSON in, bytes out" cmp "$scratch/expected" "$scratch/bytes"
infer_binary mha "$(request "$b_query,$key,$b_value")" "$scratch"/{query,value}
expect_json "bytes and JSON in one request" 'close(output("out"), [2, 3, 4, 5])'
infer mha "$(request "$query,$key,$value" '"parameters":{"binary_data_output":true},"outputs":[{"name":"out"}]')"
reply_bytes
holds "a listed output inherits binary_data_output" cmp "$scratch/expected" "$scratch/bytes"
infer mha "$(request "$query,$key,$value" '"parameters":{"binary_data_output":true},
    "outputs":[{"name":"out","parameters":{"binary_data":false}}]')"
expect_json "... unless it says otherwise" 'close(output("out"), [2, 3, 4, 5])'
infer mha "$(request "$query,$key,$value" '"outputs":[{"name":"attention"},{"name":"out","parameters":{"binary_data":true}}]')"
reply_bytes
holds "one output as JSON, one as bytes" cmp "$scratch/expected" "$scratch/bytes"
pack FP64 1 2 3 4 3 4 5 6 >"$scratch/value64"
infer_binary mha "$(request "$query,$key,$(binary_tensor value FP64 '[1,2,4]' 64)")" "$scratch/value64"
expect_json "FP64 as bytes" 'close(output("out"), [2, 3, 4, 5])'
infer mha "$(request "$query,$key,$(tensor value FP64 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")"
expect_json "FP64 in JSON" 'close(output("out"), [2, 3, 4, 5])'
for datatype in FP16 BF16; do
    pack $datatype 1 2 3 4 3 4 5 6 >"$scratch/value16"
    infer_binary mha "$(request "$query,$key,$(binary_tensor value $datatype '[1,2,4]' 16)")" "$scratch/value16"
    expect_json "$datatype as bytes" 'close(output("out"), [2, 3, 4, 5])'
done
pack BOOL 1 0 >"$scratch/mask"
b_mask=$(binary_tensor mask BOOL '[1,1,2]' 2)
infer_binary mha "$(request "$b_mask,$all_binary")" "$scratch"/{mask,query,key,value}
expect_json "a mask of bytes, floats at odd addresses behind it" 'close(output("out"), [3, 4, 5, 6])'
pack INT64 0 0 0 >"$scratch/edges"
pack INT32 1 >"$scratch/types"
infer_binary relational "$(request "$(binary_tensor edge_types INT32 '[1]' 4),$relational,$(
    binary_tensor edges INT64 '[1,3]' 24)")" "$scratch"/{types,edges}
expect_json "edges as bytes" 'close(output("output"), [1, 2])'
infer_binary mha "$(request "$b_query,$(binary_tensor key FP32 '[1,0,4]' 0),$(
    binary_tensor value FP32 '[1,0,4]' 0)" '"parameters":{"binary_data_output":true}')" "$scratch/query"
reply_bytes
holds "no keys, as bytes: zeros" cmp -n 16 "$scratch/bytes" /dev/zero
equal "no keys, as bytes: all of them" 16 "$(wc -c <"$scratch/bytes")"

# ---- nothing to compute ----------------------------------------------------------------------
infer mha "$(request "$query,$(tensor key FP32 '[1,0,4]' '[]'),$(tensor value FP32 '[1,0,4]' '[]')")"
expect_json "no keys: zeros" 'close(output("out"), [0, 0, 0, 0])'
infer mha "$(request "$(tensor query FP32 '[1,0,4]' '[]'),$key,$value")"
expect_json "no queries: an empty output" 'output("out") == [] and j["outputs"][0]["shape"] == [1, 0, 4]'
infer speech "$(request "$(tensor k FP32 '[0,2,4]' '[]'),$(tensor v FP32 '[0,2,4]' '[]'),$(
    tensor q FP32 '[0,3,4]' '[]')")"
expect_json "no samples: an empty output" 'output("output") == [] and j["outputs"][0]["shape"] == [0, 3, 4]'
infer mha "$(request "$(tensor query FP32 '[1,0,4]' '[]'),$key,$value" '"parameters":{"binary_data_output":true}')"
expect_status "an empty output as bytes" 200
equal "... is nothing but JSON" application/json "$(header Content-Type)"
expect_json "... of size 0" 'j["outputs"][0]["parameters"]["binary_data_size"] == 0'

# ---- NaN -------------------------------------------------------------------------------------
blocked=$k,$v,$q,$(tensor mask BOOL '[1,1,2]' '[false,false]')
infer speech "$(request "$blocked")"
expect_json "a blocked row is the output's bias" 'close(output("output"), [0] * 4)'
infer nan "$(request "$blocked")"
expect_error "NaN in JSON is refused, with the ways out" 422 'output|nonfinite|binary'
infer nan "$(request "$blocked" '"parameters":{"nonfinite":"null"}')"
expect_json "NaN as null" 'output("output") == [None] * 4'
infer nan "$(request "$blocked" '"parameters":{"nonfinite":"literal"}')"
expect_json "NaN as a literal" 'all(math.isnan(x) for x in output("output"))'
infer nan "$(request "$blocked" '"parameters":{"nonfinite":"error"}')"
expect_error "NaN refused by name" 422 'output'
infer nan "$(request "$blocked" '"parameters":{"nonfinite":"maybe"}')"
expect_error "a policy that does not exist" 400 'nonfinite|maybe'
infer nan "$(request "$blocked" '"parameters":{"binary_data_output":true}')"
expect_status "NaN as bytes" 200
score_mask=$(tensor query FP32 '[1,1,2]' '[2,0]'),$(tensor key FP32 '[1,2,2]' '[1,0,0,1]'),$(
    tensor mask BOOL '[1,1,2]' '[false,true]')
infer score "$(request "$score_mask" '"parameters":{"nonfinite":"literal"}')"
expect_json "-Infinity as a literal" 'output("logits")[1] == -math.inf'
infer score "$(request "$score_mask")"
expect_error "-Infinity in JSON is refused" 422 'logits'

# ---- versions --------------------------------------------------------------------------------
infer versions "$good"
expect_json "the highest version by number is the default" 'close(output("out"), [20, 30, 40, 50]) and
    j["model_version"] == "10"'
for version in 1 2 10; do
    infer "versions/versions/$version" "$good"
    expect_json "version $version" \
        'close(output("out"), ['"$version"' * n for n in (2, 3, 4, 5)]) and j["model_version"] == "'$version'"'
done

# ---- one connection --------------------------------------------------------------------------
answers=$(curl -s -m "$PATIENCE" --data-binary "$good" -o /dev/null -w '%{http_code} %{num_connects}\n' \
    "$base/v2/models/mha/infer" --next -s -o /dev/null -w '%{http_code} %{num_connects}\n' \
    "$base/v2/models/mha" --next -s --data-binary "$good" -o /dev/null -w '%{http_code} %{num_connects}\n' \
    "$base/v2/models/mha/infer")
equal "requests share a connection" $'200 1\n200 0\n200 0' "$answers"
finish
