#!/usr/bin/env bash
# Does /gradient give the right numbers in every form: each preset, JSON, bytes, chosen outputs, means and
# sums? Is a bad request refused with a text that names the fault?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
py "$here/models.py" layer "$scratch/models/dropped" speech_mha \
    '{"layer": {"kind": "speech_mha", "num_heads": 2, "d_model": 4, "dropout": 0.5}}'
start_daemon --model-repository="$scratch/models" --http-max-output-size=2000 --log-level=debug

query=$(tensor query FP32 '[1,1,4]' '[0,0,0,0]')
key=$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
value=$(tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
grad=$(tensor grad_output FP32 '[1,1,4]' '[1,2,3,4]')
mha=$query,$key,$value
good=$(request "$mha,$grad")

# ---- each preset -----------------------------------------------------------------------------
gradient score "$(request "$(tensor query FP32 '[1,1,2]' '[2,0]'),$(tensor key FP32 '[1,2,2]' '[1,0,0,1]'),$(
    tensor grad_output FP32 '[1,1,2]' '[1,3]')")"
expect_status "routing_score" 200
expect_json "routing_score: of queries" 'close(output("grad_query"), [1 / 2 ** 0.5, 3 / 2 ** 0.5])'
expect_json "routing_score: of keys" 'close(output("grad_key"), [2 / 2 ** 0.5, 0, 6 / 2 ** 0.5, 0])'

gradient mha "$good"
expect_status "routing_mha" 200
expect_json "routing_mha: all gradients, nothing else" '[o["name"] for o in j["outputs"]] ==
    ["grad_query", "grad_key", "grad_value", "grad.project_out.weight"]'
expect_json "routing_mha: of queries" 'close(output("grad_query"), [-1.5 / 2 ** 0.5, 1.5 / 2 ** 0.5, 0, 0])'
expect_json "routing_mha: of keys" 'close(output("grad_key"), [0] * 8)'
expect_json "routing_mha: of values" 'close(output("grad_value"), [0.5, 1, 1.5, 2] * 2)'
expect_json "routing_mha: of the projection" 'close(output("grad.project_out.weight"),
    [g * v for g in (1, 2, 3, 4) for v in (2, 3, 4, 5)])'
expect_json "routing_mha: model, version, shapes" 'j["model_name"] == "mha" and j["model_version"] == "1" and
    "parameters" not in j and [o["shape"] for o in j["outputs"]] == [[1, 1, 4], [1, 2, 4], [1, 2, 4], [4, 4]]'
gradient proj "$(request "$(tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$grad")"
expect_json "self attention has no gradient of h" '{o["name"] for o in j["outputs"]} == {"grad_q",
    "grad.queryEncoder.weight", "grad.keyEncoder.weight", "grad.valueEncoder.weight", "grad.MHA.project_out.weight"}'
expect_json "self attention over one row passes on what came" 'close(output("grad_q"), [1, 2, 3, 4])'
gradient speech "$(request "$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$grad")"
expect_json "speech_mha: of values and the output's bias" 'close(output("grad_v"), [0.5, 1, 1.5, 2] * 2) and
    close(output("grad.output_layer.bias"), [1, 2, 3, 4])'
gradient relational "$(request "$(tensor queries FP32 '[1,1,1,2]' '[0,0]'),$(
    tensor keys FP32 '[1,2,1,2]' '[1,0,0,0]'),$(tensor values FP32 '[1,2,1,2]' '[1,2,3,4]'),$(
    tensor edges INT64 '[1,3]' '[0,0,1]'),$(tensor edge_types INT32 '[1]' '[0]'),$(
    tensor grad_output FP32 '[1,1,2]' '[1,1]')")"
expect_json "relational_mha: of keys and biases" 'close(output("grad_values"), [0.5, 0.5] * 2) and
    close(output("grad_queries"), [-1, 0]) and close(output("grad._edge_attention_biases.weight"), [0] * 4) and
    "grad_edges" not in [o["name"] for o in j["outputs"]]'

