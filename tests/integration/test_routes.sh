#!/usr/bin/env bash
# Does every route answer as the protocol says: status, content type, verbs, odd paths?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models"

# ---- server ----------------------------------------------------------------------------------
for path in /v2 /v2/; do
    ask GET "$path"
    expect_status "GET $path" 200
    equal "GET $path: type" application/json "$(header Content-Type)"
    expect_json "GET $path: says what it is" \
        'j["name"] == "attentiond" and j["version"] and
         {"binary_tensor_data", "gradient", "training"} <= set(j["extensions"])'
done
ask GET /v2/health/live
expect_status "GET /v2/health/live" 200
expect_json "GET /v2/health/live: body" 'j["live"] is True'
ask GET /v2/health/ready
expect_status "GET /v2/health/ready" 200
expect_json "GET /v2/health/ready: body" 'j["ready"] is True'

# ---- models ----------------------------------------------------------------------------------
ask GET /v2/models
expect_status "GET /v2/models" 200
expect_json "GET /v2/models: all of them" 'set("causal mha nan proj relational score speech versions".split())
    == {m if isinstance(m, str) else m["name"] for m in j["models"]}'
ask POST /v2/repository/index
expect_status "POST /v2/repository/index without a body" 200
expect_json "repository index" '{(m["name"], m["version"], m["state"]) for m in j} ==
    {(n, "1", "READY") for n in "causal mha nan proj relational score speech".split()} |
    {("versions", v, "READY") for v in ("1", "2", "10")}'
ask POST /v2/repository/index --data '{"ready": true}'
expect_status "POST /v2/repository/index with ready" 200
expect_json "repository index: the ready ones" 'len(j) == 10'

ask GET /v2/models/mha
expect_status "metadata" 200
expect_json "metadata: names and versions" 'j["name"] == "mha" and j["versions"] == ["1"] and j["platform"]'
expect_json "metadata: inputs" \
    '[(i["name"], i["datatype"]) for i in j["inputs"]] == [("query", "FP32"), ("key", "FP32"),
     ("value", "FP32"), ("mask", "BOOL")]'
expect_json "metadata: the shape of the values" 'j["inputs"][2]["shape"] == [-1, -1, 4]'
expect_json "metadata: the mask is marked optional, the query is not" \
    'j["inputs"][3]["optional"] is True and not j["inputs"][0].get("optional")'
expect_json "metadata: outputs, attention optional" \
    '[(o["name"], bool(o.get("optional"))) for o in j["outputs"]] == [("out", False), ("attention", True)]'
ask GET /v2/models/versions
expect_json "metadata: all versions" 'sorted(j["versions"], key=int) == ["1", "2", "10"]'
for version in 1 2 10; do
    ask GET "/v2/models/versions/versions/$version"
    expect_status "metadata of version $version" 200
    ask GET "/v2/models/versions/versions/$version/ready"
    expect_status "version $version is ready" 200
done
ask GET /v2/models/relational
expect_json "metadata: integer inputs" \
    'named(j["inputs"], "edges")["datatype"] == "INT64" and named(j["inputs"], "edges")["shape"] == [-1, 3]'
ask GET /v2/models/mha/ready
expect_status "model ready" 200
expect_json "model ready: body" 'j["name"] == "mha" and j["ready"] is True'
ask GET /v2/models/mha/config
expect_status "config" 200
expect_json "config: types and optional inputs" \
    'j["name"] == "mha" and j["input"][0]["data_type"] == "TYPE_FP32" and
     named(j["input"], "mask")["data_type"] == "TYPE_BOOL" and named(j["input"], "mask")["optional"] is True and
     [o["name"] for o in j["output"]][0] == "out"'
ask GET /v2/models/mha/versions/1/config
expect_status "config of a version" 200

