#!/usr/bin/env bash
# Does training-time behaviour come on request, and only then: draws from a seed or given, samples and their
# moments, statistics of a batch? Is a bad request refused with a text that names the fault?
. "$(dirname "$0")/lib.sh"
layer() { # NAME KIND OPTIONS
    py "$here/models.py" layer "$scratch/models/$1" "$2" "{\"layer\": {\"kind\": \"$2\", $3}}"
}
layer speech speech_mha '"num_heads": 2, "d_model": 4, "dropout": 0.5'
layer causal causal_mha '"output_shape": [3, 4], "n_heads": 2, "use_mask": false, "dropout": 0.5'
layer dropped causal_mha '"output_shape": [3, 4], "normalisation": {"type": "Dropout", "p": 0.5}'
layer batch causal_mha '"output_shape": [3, 4], "normalisation": {"type": "BatchNorm", "patience": 0.9}'
layer score routing_score '"C": 10'
start_daemon --model-repository="$scratch/models" --http-max-output-size=100000

k=$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
v=$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
q=$(tensor q FP32 '[1,3,4]' '[0,0,0,0,0,0,0,0,0,0,0,0]')
speech=$k,$v,$q
train() { # MEMBERS-OF-PARAMETERS [MEMBERS]
    request "$speech" "\"parameters\":{\"training\":true${1:+,$1}}${2:+,$2}"
}

# ---- seeds -----------------------------------------------------------------------------------
infer speech "$(request "$speech" '"parameters":{"training":false,"seed":1}')"
expect_json "without training a seed changes nothing" 'close(output("output"), [2, 3, 4, 5] * 3) and "parameters" not in j'
infer speech "$(train '"seed":1')"
expect_json "a seed that was given is not repeated" '"parameters" not in j'
cp "$scratch/body" "$scratch/first"
infer speech "$(train '"seed":1')"
holds "the same seed, the same bytes" cmp "$scratch/first" "$scratch/body"
infer speech "$(train '"seed":2')"
holds "another seed, other bytes" test "$(cksum <"$scratch/first")" != "$(cksum <"$scratch/body")"
expect_json "what is kept counts twice, what is dropped not at all" \
    'all(x in (0, 1, 3, 4) for x in output("output")[::4])'
infer speech "$(train '"seed":9223372036854775807')"
expect_status "the largest seed" 200
infer speech "$(train '')"
expect_json "a seed that the daemon chose is told, behind the version" \
    'list(j) == ["model_name", "model_version", "parameters", "outputs"] and
    list(j["parameters"]) == ["seed"] and 0 <= j["parameters"]["seed"] < 2 ** 52'
cp "$scratch/body" "$scratch/unseeded"
seed=$(sed -E 's/.*"seed":([0-9]+).*/\1/' "$scratch/unseeded")
infer speech "$(train "\"seed\":$seed")"
expect_json "... and gives the same answer again" \
    'output("output") == json.load(open("'"$scratch"'/unseeded"))["outputs"][0]["data"]'
infer speech "$(train '')"
holds "each request has a seed of its own" test "$seed" != "$(sed -E 's/.*"seed":([0-9]+).*/\1/' "$scratch/body")"
infer speech "$(train '"seed":1' '"outputs":[{"name":"attention"},{"name":"output"}]')"
expect_json "the attention is what it was before dropout" 'close(output("attention"), [0.5] * 12)'
infer causal "$(request "$(tensor input FP32 '[1,2,4]' '[1,2,3,4,1,2,3,4]')" \
    '"parameters":{"training":true,"seed":1},"outputs":[{"name":"attention"}]')"
expect_json "... but the causal layer's is what is left of it" 'set(output("attention")) <= {0, 1}'
two=$(tensor k FP32 '[2,2,4]' '[1,0,0,0,0,1,0,0,1,0,0,0,0,1,0,0]'),$(
    tensor v FP32 '[2,2,4]' '[1,2,3,4,3,4,5,6,1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[2,3,4]' '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]')
infer speech "$(request "$two" '"parameters":{"training":true,"seed":1}')"
expect_json "a sample's draws do not depend on the others" \
    'output("output")[:12] == json.load(open("'"$scratch"'/first"))["outputs"][0]["data"] != output("output")[12:]'
infer score "$(request "$(tensor query FP32 '[1,1,1]' '[2]'),$(tensor key FP32 '[1,1,1]' '[3]')" '"parameters":{"training":true}')"
expect_json "a layer without dropout" 'close(output("logits"), [6]) and "seed" in j["parameters"]'

