#!/usr/bin/env bash
# Is every fault of a weights file found at load and named, and does every good form of one load?
. "$(dirname "$0")/lib.sh"
layer='"layer": {"kind": "speech_mha", "num_heads": 2, "d_model": 4}'

model() { # NAME FAULT [MORE-OF-THE-CONFIG]
    py "$here/models.py" weights "$scratch/models/$1/1/model.safetensors" "$2"
    echo "{$layer${3:+, $3}}" >"$scratch/models/$1/config.json"
}

faults='missing shape dtype overlap truncated trailing empty huge-header no-json f64-too-large'
for fault in $faults; do
    model "$fault" "$fault"
done
for form in none f16 bf16 f64; do
    model "good-$form" "$form"
done
model layer-0 larger '"weights": {"prefix": "encoder.0."}'
model layer-1 larger '"weights": {"prefix": "encoder.1.", "names": {"output_layer.weight": "encoder.1.doubled"}}'
model no-prefix larger
model bad-prefix larger '"weights": {"prefix": "encoder.7."}'
model bad-name larger '"weights": {"prefix": "encoder.1.", "names": {"output_layer.weight": "encoder.1.tripled"}}'
model bad-parameter larger '"weights": {"prefix": "encoder.1.", "names": {"no_such_parameter": "encoder.1.doubled"}}'
model bad-key none '"weights": {"fiel": "model.safetensors"}'
model bad-file none '"weights": {"file": "other.safetensors"}'
model outside none '"weights": {"file": "../../good-none/1/model.safetensors"}'
model absolute none '"weights": {"file": "/etc/passwd"}'
model bad-option none '"empty_rows": "seven"'
model bad-heads none
sed -i 's/"num_heads": 2/"num_heads": 3/' "$scratch/models/bad-heads/config.json"
mkdir "$scratch/models/is-folder"
mkdir -p "$scratch/models/is-folder/1/model.safetensors"
echo "{$layer}" >"$scratch/models/is-folder/config.json"

start_daemon --model-repository="$scratch/models"
ask POST /v2/repository/index
cp "$scratch/body" "$scratch/index"

unavailable() { # MODEL TEXTS
    py -c 'import json, sys
for model in json.load(open(sys.argv[1])):
    if model["name"] == sys.argv[2] and model["state"] == "UNAVAILABLE":
        print(model["reason"])' "$scratch/index" "$1" >"$scratch/reason"
    contains "$1: named in the index" "$2" "$scratch/reason"
}

unavailable missing 'q_layer.bias|[4]'
unavailable shape 'v_layer.weight|[4, 4]|[3, 3]'
unavailable dtype 'k_layer.bias|I32'
unavailable overlap 'layer'
unavailable truncated 'model.safetensors'
unavailable trailing 'model.safetensors'
unavailable empty 'model.safetensors'
unavailable huge-header 'header'
unavailable no-json 'header'
unavailable f64-too-large 'k_layer.bias'
unavailable no-prefix 'q_layer.weight|[4, 4]'
unavailable bad-prefix 'encoder.7.'
unavailable bad-name 'encoder.1.tripled'
unavailable bad-parameter 'no_such_parameter'
unavailable bad-key 'config.json|weights.fiel'
unavailable bad-file 'other.safetensors'
unavailable outside 'weights.file'
unavailable absolute 'weights.file'
unavailable bad-option 'empty_rows|seven'
unavailable bad-heads 'config.json|d_model|3|4'
unavailable is-folder 'model.safetensors'

body=$(request "$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[1,1,4]' '[0,0,0,0]')")
for name in good-none good-f16 good-bf16 good-f64 layer-0; do
    infer "$name" "$body"
    expect_json "$name computes" 'close(output("output"), [2, 3, 4, 5])'
done
infer layer-1 "$body"
expect_json "a layer picked by prefix and name" 'close(output("output"), [4, 6, 8, 10])'
infer missing "$body"
expect_error "a request to a model without weights" 503 'q_layer.bias'

# A file that is replaced or cut short after it was loaded cannot hurt.
: >"$scratch/models/good-none/1/model.safetensors"
rm "$scratch/models/good-f16/1/model.safetensors"
for name in good-none good-f16; do
    infer "$name" "$body"
    expect_json "$name computes after its file is gone" 'close(output("output"), [2, 3, 4, 5])'
done
finish
