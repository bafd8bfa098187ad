#!/usr/bin/env bash
# Is every bad request refused with the right status and a text that names the fault, and does the
# daemon go on, on the same connection?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models" --http-max-output-size=1000000 --http-idle-timeout=2

query=$(tensor query FP32 '[1,1,4]' '[0,0,0,0]')
key=$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
value=$(tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
good=$(request "$query,$key,$value")
infer mha "$good"
expect_json "a good request" 'close(output("out"), [2, 3, 4, 5])'
cp "$scratch/body" "$scratch/good"

# Send a bad request, then ask for the daemon's health and send a good request, all on one connection.
# The answer to the bad one has this status (or one of several: 'a|b') and these texts in it.
bad() { # NAME STATUS TEXTS MODEL BODY [CURL-ARGUMENTS...]
    local name=$1 expected=$2 texts=$3 model=$4 body=$5 answers after
    shift 5
    : >"$scratch/body"
    answers=$(curl -s -m "$PATIENCE" -o "$scratch/body" -D "$scratch/head" -w '%{http_code}\n' \
        --data-binary "$body" "$@" "$base/v2/models/$model/infer" \
        --next -s -m "$PATIENCE" -o /dev/null -w '%{http_code} %{num_connects}\n' "$base/v2/health/ready" \
        --next -s -m "$PATIENCE" -o "$scratch/after" -w '%{http_code} %{num_connects}\n' \
        --data-binary "$good" "$base/v2/models/mha/infer")
    status=${answers%%$'\n'*}
    after=${answers#*$'\n'}
    if [[ "|$expected|" == *"|$status|"* ]]; then
        expect_error "$name" "$status" "$texts"
    else
        fail "$name" "status $status, expected $expected: $(head -c 300 "$scratch/body")"
    fi
    if [ "$after" != $'200 0\n200 0' ] || ! cmp -s "$scratch/good" "$scratch/after"; then
        fail "$name" "afterwards on the same connection: $(tr '\n' ' ' <<<"$after")"
    fi
}

# The good request with one input in place of the query, the values, or beside all.
bad_query() { bad "$1" "$2" "$3" mha "$(request "$(tensor query "${@:4}"),$key,$value")"; }
bad_value() { bad "$1" "$2" "$3" mha "$(request "$query,$key,$(tensor value "${@:4}")")"; }
bad_mask() { bad "$1" "$2" "$3" mha "$(request "$query,$key,$value,$(tensor mask "${@:4}")")"; }
bad_data() { bad "$1" 400 "$2" mha "$(request "$(tensor query FP32 '[1,1,4]' "$3"),$key,$value")"; }
bad_json() { bad "$1" 400 "$2" mha "$3"; }

# ---- no request at all -----------------------------------------------------------------------
bad_json "an empty body"              'JSON'       ''
bad_json "white space"                'JSON'       '   '
bad_json "not JSON"                   'JSON'       'hello'
bad_json "cut off in the middle"      ''           "${good:0:100}"
bad_json "something behind it"        ''           "$good}"
bad_json "a second value behind it"   ''           "$good $good"
bad_json "an array"                   'object'     '[]'
bad_json "a number"                   'object'     '12'
bad_json "a string"                   'object'     '"inputs"'
bad_json "null"                       'object'     'null'
bad_json "a comma too many"           ''           "${good%?},}"
bad_json "single quotes"              'JSON'       "{'inputs':[]}"
bad_json "a comment"                  ''           "{/* here */ ${good#?}"
bad_json "no inputs"                  'inputs'     '{}'
bad_json "no inputs but an id"        'inputs'     '{"id":"7"}'
bad_json "an empty list of inputs"    'query'      '{"inputs":[]}'
bad_json "inputs that are no list"    'inputs'     '{"inputs":{}}'
bad_json "inputs that are null"       'inputs'     '{"inputs":null}'
bad_json "an input that is no object" 'inputs'     '{"inputs":[1]}'
bad_json "a byte that is not UTF-8"   ''           $'{"id":"\xff",'"${good#?}"
bad_json "an escape that is none"     ''           '{"id":"\x",'"${good#?}"
bad_json "half a surrogate pair"      ''           '{"id":"\ud800",'"${good#?}"
bad_json "a control character"        ''           $'{"id":"a\tb",'"${good#?}"
printf '%s\0' "$good" >"$scratch/nul"
bad_json "a NUL behind it"            ''           "@$scratch/nul"
py -c 'print("[" * 1000000)' >"$scratch/deep"
bad_json "a million brackets"         ''           "@$scratch/deep"
printf '{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":%s' "$(cat "$scratch/deep")" >"$scratch/deeper"
bad_json "a million brackets of data" ''           "@$scratch/deeper"
head -c 100000 /dev/urandom >"$scratch/random"
bad_json "random bytes"               ''           "@$scratch/random"

# ---- members of the wrong kind ---------------------------------------------------------------
with() { printf '{%s,%s' "$1" "${good#?}"; }
bad_json "an id that is a number"       'id'         "$(with '"id":5')"
bad_json "parameters that are a list"   'parameters' "$(with '"parameters":[]')"
bad_json "a parameter that is a list"   'x'          "$(with '"parameters":{"x":[1]}')"
bad_json "a parameter that is an object" 'x'         "$(with '"parameters":{"x":{}}')"
bad_json "binary_data_output of a kind" 'binary_data_output' "$(with '"parameters":{"binary_data_output":"yes"}')"
bad_json "nonfinite of a kind"          'nonfinite'  "$(with '"parameters":{"nonfinite":1}')"
bad_json "outputs that are an object"   'outputs'    "$(with '"outputs":{}')"
bad_json "an output that is a string"   'outputs'    "$(with '"outputs":["out"]')"
bad_json "an output without a name"     'name'       "$(with '"outputs":[{}]')"
bad_json "an output's name of a kind"   'name'       "$(with '"outputs":[{"name":3}]')"
bad_json "binary_data of a kind"        'binary_data' "$(with '"outputs":[{"name":"out","parameters":{"binary_data":1}}]')"
bad_json "an unknown output"            'nonsense'   "$(with '"outputs":[{"name":"nonsense"}]')"
bad_json "an output asked for twice"    'out'        "$(with '"outputs":[{"name":"out"},{"name":"out"}]')"
bad_json "an input without a name"      'name'       "$(request '{"datatype":"FP32","shape":[1],"data":[1]},'"$key,$value")"
bad_json "a name that is a number"      'name'       "$(request '{"name":1,"datatype":"FP32","shape":[1],"data":[1]},'"$key,$value")"
bad_json "a name with a NUL in it"      ''           "$(request "$(tensor 'query\u0000' FP32 '[1,1,4]' '[0,0,0,0]'),$key,$value")"
bad_json "no datatype"                  'query|datatype' "$(request '{"name":"query","shape":[1,1,4],"data":[0,0,0,0]},'"$key,$value")"
bad_json "no shape"                     'query|shape' "$(request '{"name":"query","datatype":"FP32","data":[0,0,0,0]},'"$key,$value")"
bad_json "no data"                      'query|data' "$(request '{"name":"query","datatype":"FP32","shape":[1,1,4]},'"$key,$value")"
bad_json "data that is a string"        'query|data' "$(request "$(tensor query FP32 '[1,1,4]' '"AAAA"'),$key,$value")"
bad_json "data that is an object"       'query|data' "$(request "$(tensor query FP32 '[1,1,4]' '{}'),$key,$value")"
bad_json "data that is null"            'query|data' "$(request "$(tensor query FP32 '[1,1,4]' 'null'),$key,$value")"
bad_json "data and bytes both"          'query'      "$(request '{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0],"parameters":{"binary_data_size":16}},'"$key,$value")"
bad_json "a missing input"              'value'      "$(request "$query,$key")"
bad_json "an unknown input"             'extra'      "$(request "$query,$key,$value,$(tensor extra FP32 '[1]' '[1]')")"
bad_json "an input given twice"         'key'        "$(request "$query,$key,$value,$key")"
bad_json "an input's name in capitals"  'QUERY'      "$(request "$(tensor QUERY FP32 '[1,1,4]' '[0,0,0,0]'),$key,$value")"
long=$(printf 'n%.0s' {1..5000})
bad_json "a very long name"             ''           "$(request "$(tensor "$long" FP32 '[1]' '[1]'),$query,$key,$value")"

# ---- types -----------------------------------------------------------------------------------
bad_query "integers for floats"         400 'query|INT64|FP32' INT64 '[1,1,4]' '[0,0,0,0]'
bad_query "booleans for floats"         400 'query|BOOL|FP32' BOOL '[1,1,4]' '[true,true,true,true]'
bad_query "a datatype that is none"     400 'query|FP31' FP31 '[1,1,4]' '[0,0,0,0]'
bad_query "a datatype in small letters" 400 'query|fp32' fp32 '[1,1,4]' '[0,0,0,0]'
bad_query "no name of a datatype"       400 'query' '' '[1,1,4]' '[0,0,0,0]'
bad_query "strings"                     400 'query|BYTES' BYTES '[1,1,4]' '["a","b","c","d"]'
bad_mask  "a mask of floats"            400 'mask|FP32|BOOL' FP32 '[1,1,2]' '[0,1]'
bad_mask  "a mask of bytes"             400 'mask|UINT8|BOOL' UINT8 '[1,1,2]' '[0,1]'
bad_mask  "a mask with a 2 in it"       400 'mask|BOOL' BOOL '[1,1,2]' '[0,2]'
bad_mask  "a mask of strings"           400 'mask' BOOL '[1,1,2]' '["true","false"]'

# ---- numbers ---------------------------------------------------------------------------------
bad_data "too few"                  'query|4|3'   '[0,0,0]'
bad_data "too many"                 'query|4|5'   '[0,0,0,0,0]'
bad_data "none"                     'query|4|0'   '[]'
bad_data "NaN"                      'query|NaN'   '[NaN,0,0,0]'
bad_data "Infinity"                 'query|Infinity' '[0,Infinity,0,0]'
bad_data "-Infinity"                'query|Infinity' '[0,0,-Infinity,0]'
bad_data "nan"                      'query'       '[nan,0,0,0]'
bad_data "too large for a float"    'query|1e39'  '[1e39,0,0,0]'
bad_data "too small for a float"    'query|-1e39' '[-1e39,0,0,0]'
bad_data "just above a float"       'query'       '[3.5e38,0,0,0]'
bad_data "too large for anything"   'query'       '[1e999999999999,0,0,0]'
bad_data "hexadecimal"              'query'       '[0x10,0,0,0]'
bad_data "a leading zero"           'query'       '[01,0,0,0]'
bad_data "a plus"                   'query'       '[+1,0,0,0]'
bad_data "no digit before the point" 'query'      '[.5,0,0,0]'
bad_data "no digit after the point" 'query'       '[1.,0,0,0]'
bad_data "no exponent"              'query'       '[1e,0,0,0]'
bad_data "two points"               'query'       '[1.2.3,0,0,0]'
bad_data "a minus alone"            'query'       '[-,0,0,0]'
bad_data "a digit separator"        'query'       '[1_0,0,0,0]'
bad_data "true"                     'query'       '[true,0,0,0]'
bad_data "null"                     'query'       '[null,0,0,0]'
bad_data "a string"                 'query'       '["1",0,0,0]'
bad_data "an object"                'query'       '[{},0,0,0]'
bad_data "no comma"                 'query'       '[0 0,0,0]'
bad_data "two commas"               'query'       '[0,,0,0]'
bad_data "a comma at the end"       'query'       '[0,0,0,0,]'
bad_data "a comma at the start"     'query'       '[,0,0,0,0]'
bad_data "not closed"               ''            '[0,0,0,0'
bad_data "closed twice"             ''            '[0,0,0,0]]'

# ---- shapes ----------------------------------------------------------------------------------
bad_query "a shape that is no list"      400 'query|shape'  FP32 '4' '[0,0,0,0]'
bad_query "a dimension that is a string" 400 'query|shape'  FP32 '[1,1,"4"]' '[0,0,0,0]'
bad_query "a dimension that is null"     400 'query|shape'  FP32 '[1,1,null]' '[0,0,0,0]'
bad_query "a negative dimension"         400 'query|-1'     FP32 '[1,-1,4]' '[0,0,0,0]'
bad_query "two negative dimensions"      400 'query|-1'     FP32 '[-1,-1,4]' '[0,0,0,0]'
bad_query "a fractional dimension"       400 'query|1.5'    FP32 '[1,1.5,4]' '[0,0,0,0]'
bad_query "a huge dimension"             400 'query'        FP32 '[1,99999999999,4]' '[0,0,0,0]'
bad_query "the largest dimension"        400 'query'        FP32 '[1,9223372036854775807,4]' '[0,0,0,0]'
bad_query "more than 64 bits"            400 'inputs[0].shape|99999999999999999999' FP32 '[1,99999999999999999999,4]' '[0,0,0,0]'
bad_query "a dimension of 1e30"          400 'query'        FP32 '[1,1e30,4]' '[0,0,0,0]'
bad_query "a product that overflows"     400 'query'        FP32 '[4294967296,4294967296,4]' '[0,0,0,0]'
bad_query "a product that wraps to 4"    400 'query'        FP32 '[4611686018427387905,4,1]' '[0,0,0,0]'
bad_query "rank 0"                       400 'query|[]'     FP32 '[]' '[0]'
bad_query "rank 1"                       400 'query|[4]'    FP32 '[4]' '[0,0,0,0]'
bad_query "rank 4"                       400 'query|[1, 1, 1, 4]' FP32 '[1,1,1,4]' '[0,0,0,0]'
bad_query "rank 20"                      400 'query|20'     FP32 '[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]' '[0,0,0,0]'
bad_value "a width that the layer lacks" 400 'value|4|5'    FP32 '[1,2,5]' '[0,0,0,0,0,0,0,0,0,0]'
bad_value "more values than keys"        400 'value|3|2'    FP32 '[1,3,4]' '[0,0,0,0,0,0,0,0,0,0,0,0]'
bad_query "a width that differs"         400 'key|3|2'      FP32 '[1,1,6]' '[0,0,0,0,0,0]'
bad_query "a width of zero"              400 'query'        FP32 '[1,1,0]' '[]'
bad_query "zero beside a huge dimension" 400 ''             FP32 '[1,0,9223372036854775807]' '[]'
bad_mask  "a mask of another length"     400 'mask|3|2'     BOOL '[1,1,3]' '[true,true,true]'
bad_mask  "a mask of rank 5"             400 'mask'         BOOL '[1,1,1,1,2]' '[true,true]'
two=$(tensor query FP32 '[2,1,4]' '[0,0,0,0,0,0,0,0]'),$(tensor key FP32 '[2,2,4]' '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]'),$(
    tensor value FP32 '[2,2,4]' '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]')
bad "a batch that differs" 400 '3|2' mha "$(request "$(tensor query FP32 '[3,1,4]' '[0,0,0,0,0,0,0,0,0,0,0,0]'),${two#*\},}")"
bad "a mask [batch, keys] that fits nothing" 400 'mask|[batch, 1, keys]' mha \
    "$(request "$(tensor query FP32 '[2,3,4]' '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]'),${two#*\},},$(
        tensor mask BOOL '[2,2]' '[false,false,false,true]')")"
bad "a causal input longer than its layer" 400 'input|3|4' causal "$(request "$(tensor input FP32 '[1,4,4]' '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]')")"
bad "a causal input of another width" 400 'input|4|3' causal "$(request "$(tensor input FP32 '[1,3,3]' '[0,0,0,0,0,0,0,0,0]')")"

# ---- edges -----------------------------------------------------------------------------------
three=$(tensor queries FP32 '[1,1,1,2]' '[0,0]'),$(tensor keys FP32 '[1,2,1,2]' '[1,0,0,0]'),$(
    tensor values FP32 '[1,2,1,2]' '[1,2,3,4]')
bad_edges() { # NAME TEXTS DATATYPE SHAPE DATA TYPES-SHAPE TYPES
    bad "$1" 400 "$2" relational "$(request "$three,$(tensor edges "$3" "$4" "$5"),$(tensor edge_types INT64 "$6" "$7")")"
}
bad_edges "a target beyond the keys"   'edges|row 1|2'      INT64 '[2,3]' '[0,0,1,0,0,2]' '[2]' '[0,0]'
bad_edges "a source beyond the queries" 'edges|row 0|1'     INT64 '[1,3]' '[0,1,0]' '[1]' '[0]'
bad_edges "a sample beyond the batch"  'edges|row 0'        INT64 '[1,3]' '[1,0,0]' '[1]' '[0]'
bad_edges "a negative target"          'edges|row 0|-1'     INT64 '[1,3]' '[0,0,-1]' '[1]' '[0]'
bad_edges "the largest target"         'edges|9223372036854775807' INT64 '[1,3]' '[0,0,9223372036854775807]' '[1]' '[0]'
bad_edges "a type beyond the table"    'edge_types|2'       INT64 '[1,3]' '[0,0,0]' '[1]' '[2]'
bad_edges "a negative type"            'edge_types|-1'      INT64 '[1,3]' '[0,0,0]' '[1]' '[-1]'
bad_edges "more types than edges"      'edge_types|1|2'     INT64 '[1,3]' '[0,0,0]' '[2]' '[0,0]'
bad_edges "fewer types than edges"     'edge_types|2|1'     INT64 '[2,3]' '[0,0,0,0,0,1]' '[1]' '[0]'
bad_edges "edges of two columns"       'edges|3|2'          INT64 '[1,2]' '[0,0]' '[1]' '[0]'
bad_edges "edges of four columns"      'edges|3|4'          INT64 '[1,4]' '[0,0,0,0]' '[1]' '[0]'
bad_edges "edges of floats"            'edges|FP32|INT'     FP32 '[1,3]' '[0,0,0]' '[1]' '[0]'
bad_edges "an edge with a fraction"    'edges|1.5'          INT64 '[1,3]' '[0,0,1.5]' '[1]' '[0]'
bad_edges "an edge of more than 64 bits" 'edges'            INT64 '[1,3]' '[0,0,9223372036854775808]' '[1]' '[0]'
bad_edges "an edge of more than 32 bits" 'edges'            INT32 '[1,3]' '[0,0,2147483648]' '[1]' '[0]'
bad_edges "a boolean edge"             'edges'              INT64 '[1,3]' '[0,0,true]' '[1]' '[0]'
bad "edges without types" 400 'edge_types' relational "$(request "$three,$(tensor edges INT64 '[1,3]' '[0,0,0]')")"
bad "types without edges" 400 'edges' relational "$(request "$three,$(tensor edge_types INT64 '[1]' '[0]')")"

# ---- bytes -----------------------------------------------------------------------------------
# The good request with its query as `size` declared bytes; `sent` bytes follow, and the header says
# where the JSON ends (or else what is given).
bad_bytes() { # NAME TEXTS SHAPE DECLARED SENT [HEADER]
    local json
    json=$(request "$(binary_tensor query FP32 "$3" "$4"),$key,$value")
    { printf '%s' "$json"; head -c "$5" /dev/zero; } >"$scratch/request"
    bad "$1" 400 "$2" mha "@$scratch/request" -H "Inference-Header-Content-Length: ${6-${#json}}"
}
bad_bytes "fewer bytes than declared"   'query|4'      '[1,1,4]' 16 12
bad_bytes "no bytes at all"             'query|16'     '[1,1,4]' 16 0
bad_bytes "more bytes than declared"    '4'            '[1,1,4]' 16 20
bad_bytes "a size below the shape"      'query|16|12'  '[1,1,4]' 12 12
bad_bytes "a size above the shape"      'query|16|20'  '[1,1,4]' 20 20
bad_bytes "a size of zero"              'query|16|0'   '[1,1,4]' 0 0
bad_bytes "a negative size"             'query|-16'    '[1,1,4]' -16 16
bad_bytes "a size that is a fraction"   'query'        '[1,1,4]' 16.5 16
bad_bytes "a size that is a string"     'query'        '[1,1,4]' '"16"' 16
bad_bytes "a size beyond 64 bits"       'inputs[0]|binary_data_size|99999999999999999999'       '[1,1,4]' 99999999999999999999 16
bad_bytes "the largest size"            'query'        '[1,1,4]' 9223372036854775807 16
bad_bytes "a shape that overflows"      'query'        '[4294967296,4294967296,4]' 16 16
bad_bytes "a header that is no number"  'Inference-Header-Content-Length|abc' '[1,1,4]' 16 16 abc
bad_bytes "a negative header"           'Inference-Header-Content-Length|-1' '[1,1,4]' 16 16 -1
bad_bytes "a fractional header"         'Inference-Header-Content-Length' '[1,1,4]' 16 16 1.5
bad_bytes "a header beyond the body"    'header size|100000' '[1,1,4]' 16 16 100000
bad_bytes "a header beyond 64 bits"     'Inference-Header-Content-Length' '[1,1,4]' 16 16 99999999999999999999
bad_bytes "a header that cuts the JSON" ''             '[1,1,4]' 16 16 40
bad_bytes "a header that takes bytes in" ''            '[1,1,4]' 16 16 400
json=$(request "$(binary_tensor query FP32 '[1,1,4]' 16),$key,$value")
{ printf '%s' "$json"; head -c 16 /dev/zero; } >"$scratch/request"
bad "bytes without the header" 400 '' mha "@$scratch/request"
bad "bytes declared, no header" 400 'query' mha "$json"
bad "a header of zero" 400 'query, key, value' mha "@$scratch/request" -H 'Inference-Header-Content-Length: 0'
json=$(request "$(binary_tensor query BYTES '[1,1,4]' 16),$key,$value")
{ printf '%s' "$json"; head -c 16 /dev/zero; } >"$scratch/request"
bad "strings as bytes" 400 'query|BYTES' mha "@$scratch/request" -H "Inference-Header-Content-Length: ${#json}"
json=$(request "$query,$key,$value,$(binary_tensor mask BOOL '[1,1,2]' 2)")
{ printf '%s' "$json"; printf '\0\2'; } >"$scratch/request"
bad "a boolean byte of 2" 400 'mask|2' mha "@$scratch/request" -H "Inference-Header-Content-Length: ${#json}"
json=$(request "$(binary_tensor query FP64 '[1,1,4]' 32),$key,$value")
{ printf '%s' "$json"; pack FP64 0 0 1e300 0; } >"$scratch/request"
bad "a double beyond a float" 400 'query' mha "@$scratch/request" -H "Inference-Header-Content-Length: ${#json}"

# ---- limits ----------------------------------------------------------------------------------
py - >"$scratch/request" <<'END'
row = ",".join(["0"] * 1000)
ports = ('{"name":"%s","datatype":"FP32","shape":[1,1000,1],"data":[%s]}' % (n, row) for n in ("query", "key"))
print('{"inputs":[%s]}' % ",".join(ports))
END
bad "an output over its limit" 413 'logits|4000000|1000000|http-max-output-size' score "@$scratch/request"
ask POST /v2/models/mha/infer --data '' -H 'Content-Length: 67108865'
expect_error "a body over its limit, before it is read" 413 'http-max-input-size|67108864'
ask POST /v2/models/mha/infer --data '' -H 'Content-Length: 9223372036854775807'
expect_error "the largest body" 413 'http-max-input-size'
ask POST /v2/models/mha/infer --data '' -H 'Content-Length: 99999999999999999999999'
holds "a body length beyond 64 bits" [ "$status" = 400 -o "$status" = 413 ]
ask POST /v2/models/mha/infer -T - -H 'Expect:' -H 'Transfer-Encoding: chunked' < <(head -c 70000000 /dev/zero)
holds "a chunked body over its limit" [ "$status" = 413 -o "$status" = 000 ]
ask POST /v2/models/nobody/infer --data "$good"
expect_error "an unknown model" 404 'nobody'
ask POST /v2/models/mha/versions/9/infer --data "$good"
expect_error "an unknown version" 404 'mha|9'
ask GET /v2/models/mha/infer
expect_error "a wrong verb" 405 ''
equal "a wrong verb: what is allowed" POST "$(header Allow)"
ask POST /v2/models/mha/infer --data-binary "$good" -H 'Content-Encoding: br'
expect_error "a body in an encoding that is not offered" 415 'gzip|zstd|br'
ask POST /v2/repository/index --data '{"ready": 5}'
expect_error "repository index with a bad body" 400 'ready'
ask POST /v2/repository/index --data 'junk'
expect_error "repository index with no JSON" 400 ''

# ---- clients that misbehave ------------------------------------------------------------------
healthy() { # NAME
    ask GET /v2/health/live
    expect_status "$1: the daemon lives" 200
    infer mha "$good"
    holds "$1: and computes" cmp "$scratch/good" "$scratch/body"
}
port=${base##*:}
holds "a body that never ends: the connection is closed" py "$here/raw.py" "$port" unfinished
healthy "a body that never ends"
holds "a body that stops half-way" py "$here/raw.py" "$port" half
healthy "a body that stops half-way"
holds "clients that leave at any moment" py "$here/raw.py" "$port" leave
healthy "clients that leave at any moment"
holds "no HTTP at all" py "$here/raw.py" "$port" garbage
healthy "no HTTP at all"
holds "requests sent ahead are answered in order" py "$here/raw.py" "$port" pipeline
holds "headers without end are cut off" py "$here/raw.py" "$port" headers
healthy "headers without end"
finish