# ---- draws that are given --------------------------------------------------------------------
draws() { # DATA
    tensor dropout_uniform FP32 '[1,2,3,2]' "$1"
}
infer speech "$(request "$speech,$(draws '[0,0.49,0,0.5,0.6,0.7, 0,0.49,0.999,0,0.5,0.5]')" '"parameters":{"training":true}')"
expect_json "kept below 1 - p, dropped from there on" 'close(output("output"), [4, 6, 8, 10, 1, 2, 5, 6, 0, 0, 0, 0])'
drops=$(tensor normalisation_uniform FP32 '[1,1,4]' '[0.1,0.5,0.9,0.4]')
infer dropped "$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]'),$drops" '"parameters":{"training":true}')"
expect_json "draws of a Dropout module" 'close(output("output"), [2, 0, 0, 8])'
infer dropped "$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]')" '"parameters":{"training":true,"seed":3}')"
expect_json "the same from a seed" 'all(x in (0, y) for x, y in zip(output("output"), [2, 4, 6, 8]))'

# ---- samples ---------------------------------------------------------------------------------
names='"outputs":[{"name":"output.variance"},{"name":"output"},{"name":"output.mean"},{"name":"attention.mean"}]'
for samples in 1 2 7; do
    infer speech "$(train "\"seed\":40,\"samples\":$samples" "$names")"
    expect_json "$samples samples: shapes" '{o["name"]: o["shape"] for o in j["outputs"]} == {"output": ['$samples', 1, 3, 4],
        "output.mean": [1, 3, 4], "output.variance": [1, 3, 4], "attention.mean": [1, 2, 3, 2]}'
    cp "$scratch/body" "$scratch/samples"
    for ((d = 0; d < samples; d++)); do
        infer speech "$(train "\"seed\":$((40 + d))")"
        cp "$scratch/body" "$scratch/draw$d"
    done
    expect_json "$samples samples: each is what its own seed gives" \
        'output("output") == sum((json.load(open("'"$scratch"'/draw%d" % d))["outputs"][0]["data"] for d in range('$samples')), [])' \
        "$scratch/samples"
    expect_json "$samples samples: their mean and variance" '[close(output("output.mean"), m) and
        close(output("output.variance"), [sum((x - a) ** 2 for x in c) / len(c) for a, c in zip(m, columns)])
        for columns in [[output("output")[i::12] for i in range(12)]] for m in [[sum(c) / len(c) for c in columns]]] == [True]' \
        "$scratch/samples"
    expect_json "$samples samples: moments of what does not vary" 'close(output("attention.mean"), [0.5] * 12)' "$scratch/samples"
done
infer speech "$(train '"seed":40,"samples":7')"
expect_json "the usual outputs alone, with all samples" '[o["name"] for o in j["outputs"]] == ["output"] and
    output("output") == named(json.load(open("'"$scratch"'/samples"))["outputs"], "output")["data"]'
infer speech "$(train '"samples":2' "$names")"
expect_json "samples from a seed that the daemon chose" '"seed" in j["parameters"]'
infer speech "$(train '"samples":1024' '"outputs":[{"name":"output.mean"}]')"
expect_json "1024 samples: their mean is what inference says" \
    'all(abs(a - b) < 0.5 for a, b in zip(output("output.mean"), [2, 3, 4, 5] * 3))'
infer speech "$(train '"seed":40,"samples":2' '"outputs":[{"name":"output.mean","parameters":{"binary_data":true}}]')"
reply_bytes
equal "moments as bytes" 48 "$(wc -c <"$scratch/bytes")"

# ---- statistics of a batch -------------------------------------------------------------------
rows=$(tensor input FP32 '[2,3,4]' '[1,1,1,1,1,1,1,1,1,1,1,1,3,3,3,3,3,3,3,3,3,3,3,3]')
statistics='"outputs":[{"name":"output"},{"name":"state.normalisation.running_mean"},{"name":"state.normalisation.running_var"}]'
infer batch "$(request "$rows" "$statistics,\"parameters\":{\"training\":true}")"
expect_json "BatchNorm takes the batch's own mean and unbiased variance" \
    'close(output("output"), [-2 ** -0.5] * 12 + [2 ** -0.5] * 12)'
expect_json "... and says where it moves its statistics" 'close(output("state.normalisation.running_mean"), [0.2] * 12) and
    close(output("state.normalisation.running_var"), [0.9 + 0.2] * 12)'
infer batch "$(request "$rows" '"parameters":{"training":true}')"
expect_json "... when asked" '[o["name"] for o in j["outputs"]] == ["output"]'
infer batch "$(request "$rows")"
expect_json "the layer itself keeps the old ones" 'close(output("output"), [1] * 12 + [3] * 12)'
gradient batch "$(request "$rows,$(tensor grad_output FP32 '[2,3,4]' '[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]')" \
    '"parameters":{"training":true},"outputs":[{"name":"grad_input"},{"name":"grad.normalisation.beta"},{"name":"state.normalisation.running_mean"}]')"
