#!/usr/bin/env bash
# Can a sequence go from one daemon to another and give there what it would have given, bit for bit? Is what cannot be
# moved told by a code, what is not a sequence's file refused by name, and do keys, limits and a stop hold for moves?
. "$(dirname "$0")/lib.sh"

model() { # NAME KIND OPTIONS [SEED]
    py "$here/trained.py" "$scratch/models/$1" "{\"layer\":{\"kind\":\"$2\"${3:+,$3}}}" "${@:4}"
}
model causal causal_mha '"output_shape":[256,32],"n_heads":4'
model batchnorm causal_mha '"output_shape":[40,16],"n_heads":2,"normalisation":{"type":"BatchNorm"},"activation":{"type":"Tanh"}'
model open causal_mha '"output_shape":[6,8],"use_mask":false'
model proj routing_mha_proj '"embedding_dim":32,"n_heads":4'
model given routing_mha '"embedding_dim":32,"n_heads":2'
model score routing_score ''
model speech speech_mha '"num_heads":4,"d_model":32'
model relation relational_mha '"num_heads":2,"num_edge_types":3,"key_query_dimension":4,"value_dimension":4,"output_dimension":12,"dropout_rate":0.1'
py "$here/models.py" layer "$scratch/models/small" causal_mha '{"layer":{"kind":"causal_mha","output_shape":[200,4],"n_heads":2}}'
py "$here/models.py" layer "$scratch/models/mha" routing_mha_proj
mkdir -p "$scratch/models/mha/2"
cp "$scratch/models/mha/1/model.safetensors" "$scratch/models/mha/2/"

# The daemon from which sequences go; lib.sh's own is the one to which they come.
from_pid=
end_from() {
    if [ -n "$from_pid" ]; then
        kill -KILL "$from_pid" 2>/dev/null
        wait "$from_pid" 2>/dev/null
    fi
}
trap 'end_from; cleanup' EXIT

serve() { # ARGUMENTS...
    start_daemon --model-repository="$scratch/models" --workers=2 "$@"
}
sequence() { # VERB ID [CURL-ARGUMENTS...]
    ask "$1" "/v2/models/small/sequences/$2" "${@:3}"
}

# ---- two daemons -----------------------------------------------------------------------------
serve
from_pid=$daemon_pid
from=$base
serve
holds "each step has the bytes of one that stayed" "$PYTHON" -I "$here/moves.py" "${from##*:}" "${base##*:}"
kill "$from_pid"
wait "$from_pid"
equal "the first one stops with sequences kept" 0 "$?"
from_pid=

