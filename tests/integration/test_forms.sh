#!/usr/bin/env bash
# Bodies of other forms: the bytes of the only input, and the instances of the first KServe protocol. Do they get the
# numbers that infer gives, and does each refusal name what is wrong?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
py "$here/models.py" layer "$scratch/models/a:predict" causal_mha
start_daemon --model-repository="$scratch/models"

predict() { # MODEL BODY [CURL-ARGUMENTS...]
    local model=$1 body=$2
    shift 2
    ask POST "/v1/models/$model:predict" --data-binary "$body" "$@"
}

raw() { # MODEL FILE [CURL-ARGUMENTS...]
    local model=$1 file=$2
    shift 2
    ask POST "/v2/models/$model/infer" --data-binary "@$file" -H 'Inference-Header-Content-Length: 0' "$@"
}

# ---- v1: models ------------------------------------------------------------------------------
ask GET /v1/models
expect_json "the models" '"mha" in j["models"] and "score" in j["models"]'
ask GET /v1/models/mha
expect_json "a model that is ready" 'j == {"name": "mha", "ready": True}'
ask HEAD /v1/models/mha
expect_status "HEAD" 200
ask GET /v1/models/none
expect_error "a model that is not there" 404 'none'
ask GET /v1/models/mha:predict
expect_error "predict by GET" 405 'POST'
equal "what it takes" POST "$(header Allow)"
ask POST /v1/models/mha
expect_error "a model by POST" 405 'GET'
predict none '{"instances":[[1]]}'
expect_error "predict of a model that is not there" 404 'none'
ask POST /v1/models/mha%3Apredict --data '{"instances":[]}'
expect_error "an escaped colon" 400 'at least one entry'
ask POST /v1/models/mha:explain --data '{"instances":[]}'
expect_error "another verb behind the colon" 405 'GET'
predict a:predict '{"instances":[[[1,2,3,4]]]}'
expect_json "a model whose name has a colon" 'close(j["predictions"][0][0], [1, 2, 3, 4])'

# ---- v1: instances ---------------------------------------------------------------------------
predict causal '{"instances":[[[1,2,3,4],[0,0,0,0]],[[5,6,7,8],[5,6,7,8]]]}'
expect_status "a list for each sample" 200
equal "its type" application/json "$(header Content-Type)"
equal "no binary part" '' "$(header Inference-Header-Content-Length)"
expect_json "a list for each sample: the numbers" 'close(sum(sum(j["predictions"], []), []),
    [1, 2, 3, 4, 0.5, 1, 1.5, 2, 5, 6, 7, 8, 5, 6, 7, 8]) and list(j) == ["predictions"]'
infer causal "$(request "$(tensor input FP32 '[2,2,4]' '[1,2,3,4,0.1,0.2,0.3,0.4,5,6,7,8,-1,-2,3e-1,4.5]')")"
expected=$(sed 's/.*"data":\[\([^]]*\)\].*/\1/' "$scratch/body")
predict causal '{"instances":[[[1,2,3,4],[0.1,0.2,0.3,0.4]],[[5,6,7,8],[-1,-2,3e-1,4.5]]]}'
equal "the very numbers of infer" "{\"predictions\":$expected}" "$(sed 's/\[\[*/[/g; s/\]*,\[/,/g; s/\]*}$/}/; s/:\[/:/' "$scratch/body")"
sample='{"query":[[0,0,0,0]],"key":[[1,0,0,0],[0,1,0,0]],"value":[[1,2,3,4],[3,4,5,6]]}'
predict mha "{\"signature_name\":\"serving_default\",\"instances\":[$sample,$sample],\"parameters\":{\"x\":[null]}}"
expect_json "objects of named inputs, other members" 'len(j["predictions"]) == 2 and close(j["predictions"][1][0], [2, 3, 4, 5])'
predict mha "{\"instances\":[{\"query\":[[0,0,0,0]],\"key\":[[1,0,0,0],[0,1,0,0]],\"value\":[[1,2,3,4],[3,4,5,6]],\"mask\":[[true,false]]}]}"
expect_json "a mask" 'close(j["predictions"][0][0], [3, 4, 5, 6])'
rows='"queries":[[[0,0]]],"keys":[[[1,0]],[[0,0]]],"values":[[[1,2]],[[3,4]]]'
predict relational "{\"instances\":[{$rows,\"edges\":[[0,0,0]],\"edge_types\":[1]},{$rows}]}"
expect_json "edges, in the first instance for all" 'close(j["predictions"][0][0], [1, 2]) and close(j["predictions"][1][0], [2, 3])'
predict relational "{\"instances\":[{$rows},{$rows,\"edges\":[[1,0,0]],\"edge_types\":[1]}]}"
expect_error "edges in another" 400 'instances[1].edges|instances[0]'
predict mha "{\"instances\":[$sample]}" -H 'Transfer-Encoding: chunked'
expect_status "a chunked body" 200
predict mha "{\"instances\":[$sample]}" -H 'X-Sequence-Id: 5'
expect_error "a sequence" 400 'X-Sequence-Id'