# ---- means and sums --------------------------------------------------------------------------
tokens=$(tensor input FP32 '[2,1,4]' '[1,2,3,4,5,6,7,8]'),$(tensor grad_output FP32 '[2,1,4]' '[1,1,1,1,1,1,1,1]')
weights='"outputs":[{"name":"grad.input_linear.weights"},{"name":"grad.input_linear.biases"}]'
sums='[6, 8, 10, 12]' # of the samples; only values matter where there is one key
for reduction in sum mean default; do
    parameters=',"parameters":{"gradient_reduction":"'$reduction'"}'
    [ "$reduction" != default ] || parameters=
    gradient causal "$(request "$tokens" "$weights$parameters")"
    expect_json "causal_mha, $reduction: of weights" 'close(output("grad.input_linear.weights"),
        [x if column >= 8 else 0 for x in [s / (1 if "'$reduction'" == "sum" else 2) for s in '"$sums"'] for column in range(12)])'
    expect_json "causal_mha, $reduction: of the bias" 'close(output("grad.input_linear.biases"),
        [0] * 8 + [2 if "'$reduction'" == "sum" else 0] * 4)'
done
gradient causal "$(request "$tokens")"
expect_json "causal_mha: of the input, which has no mean" 'close(output("grad_input"), [1] * 8)'
gradient mha "$(request "$mha,$grad" '"parameters":{"gradient_reduction":"mean"}')"
expect_json "the mean of one sample" 'close(output("grad.project_out.weight")[:4], [2, 3, 4, 5])'
infer mha "$(request "$mha" '"parameters":{"gradient_reduction":"mean"}')"
expect_json "without gradients it changes nothing" 'close(output("out"), [2, 3, 4, 5])'

# ---- inputs, outputs -------------------------------------------------------------------------
gradient mha "$(request "$mha,$grad" '"id":"g7","outputs":[{"name":"out"},{"name":"grad_value"},{"name":"attention"}]')"
expect_json "chosen outputs, in their order, those of the forward too" 'j["id"] == "g7" and
    [o["name"] for o in j["outputs"]] == ["out", "grad_value", "attention"] and
    close(output("out"), [2, 3, 4, 5]) and close(output("attention"), [0.5] * 4)'
gradient mha "$(request "$mha,$grad" '"outputs":[]')"
expect_json "an empty list of outputs means all gradients" 'len(j["outputs"]) == 4'
gradient mha "$(request "$mha,$(tensor mask BOOL '[1,1,2]' '[true,false]'),$grad")"
expect_json "nothing reaches a blocked key" 'close(output("grad_value"), [0, 0, 0, 0, 1, 2, 3, 4])'
gradient mha "$(request "$mha,$(tensor mask BOOL '[1,1,2]' '[true,true]'),$grad")"
expect_json "nothing leaves a blocked row" 'close(output("grad_value"), [0] * 8) and close(output("grad_query"), [0] * 4)'
attention=$(tensor grad_attention FP32 '[1,2,1,2]' '[1,0,0,0]')
gradient mha "$(request "$mha,$attention")"
expect_json "of the attention alone" 'close(output("grad_query"), [0.25 / 2 ** 0.5, -0.25 / 2 ** 0.5, 0, 0]) and
    close(output("grad_value"), [0] * 8) and close(output("grad.project_out.weight"), [0] * 16)'
gradient mha "$(request "$mha,$grad,$attention")"
expect_json "of both" 'close(output("grad_query"), [-1.25 / 2 ** 0.5, 1.25 / 2 ** 0.5, 0, 0])'
gradient mha "$(request "$(tensor query FP32 '[1,0,4]' '[]'),$key,$value,$(tensor grad_output FP32 '[1,0,4]' '[]')")"
expect_json "no queries" 'output("grad_query") == [] and close(output("grad_value"), [0] * 8)'
gradient versions "$good"
expect_json "the default version" 'close(output("grad_value"), [5, 10, 15, 20] * 2) and j["model_version"] == "10"'
gradient versions/versions/2 "$good"
expect_json "a version by its number" 'close(output("grad_value"), [1, 2, 3, 4] * 2) and j["model_version"] == "2"'