# ---- one sequence, by hand -------------------------------------------------------------------
step 1,0,0,0,0,1,0,0 '"sequence_id":"s 1","sequence_start":true'
sequence GET s%201
cp "$scratch/body" "$scratch/file"
expect_status "an export" 200
equal "... is bytes" application/octet-stream "$(header Content-Type)"
equal "... with a name for browsers" 'attachment; filename="sequence.safetensors"' "$(header Content-Disposition)"
equal "... and no tensors behind JSON" '' "$(header Inference-Header-Content-Length)"
equal "... all of it" "$(header Content-Length)" "$(wc -c <"$scratch/file" | tr -d ' ')"
length=$(header Content-Length)
sequence HEAD s%201
equal "HEAD tells the same" "200 $length application/octet-stream" "$status $(header Content-Length) $(header Content-Type)"
ask GET /v2/models/small/versions/1/sequences/s%201
expect_status "of a version that is named" 200
sequence GET s%201 -H 'X-Sequence-Id: s 1'
expect_status "the header may say the same" 200
sequence GET s%201 -H 'X-Sequence-Id: s'
expect_error "... and nothing else" 400 "X-Sequence-Id|'s'|'s 1'"
ask GET /v2/models/small/sequences
expect_json "the list" '[s["id"] for s in j["sequences"]] == ["s 1"] and j["model"] == "small" and j["version"] == "1"'
expect_json "... says of each what it keeps" 'j["sequences"][0]["length"] == 2 and j["sequences"][0]["bytes"] > 0 and j["sequences"][0]["idle_seconds"] < 30 and j["sequences"][0]["busy"] is False'
sequence POST t --data-binary "@$scratch/file"
expect_json "an import under another id" 'j["id"] == "t" and j["length"] == 2 and j["bytes"] > 0'
step 0,0,1,0 '"sequence_id":"t"'
cp "$scratch/body" "$scratch/moved"
step 0,0,1,0 '"sequence_id":"s 1"'
equal "it goes on as the one that it was" "$(<"$scratch/body")" "$(<"$scratch/moved")"
sequence POST t --data-binary "@$scratch/file"
expect_json "an import over what is there" 'j["length"] == 2'
ask GET /v2/models/small/versions/1/sequences
expect_json "... replaces it" '[(s["id"], s["length"]) for s in j["sequences"]] == [("s 1", 3), ("t", 2)]'
sequence DELETE t
equal "one is forgotten" '204 ' "$status $(<"$scratch/body")"
sequence DELETE t
code_is "... once" 409 sequence_lost
step 1,0,0,0 '"sequence_id":"t"'
code_is "... and is not there" 409 sequence_lost
sequence GET t
code_is "an export of what is not there" 409 sequence_lost
py "$here/spoil.py" "$scratch/file" nan >"$scratch/spoilt"
sequence POST n --data-binary "@$scratch/spoilt"
expect_status "what is not finite may be kept" 200
step 1,0,0,0 '"sequence_id":"n"'
expect_error "... and is told as ever" 422 'nonfinite'
gzip -c "$scratch/file" >"$scratch/file.gz"
sequence POST z --data-binary "@$scratch/file.gz" -H 'Content-Encoding: gzip'
expect_status "an import, packed" 200
sequence POST z --data-binary "@$scratch/file.gz"
expect_error "... but not said to be" 400 'sequence file|header length'
sequence POST z --data-binary "@$scratch/file" -H 'Content-Encoding: br'
expect_error "a packing that is not offered" 415 'br'

# ---- paths and verbs -------------------------------------------------------------------------
sequence PUT x
expect_error "another verb" 405 'GET, HEAD, POST, DELETE|PUT'
equal "... with those that there are" 'GET, HEAD, POST, DELETE' "$(header Allow)"
ask POST /v2/models/small/sequences
expect_error "the list is for reading" 405 'GET, HEAD'
sequence GET 0
expect_error "the id 0 is none" 400 "'0'"
sequence GET %ff
expect_error "an id that is no text" 400 'UTF-8'
sequence GET 'a%00'
expect_error "an id with a NUL" 400 'escape'
ask GET /v2/models/nobody/sequences/1
expect_error "a model that is not there" 404 'nobody'
ask GET /v2/models/nobody/sequences
expect_error "... nor has a list" 404 'nobody'
ask GET /v2/models/small/versions/9/sequences/1
expect_error "a version that is not there" 404 '9'
sequence GET "$(printf 'x%.0s' {1..300})"
expect_error "an id that is too long for a path" 404 'longer'