# ---- HEAD ------------------------------------------------------------------------------------
for path in /v2 /v2/health/live /v2/health/ready /v2/models /v2/models/mha /v2/models/mha/ready \
    /v2/models/mha/config /v2/models/versions/versions/2; do
    ask GET "$path"
    length=$(header Content-Length)
    ask HEAD "$path"
    expect_status "HEAD $path" 200
    equal "HEAD $path: the length that GET has" "$length" "$(header Content-Length)"
    equal "HEAD $path: the type that GET has" application/json "$(header Content-Type)"
done
ask HEAD /v2/models/nobody
expect_status "HEAD of an unknown model" 404

# ---- what is not there -----------------------------------------------------------------------
long=$(printf 'x%.0s' {1..3000})
while read -r expected path; do
    ask GET "$path"
    expect_error "GET ${path:0:60}" "$expected" ''
done <<END
404 /
404 /v1
404 /v2x
404 /v2//health/live
404 /v2/health
404 /v2/health/live/
404 /v2/health/live/more
404 /v2/health/LIVE
404 /v2/models/
404 /v2/models//
404 /v2/models/mha/
404 /v2/models/mha/versions
404 /v2/models/mha/versions/
404 /v2/models/mha/versions/2
404 /v2/models/mha/versions/01
404 /v2/models/mha/versions/0
404 /v2/models/mha/versions/-1
404 /v2/models/mha/versions/1x
404 /v2/models/mha/versions/18446744073709551617
404 /v2/models/mha/versions/99999999999999999999999999
404 /v2/models/mha/versions/1/nothing
404 /v2/models/mha/nothing
404 /v2/models/mha/gradient/
404 /v2/models/MHA
400 /v2/models/%2e%2e
400 /v2/models/%2e%2e%2fmodels
400 /v2/models/../../etc/passwd
400 /v2/models/..
400 /v2/models/mha%2fready
400 /v2/models/mha%00
400 /v2/models/%00
400 /v2/models/mha%
400 /v2/models/mha%zz
404 /v2/models/%ff%fe
400 /v2/models/%0d%0aX-Injected:%20yes
404 /v2/models/$long
404 /favicon.ico
END
ask GET '/v2/models/%6dha'
expect_status "a name spelled with percent escapes" 200
ask GET '/v2/models/nobody'
expect_error "an unknown model is named" 404 nobody
ask GET '/v2/models/%3Cscript%3E%22'
expect_error "a hostile name" 404 ''
expect_json "a hostile name is quoted as JSON" 'isinstance(j["error"], str)'
ask GET '/v2/models/mha?version=7&x=%00'
expect_status "a query string changes nothing" 200

# ---- verbs -----------------------------------------------------------------------------------
while read -r verb path allowed; do
    ask "$verb" "$path" --data ''
    expect_error "$verb $path" 405 ''
    equal "$verb $path: Allow" "$allowed" "$(header Allow | tr -d ' ' | tr , '\n' | sort | paste -sd ,)"
done <<END
POST /v2 GET,HEAD
PUT /v2/health/live GET,HEAD
DELETE /v2/health/ready GET,HEAD
POST /v2/models GET,HEAD
POST /v2/models/mha GET,HEAD
PATCH /v2/models/mha/ready GET,HEAD
DELETE /v2/models/mha/config GET,HEAD
POST /v2/models/mha/versions/1 GET,HEAD
GET /v2/models/mha/infer POST
GET /v2/models/mha/gradient POST
DELETE /v2/models/mha/versions/1/gradient POST
PUT /v2/models/mha/infer POST
DELETE /v2/models/mha/versions/1/infer POST
OPTIONS /v2/models/mha/infer POST
GET /v2/repository/index POST
BREW /v2 GET,HEAD
END
ask HEAD /v2/models/mha/infer
expect_status "HEAD of a POST route" 405

# ---- the log ---------------------------------------------------------------------------------
equal "a client cannot forge a log line" '' "$(grep -a '^X-Injected' "$scratch/log")"
finish