# ---- bytes -----------------------------------------------------------------------------------
pack FP32 1 2 3 4 >"$scratch/grad"
pack FP32 0.5 1 1.5 2 0.5 1 1.5 2 >"$scratch/expected"
b_grad=$(binary_tensor grad_output FP32 '[1,1,4]' 16)
gradient_binary mha "$(request "$mha,$b_grad" '"outputs":[{"name":"grad_value"}],"parameters":{"binary_data_output":true}')" \
    "$scratch/grad"
expect_status "bytes in, bytes out" 200
equal "bytes out have their type" application/octet-stream "$(header Content-Type)"
reply_bytes
holds "bytes out: the numbers" cmp "$scratch/expected" "$scratch/bytes"
gradient_binary mha "$(request "$mha,$b_grad" '"outputs":[{"name":"out"},{"name":"grad_value","parameters":{"binary_data":true}}]')" \
    "$scratch/grad"
reply_bytes
holds "one output as JSON, one as bytes" cmp "$scratch/expected" "$scratch/bytes"
pack FP16 1 2 3 4 >"$scratch/half"
gradient_binary mha "$(request "$mha,$(binary_tensor grad_output FP16 '[1,1,4]' 8)")" "$scratch/half"
expect_json "a cotangent in half precision" 'close(output("grad_value"), [0.5, 1, 1.5, 2] * 2)'
pack FP32 nan 0 0 0 >"$scratch/nan"
gradient_binary mha "$(request "$mha,$b_grad")" "$scratch/nan"
expect_error "NaN that JSON cannot carry" 422 'nonfinite|binary'
gradient_binary mha "$(request "$mha,$b_grad" '"parameters":{"nonfinite":"null"}')" "$scratch/nan"
expect_status "NaN as null" 200

# ---- in training -----------------------------------------------------------------------------
dropped=$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$grad
kept=$(tensor dropout_uniform FP32 '[1,2,1,2]' '[0,0.9,0.9,0]')
gradient dropped "$(request "$dropped")"
expect_json "dropout does nothing unless asked" 'close(output("grad_v"), [0.5, 1, 1.5, 2] * 2)'
gradient dropped "$(request "$dropped,$kept" '"parameters":{"training":true}')"
expect_json "through what was kept alone, at twice the weight" 'close(output("grad_v"), [1, 2, 0, 0, 0, 0, 3, 4])'
for seed in 1 1 2 3 4; do
    gradient dropped "$(request "$dropped" '"outputs":[{"name":"grad_v"},{"name":"output"}],
        "parameters":{"training":true,"seed":'$seed'}')"
    [ ! -e "$scratch/seed$seed" ] || holds "the same seed, the same answer" cmp "$scratch/seed$seed" "$scratch/body"
    cp "$scratch/body" "$scratch/seed$seed"
done
holds "other seeds, other answers" test "$(cksum <"$scratch/seed1")" != "$(cksum <"$scratch/seed2")"
infer dropped "$(request "${dropped%,"$grad"}" '"parameters":{"training":true,"seed":4}')"
expect_json "the forward of the same seed" \
    'output("output") == named(json.load(open("'"$scratch"'/seed4"))["outputs"], "output")["data"]'
gradient dropped "$(request "$dropped" '"parameters":{"training":true}')"
expect_json "a seed that the daemon chose is told" 'isinstance(j["parameters"]["seed"], int) and
    list(j) == ["model_name", "model_version", "parameters", "outputs"]'

# ---- what is wrong ---------------------------------------------------------------------------
bad() { # NAME STATUS TEXTS MODEL BODY
    gradient "$4" "$5"
    expect_error "$1" "$2" "$3"
}
bad "no cotangent at all" 400 'grad_output' mha "$(request "$mha")"
bad "... not even with a forward output asked for" 400 'grad_output' mha "$(request "$mha" '"outputs":[{"name":"out"}]')"
bad "a cotangent of another length" 400 'grad_output|1, 2, 4|1, 1, 4' mha \
    "$(request "$mha,$(tensor grad_output FP32 '[1,2,4]' '[1,2,3,4,1,2,3,4]')")"