# ---- files that are none ---------------------------------------------------------------------
bad() { # NAME TEXTS SPOIL...
    py "$here/spoil.py" "$scratch/file" "${@:3}" >"$scratch/spoilt"
    sequence POST "s%201" --data-binary "@$scratch/spoilt"
    expect_error "$1" 400 "$2"
}
bad "another format"             "format|attentiond sequence|'pt'"  format pt
bad "no format"                  "format|attentiond sequence|none"  format
bad "another version of it"      "format_version|'1'|'2'"           format_version 2
bad "no fingerprint"             "fingerprint|none"                 fingerprint
bad "another kind"               "kind|grows|context"               kind stays
bad "no kind at all"             "kind|'grows' or 'stays'|'x'"      kind x
bad "other positions"            "positions|'2'|'3'"                positions 3
bad "more bytes than data"       "key|data_offsets"                 shape 'key=[1,2,3,2]'
bad "another count of heads"     "key|heads=2|[1, 4, 2, 1]"         shape 'key=[1,4,2,1]'
bad "another rank"               "key|heads=2|[4, 2]"               shape 'key=[4,2]'
bad "values of another length"   "value|[1, 2, 1, 4]"               shape 'value=[1,2,1,4]'
bad "another type"               "key|F32|I32"                      dtype key=I32
bad "a tensor too many"          "other|key and value"              rename value=other
bad "no key"                     "key"                              drop key
bad "no value"                   "value|keys and values"            drop value
bad "data that end early"        "data_offsets"                     cut 4
sequence POST s%201 --data-binary ''
expect_error "nothing" 400 'too short'
sequence POST s%201 --data-binary '{"a":1}'
expect_error "JSON" 400 'too short'
sequence POST s%201 --data-binary 'this is not a file of a sequence'
expect_error "text" 400 'header length'
sequence GET s%201
expect_status "what was kept under the id is there still" 200
py "$here/spoil.py" "$scratch/file" fingerprint 00112233445566778899aabbccddeeff >"$scratch/spoilt"
sequence POST s%201 --data-binary "@$scratch/spoilt"
code_is "another layer's" 409 sequence_mismatch
contains "... is told by both names" '00112233445566778899aabbccddeeff|small|fingerprint' "$scratch/body"
ask POST /v2/models/mha/sequences/1 --data-binary "@$scratch/file"
code_is "... so is one for another model" 409 sequence_mismatch
ask POST /v2/models/open/sequences/1 --data-binary "@$scratch/file"
code_is "... and one for a model that keeps nothing" 409 sequence_mismatch
infer mha/versions/1 "$(request "$(tensor q FP32 '[1,1,4]' '[1,2,3,4]')" '"parameters":{"sequence_id":1,"sequence_start":true}')"
ask GET /v2/models/mha/versions/1/sequences/1
cp "$scratch/body" "$scratch/context"
ask POST /v2/models/mha/versions/2/sequences/1 --data-binary "@$scratch/context"
expect_json "a version with the same layer takes it" 'j["length"] == 1'
stop_daemon "it stops with what has come"

# ---- busy ------------------------------------------------------------------------------------
serve
heavy_step() { # of 1,500,000 numbers, one after the other: long to read, and to attend to
    printf '{"inputs":[{"name":"input","shape":[32,192,32],"datatype":"FP32","data":[%s]}],"parameters":{"sequence_id":"b","sequence_start":true}}' \
        "$(py -c 'print(",".join(["0.5"] * 32 * 192 * 32))')" >"$scratch/heavy_step"
}
heavy_step
n_busy=0
for _ in {1..20}; do
    curl -s -m 60 -o "$scratch/heavy_answer" --data-binary "@$scratch/heavy_step" "$base/v2/models/causal/infer" &
    heavy_pid=$!
    for _ in {1..200}; do
        ask GET /v2/models/causal/sequences/b
        [ "$status" != 409 ] || ! grep -q sequence_busy "$scratch/body" || n_busy=$((n_busy + 1))
        [ "$n_busy" -eq 0 ] || break
        is_gone "$heavy_pid" && break
    done
    wait "$heavy_pid"
    [ "$n_busy" -eq 0 ] || break
done
holds "an export of what is busy is told so" [ "$n_busy" -gt 0 ]
stop_daemon "it stops after the busy one"