predict causal '{"instances":[[[1,2,3,4],[1,2,3]]]}'
expect_error "ragged lists" 400 'instances[0][1] must have length 4|got 3'
predict mha '{"instances":[{"query":[[0,0,0,0]],"key":[[0,0,0,0]],"value":[[1,2,3,4]]},{"query":[[0,0,0,0]],"key":[[0,0,0,0],[1]],"value":[[1,2,3,4]]}]}'
expect_error "samples of other shapes" 400 'instances[1].key must have length 1'
predict mha '{"instances":[[[1]]]}'
expect_error "a list where several inputs are required" 400 'query, key, value'
predict mha '{"instances":[{"query":[[0,0,0,0]]}]}'
expect_error "an input that is missing" 400 'key'
predict mha '{"inputs":{"query":[[1]]}}'
expect_error "no instances" 400 'instances'
predict mha ''
expect_error "no body" 400 'instances'
predict mha '{"instances":[{"query":[[0,0,0,null]]}]}'
expect_error "null" 400 'instances[0].query[0][3]|null'
predict score '{"instances":[{"query":[[1]],"key":[[1]],"mask":[[true]]}]}'
expect_error "what JSON does not have" 422 'logits|-Infinity|/infer'
equal "predictions count as requests of the model" 4 "$(metric attentiond_requests_total 'model="causal"')"

# ---- raw -------------------------------------------------------------------------------------
pack FP32 1 2 3 4 0 0 0 0 >"$scratch/two"
pack FP32 1 2 3 4 0.5 1 1.5 2 >"$scratch/expected"
raw causal "$scratch/two"
expect_status "bytes of the only input" 200
equal "an answer in bytes has its type" application/octet-stream "$(header Content-Type)"
reply_bytes
py -c 'import struct, sys
a, b = (struct.unpack("<8f", open(f, "rb").read()) for f in sys.argv[1:])
print(all(abs(x - y) < 1e-5 for x, y in zip(a, b)))' "$scratch/bytes" "$scratch/expected" >"$scratch/same"
equal "the numbers" True "$(cat "$scratch/same")"
contains "the shape" '"shape":[1,2,4]|"binary_data_size":32' "$scratch/body"
pack FP32 1 2 3 4 3 4 5 6 >"$scratch/q"
raw proj "$scratch/q"
expect_status "optional inputs are not given" 200
head -c 30 "$scratch/two" >"$scratch/part"
raw causal "$scratch/part"
expect_error "a part of a position" 400 'input|[1,-1,4]|a multiple of 16 bytes, the body has 30'
raw mha "$scratch/two"
expect_error "a model with several inputs" 400 'one required input|query, key, value'
: >"$scratch/nothing"
raw causal "$scratch/nothing"
expect_error "no bytes" 400 'the body is empty'
raw causal "$scratch/two" -H 'X-Sequence-Id: 5'
expect_error "a sequence" 400 'X-Sequence-Id'
ask POST /v2/models/causal/gradient --data-binary "@$scratch/two" -H 'Inference-Header-Content-Length: 0'
expect_error "gradients" 400 'grad_output'
ask GET /v2/health/ready
expect_status "the daemon is well" 200
finish