bad "a cotangent of another rank" 400 'grad_output|[4]' mha "$(request "$mha,$(tensor grad_output FP32 '[4]' '[1,2,3,4]')")"
bad "grad_attention of another shape" 400 'grad_attention|1, 2, 1, 2' mha \
    "$(request "$mha,$grad,$(tensor grad_attention FP32 '[1,2,2,1]' '[0,0,0,0]')")"
bad "grad_attention where there is none" 400 'grad_attention|score' score \
    "$(request "$(tensor query FP32 '[1,1,1]' '[1]'),$(tensor key FP32 '[1,1,1]' '[1]'),$(tensor grad_attention FP32 '[1,1,1,1]' '[1]')")"
bad "a cotangent of integers" 400 'grad_output|INT64' mha "$(request "$mha,$(tensor grad_output INT64 '[1,1,4]' '[1,2,3,4]')")"
bad "a cotangent given twice" 400 'grad_output|twice' mha "$(request "$mha,$grad,$grad")"
bad "too few numbers" 400 'grad_output|4|3' mha "$(request "$mha,$(tensor grad_output FP32 '[1,1,4]' '[1,2,3]')")"
bad "a missing input" 400 'value' mha "$(request "$query,$key,$grad")"
bad "the gradient of a mask" 400 'grad_mask' mha "$(request "$mha,$grad" '"outputs":[{"name":"grad_mask"}]')"
bad "the gradient of what was left out" 400 'grad_h' proj \
    "$(request "$(tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$grad" '"outputs":[{"name":"grad_h"}]')"
bad "the gradient of no parameter" 400 'grad.nothing' mha "$(request "$mha,$grad" '"outputs":[{"name":"grad.nothing"}]')"
bad "a gradient asked for twice" 400 'grad_key|twice' mha \
    "$(request "$mha,$grad" '"outputs":[{"name":"grad_key"},{"name":"grad_key"}]')"
bad "a moment" 400 'out.mean' mha "$(request "$mha,$grad" '"outputs":[{"name":"out.mean"}]')"
bad "samples" 400 'samples|/gradient' mha "$(request "$mha,$grad" '"parameters":{"training":true,"samples":2}')"
bad "a reduction that does not exist" 400 'gradient_reduction|max' mha \
    "$(request "$mha,$grad" '"parameters":{"gradient_reduction":"max"}')"
bad "a reduction of a kind" 400 'gradient_reduction' mha "$(request "$mha,$grad" '"parameters":{"gradient_reduction":1}')"
bad "draws without training" 400 'dropout_uniform|training' dropped "$(request "$dropped,$kept")"
bad "draws of another shape" 400 'dropout_uniform|1, 2, 1, 2' dropped \
    "$(request "$dropped,$(tensor dropout_uniform FP32 '[2,2]' '[0,0,0,0]')" '"parameters":{"training":true}')"
bad "a draw of 1" 400 'dropout_uniform' dropped \
    "$(request "$dropped,$(tensor dropout_uniform FP32 '[1,2,1,2]' '[0,0,1,0]')" '"parameters":{"training":true}')"
row=$(printf '0,%.0s' {1..799})0
bad "gradients over the limit of outputs" 413 'grad_query|3200|--http-max-output-size' mha \
    "$(request "$(tensor query FP32 '[1,200,4]' "[$row]"),$key,$value,$(tensor grad_output FP32 '[1,200,4]' "[$row]")")"
bad "an unknown model" 404 'nobody' nobody "$good"
bad "an unknown version" 404 '3' mha/versions/3 "$good"
bad "no JSON" 400 'JSON' mha hello
infer mha "$good"
expect_error "a cotangent for infer" 400 'grad_output|/gradient'
infer mha "$(request "$mha" '"outputs":[{"name":"grad_query"}]')"
expect_error "a gradient from infer" 400 'grad_query|/gradient'
gradient mha "$good"
expect_status "afterwards all is well" 200
holds "the log tells gradients from inference" grep -q 'gradient.*model=mha' "$scratch/log"
stop_daemon "exit status 0"

# ---- the demo models -------------------------------------------------------------------------
start_daemon --model-repository="$here/../../config/models"
holds "gradients agree with differences" "$PYTHON" "$here/differences.py" "${base##*:}"
finish