# ---- limits ----------------------------------------------------------------------------------
serve --sequence-max=2 --sequence-memory=1048576 --http-max-output-size=2000 --http-max-input-size=2000000
step 1,0,0,0,0,1,0,0 '"sequence_id":1,"sequence_start":true'
sequence GET 1
expect_status "an export within the limit" 200
step "$(printf '1,%.0s' {1..399})1" '"sequence_id":1'
sequence GET 1
expect_error "... and over it" 413 'http-max-output-size|2000'
sequence POST 2 --data-binary "@$scratch/file"
expect_status "as many as there may be" 200
sequence POST 3 --data-binary "@$scratch/file"
code_is "... and one too many" 503 sequence_limit
sequence DELETE 2
py - "$scratch/file" >"$scratch/large" <<'END'
import json, struct, sys
content = open(sys.argv[1], "rb").read()
n = int.from_bytes(content[:8], "little")
header = json.loads(content[8 : 8 + n])
header["__metadata__"]["positions"] = "200"
for i, name in enumerate(("key", "value")):
    header[name].update(shape=[200, 2, 200, 2], data_offsets=[i * 640000, (i + 1) * 640000])
text = json.dumps(header).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text + bytes(1280000))
END
sequence POST 4 --data-binary "@$scratch/large"
code_is "one that alone would keep too much" 413 sequence_too_large
sequence POST 2 --data-binary "@$scratch/file"
sequence POST 2 --data-binary "@$scratch/large"
code_is "... in the place of one that there is" 413 sequence_too_large
sequence GET 2
expect_status "... which is still there" 200
sequence GET 4
code_is "... is not there" 409 sequence_lost
head -c 3000000 /dev/zero >"$scratch/zeros"
sequence POST 4 --data-binary "@$scratch/zeros"
expect_error "a body over the limit" 413 'http-max-input-size'
ask GET /metrics
contains "moves are counted by their route" 'route="/v2/models/{model}/sequences/{id}",method="DELETE",code="204"} 1' "$scratch/body"
stop_daemon "it stops within limits"

# ---- keys, pages, two listeners --------------------------------------------------------------
digest() { # TEXT
    printf '%s' "$1" | sha256sum | cut -d' ' -f1
}
cat >"$scratch/keys.json" <<END
{"keys": [{"name": "user", "sha256": "$(digest user-key-0123456789)", "models": ["small"]},
          {"name": "other", "sha256": "$(digest other-key-0123456789)", "models": ["mha"]},
          {"name": "operator", "sha256": "$(digest admin-key-0123456789)", "admin": true}]}
END
chmod 600 "$scratch/keys.json"
serve --api-keys="$scratch/keys.json" --cors-allow-origins=https://example.org
as() { # KEY VERB PATH [CURL-ARGUMENTS...]
    ask "$2" "$3" -H "X-API-Key: $1-key-0123456789" "${@:4}"
}
sequence POST 1 --data-binary "@$scratch/file"
expect_error "without a key nothing comes" 401 'key'
as other POST /v2/models/small/sequences/1 --data-binary "@$scratch/file"
expect_error "nor with one for another model" 403 'other'
as user POST /v2/models/small/sequences/1 --data-binary "@$scratch/file"
expect_status "with one for the model it does" 200
as user GET /v2/models/small/sequences/1
expect_status "... and goes" 200
as user GET /v2/models/small/sequences
expect_error "the list is for operators" 403 'operators'
as admin GET /v2/models/small/sequences
expect_json "... who see it" '[s["id"] for s in j["sequences"]] == ["1"]'
as other DELETE /v2/models/small/sequences/1
expect_error "another's is not to be forgotten" 403 'other'
as user DELETE /v2/models/small/sequences/1
expect_status "one's own is" 204
ask OPTIONS /v2/models/small/sequences/1 -H 'Origin: https://example.org' -H 'Access-Control-Request-Method: DELETE'
equal "a page may" '204 GET, HEAD, POST, DELETE' "$status $(header Access-Control-Allow-Methods)"
stop_daemon "it stops with keys"

# ---- a stop ----------------------------------------------------------------------------------
serve --queue-size=1
write_heavy 2
step 1,0,0,0 '"sequence_id":1,"sequence_start":true'
heavy -o "$scratch/ignored" &
heavy_pid=$!
sleep 0.2
sequence GET 1
expect_status "a long request keeps no export waiting" 200
wait "$heavy_pid"
finish