expect_json "what all samples share does not matter to it" 'close(output("grad_input"), [0] * 24) and
    close(output("grad.normalisation.beta"), [1] * 12) and close(output("state.normalisation.running_mean"), [0.2] * 12)'

# ---- what is wrong ---------------------------------------------------------------------------
bad() { # NAME STATUS TEXTS PARAMETERS [INPUTS [MODEL [MEMBERS]]]
    infer "${6:-speech}" "$(request "${5:-$speech}" "\"parameters\":{$4}${7:+,$7}")"
    expect_error "$1" "$2" "$3"
}
bad "training of a kind"          400 'training|boolean'     '"training":1'
bad "a seed of a kind"            400 'seed|integer'         '"training":true,"seed":"x"'
bad "a seed with a fraction"      400 'seed|integer'         '"training":true,"seed":1.5'
bad "a negative seed"             400 'seed|-1'              '"training":true,"seed":-1'
bad "a seed of more than 63 bits" 400 '9223372036854775808'  '"training":true,"seed":9223372036854775808'
bad "samples without training"    400 'samples|training'     '"samples":2'
bad "samples with it turned off"  400 'samples|training'     '"samples":2,"training":false'
bad "no samples"                  400 'samples|1 to 1024|0'  '"training":true,"samples":0'
bad "too many samples"            400 'samples|1 to 1024|1025' '"training":true,"samples":1025'
bad "negative samples"            400 'samples|-3'           '"training":true,"samples":-3'
bad "samples of a kind"           400 'samples|integer'      '"training":true,"samples":true'
bad "samples over the limit of outputs" 413 'output|--http-max-output-size' '"training":true,"samples":1024' "${speech/'"q","datatype":"FP32","shape":[1,3,4],"data":['/"\"q\",\"datatype\":\"FP32\",\"shape\":[1,9,4],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"}"
bad "draws without training"      400 'dropout_uniform|training' '"seed":1' "$speech,$(draws '[0,0,0,0,0,0,0,0,0,0,0,0]')"
bad "draws beside samples"        400 'dropout_uniform|without samples' '"training":true,"samples":2' "$speech,$(draws '[0,0,0,0,0,0,0,0,0,0,0,0]')"
bad "draws of another shape"      400 'dropout_uniform|1, 2, 3, 2|1, 2, 2, 3' '"training":true' \
    "$speech,$(tensor dropout_uniform FP32 '[1,2,2,3]' '[0,0,0,0,0,0,0,0,0,0,0,0]')"
bad "a draw of 1"                 400 'dropout_uniform|1'    '"training":true' "$speech,$(draws '[0,0,0,0,0,0,0,1,0,0,0,0]')"
bad "a negative draw"             400 'dropout_uniform|-0.1' '"training":true' "$speech,$(draws '[0,0,0,0,0,0,0,0,0,0,0,-0.1]')"
bad "draws of another module's shape" 400 'normalisation_uniform|1, 1, 4' '"training":true' \
    "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor normalisation_uniform FP32 '[1,4,1]' '[0,0,0,0]')" dropped
bad "a draw beyond 1 of a module" 400 'normalisation_uniform' '"training":true' \
    "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor normalisation_uniform FP32 '[1,1,4]' '[0,0,0,7]')" dropped
bad "draws of a module that is not there" 400 'normalisation_uniform' '"training":true' \
    "$speech,$(tensor normalisation_uniform FP32 '[1,3,4]' '[0,0,0,0,0,0,0,0,0,0,0,0]')"
pack FP32 0 0 0 0 0 0 nan 0 0 0 0 0 >"$scratch/nan"
infer_binary speech "$(request "$speech,$(binary_tensor dropout_uniform FP32 '[1,2,3,2]' 48)" '"parameters":{"training":true}')" "$scratch/nan"
expect_error "a draw that is no number" 400 'dropout_uniform'
bad "one sample for BatchNorm"    400 'input|2 samples' '"training":true' "$(tensor input FP32 '[1,3,4]' '[1,1,1,1,1,1,1,1,1,1,1,1]')" batch
bad "moments without samples"     400 'output.mean|samples'  '"training":true' '' '' '"outputs":[{"name":"output.mean"}]'
bad "statistics without training" 400 'state.normalisation.running_mean|training' '"seed":1' "$rows" batch "$statistics"
bad "statistics of samples"       400 'state.normalisation.running_mean|without samples' '"training":true,"samples":2' "$rows" batch "$statistics"
infer speech "$(request "$speech")"
expect_json "afterwards all is well" 'close(output("output"), [2, 3, 4, 5] * 3)'
finish
