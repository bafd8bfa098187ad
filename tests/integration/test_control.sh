#!/usr/bin/env bash
# Can models be loaded, reloaded and unloaded while the daemon serves, in each mode, as files, configuration and
# signals say? Does what is bad leave what serves alone?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
mha_config='{"layer": {"kind": "routing_mha", "embedding_dim": 4, "n_heads": 2}}'
weights=1/model.safetensors

# A copy of the repository of its own for each part.
fresh() { # NAME
    cp -r "$scratch/models" "$scratch/$1"
    root=$scratch/$1
}

index() { # [BODY]
    ask POST /v2/repository/index ${1:+--data-binary "$1"}
}

load() { # MODEL [BODY]
    ask POST "/v2/repository/models/$1/load" ${2:+--data-binary "$2"}
}

unload() { # MODEL [BODY]
    ask POST "/v2/repository/models/$1/unload" ${2:+--data-binary "$2"}
}

# What mha, or another of its kind, answers to `good`: a factor of the weights.
factor() { # MODEL[/versions/N]
    infer "$1" "$good"
    echo $(($(sed -nE 's/.*"data":\[([0-9]+),.*/\1/p' "$scratch/body") / 2))
}

gives() { # MODEL FACTOR
    [ "$(factor "$1")" = "$2" ]
}

has_state() { # MODEL STATE
    index
    grep -qE "\"name\":\"$1\",\"version\":\"[0-9]*\",\"state\":\"$2\"" "$scratch/body"
}

has_reason() { # MODEL TEXT
    index
    grep -qE "\"name\":\"$1\",\"version\":\"[0-9]*\",\"state\":\"[A-Z]*\",\"reason\":\"[^\"]*$2" "$scratch/body"
}

is_unknown() { # MODEL
    ask GET "/v2/models/$1"
    [ "$status" = 404 ]
}

# ---- mode none -------------------------------------------------------------------------------
fresh none
start_daemon --model-repository="$root"
load mha
expect_error "none: no loading on request" 503 'explicit'
unload mha
expect_error "none: no unloading on request" 503 'explicit'
equal "none: what is there is served" 1 "$(factor mha)"
py "$here/models.py" scaled "$root/mha/$weights" 2
cp -r "$root/mha" "$root/later"
equal "none: a change on disk is not looked at" 1 "$(factor mha)"
holds "none: nor is a new folder" is_unknown later
kill -HUP "$daemon_pid"
holds "SIGHUP: what has changed is served" wait_for gives mha 2
holds "SIGHUP: so is what is new" wait_for gives later 2
echo 'oops' >"$root/mha/config.json"
rm -r "$root/later"
kill -HUP "$daemon_pid"
holds "SIGHUP: what has gone is not served" wait_for is_unknown later
holds "SIGHUP: a bad config is a reason" wait_for has_reason mha config.json
holds "SIGHUP: ... beside what serves on" gives mha 2
ask GET /v2/health/ready
expect_status "SIGHUP: still ready" 200
stop_daemon "none: it stops"

# ---- mode poll -------------------------------------------------------------------------------
fresh poll
start_daemon --model-repository="$root" --model-control-mode=poll --repository-poll-secs=1
load mha
expect_error "poll: no loading on request" 503 'polling'
unload mha
expect_error "poll: no unloading on request" 503 'polling'
py "$here/models.py" scaled "$root/mha/$weights" 3
cp -r "$root/mha" "$scratch/new"
mv "$scratch/new" "$root/new"
holds "poll: new weights are seen" wait_for gives mha 3
holds "poll: a new model is seen" wait_for gives new 3
mkdir "$root/new/2"
py "$here/models.py" scaled "$root/new/2/model.safetensors" 4
holds "poll: a new version is seen" wait_for gives new 4
equal "poll: the old one serves beside it" 3 "$(factor new/versions/1)"
head -c 60 "$root/mha/$weights" >"$root/mha/1/half"
mv "$root/mha/1/half" "$root/mha/$weights"
holds "poll: half a file is a reason" wait_for has_reason mha "$weights"
equal "poll: ... beside what serves on" 3 "$(factor mha)"
py "$here/models.py" scaled "$root/mha/$weights" 5
holds "poll: the whole file is served" wait_for gives mha 5
index
expect_json "poll: ... and the reason has gone" '[m["reason"] for m in j if m["name"] == "mha"] == [""]'
rm -r "$root/new"
holds "poll: what has gone is not served" wait_for is_unknown new
stop_daemon "poll: it stops"

# ---- mode explicit ---------------------------------------------------------------------------
fresh explicit
start_daemon --model-repository="$root" --model-control-mode=explicit
index
expect_json "explicit: nothing is loaded, everything listed by name" 'len(j) == 8 and all(list(m) == ["name"] for m in j)'
infer mha "$good"
expect_error "explicit: a model that nobody asked for" 503 'mha'
ask GET /v2/health/ready
expect_status "explicit: ready without a model" 200
load mha
expect_status "load" 200
equal "load: an empty body" 0 "$(wc -c <"$scratch/body")"
equal "load: of that length" 0 "$(header Content-Length)"
equal "load: it is served" 1 "$(factor mha)"
load mha '{}'
expect_status "load: once more, with an empty object" 200
py "$here/models.py" scaled "$root/mha/$weights" 2
equal "load: not before it is asked for" 1 "$(factor mha)"
load mha '{"parameters":{}}'
equal "load: again takes what is there" 2 "$(factor mha)"
load versions
index '{"ready":true}'
expect_json "the index of what is ready" '[(m["name"], m["version"], m["state"], m["reason"]) for m in j] ==
    [("mha", "1", "READY", ""), ("versions", "1", "READY", ""), ("versions", "2", "READY", ""), ("versions", "10", "READY", "")]'
unload mha
expect_status "unload" 200
equal "unload: an empty body" 0 "$(wc -c <"$scratch/body")"
infer mha "$good"
expect_error "unload: not served any more" 503 'mha|unloaded'
ask GET /v2/models/mha/ready
expect_status "unload: not ready" 503
index
expect_json "unload: the index says so" '[(m["state"], m["reason"]) for m in j if m["name"] == "mha"] == [("UNAVAILABLE", "unloaded")]'
unload mha '{"parameters":{"unload_dependents":true}}'
expect_status "unload: what is unloaded, dependents and all" 200
load mha
equal "load: after an unload" 2 "$(factor mha)"
mkdir -p "$root/added/1"
echo "$mha_config" >"$root/added/config.json"
py "$here/models.py" scaled "$root/added/$weights" 6
load added
equal "load: a folder that was not there at the start" 6 "$(factor added)"

# ---- what is bad -----------------------------------------------------------------------------
mkdir "$scratch/outside"
cp -r "$root/mha" "$scratch/outside/mha"
long=$(printf 'x%.0s' {1..300})
for name in .. . %2e%2e ..%2foutside a%2fb %00 x%00y .hidden %0a %ff; do
    for verb in load unload; do
        "$verb" "$name"
        expect_error "$verb: the name ${name:0:20}" 400 ''
    done
done
load "$long"
expect_error "load: a name that is too long" 404 'longer'
load ''
expect_error "load: no name" 404 'Not Found'
load nobody
expect_error "load: no such folder" 404 'nobody|no such folder'
unload nobody
expect_error "unload: no such model" 404 'nobody'
ask GET /v2/repository/models/mha/load
expect_error "load by GET" 405 'POST'
equal "load by GET: Allow" POST "$(header Allow)"
bad() { # NAME STATUS TEXTS BODY [MODEL]
    load "${5:-mha}" "$4"
    expect_error "load: $1" "$2" "$3"
}
bad "a body that is no JSON"        400 'object'       'junk'
bad "a body that is a list"         400 'object'       '[]'
bad "an unknown member"             400 'parameter'    '{"parameter":{}}'
bad "an unknown parameter"          400 'colour'       '{"parameters":{"colour":1}}'
bad "a config of a kind"            400 'string'       '{"parameters":{"config":{"layer":1}}}'
bad "a config that is no JSON"      400 'mha'          '{"parameters":{"config":"{"}}'
bad "a config with an unknown key"  400 'mha|colour'   '{"parameters":{"config":"{\"colour\":1}"}}'
bad "a config twice"                400 'config|twice' '{"parameters":{"config":"{}","config":"{}"}}'
bad "a layer that does not fit the weights" 400 'mha|embedding_dim' \
    '{"parameters":{"config":"{\"layer\":{\"kind\":\"routing_mha\",\"embedding_dim\":3,\"n_heads\":2}}"}}'
bad "a file without a config"       400 'config'       '{"parameters":{"file:1/model.safetensors":""}}'
quoted=${mha_config//\"/\\\"}
for path in model.safetensors ../model.safetensors 1/../x 1/x/y /1/x x/y 0/x 01/x 1/ 1/. 1/..; do
    bad "the file $path"            400 'file:'        '{"parameters":{"config":"'"$quoted"'","file:'"$path"'":""}}'
done
bad "a file that is no base64"      400 'base64'       '{"parameters":{"config":"'"$quoted"'","file:1/model.safetensors":"!"}}'
bad "a file of a kind"              400 'string'       '{"parameters":{"config":"'"$quoted"'","file:1/model.safetensors":1}}'
bad "a file that is no weights"     400 'safetensors'  '{"parameters":{"config":"'"$quoted"'","file:1/model.safetensors":"AAAA"}}'
bad "a file that is missing"        400 '1/model'      '{"parameters":{"config":"'"$quoted"'","file:1/other":"AAAA"}}'
bad "a new model of bad files"      400 'safetensors'  '{"parameters":{"config":"'"$quoted"'","file:1/model.safetensors":"AAAA"}}' ghost
equal "after all that mha serves what it did" 2 "$(factor mha)"
index
expect_json "... and nothing came of a bad name" '{m["name"] for m in j} ==
    {"added", "causal", "mha", "nan", "proj", "relational", "score", "speech", "versions"}'
unload mha '{"parameters":{"config":"{}"}}'
expect_error "unload: a parameter of load" 400 'config'

# ---- what a load brings along ----------------------------------------------------------------
blocked=$(request "$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor mask BOOL '[1,1,2]' '[false,false]')")
load speech '{"parameters":{"config":"{\"layer\":{\"kind\":\"speech_mha\",\"num_heads\":2,\"d_model\":4},\"empty_rows\":\"nan\"}"}}'
expect_status "a config with the load" 200
infer speech "$blocked"
expect_error "... is what counts" 422 'NaN'
kill -HUP "$daemon_pid"
sleep 0.3
infer speech "$blocked"
expect_error "... also after SIGHUP" 422 'NaN'
load speech
infer speech "$blocked"
expect_status "... until the next load" 200
py "$here/models.py" scaled "$scratch/seven" 7
py "$here/models.py" scaled "$scratch/eight" 8
printf '{"parameters":{"config":"%s","file:1/model.safetensors":"%s","file:3/model.safetensors":"%s"}}' "$quoted" \
    "$(base64 -w 0 "$scratch/seven")" "$(base64 -w 0 "$scratch/eight")" >"$scratch/files"
load sent "@$scratch/files"
expect_status "a model that is only sent" 200
equal "... is served, the highest version first" 8 "$(factor sent)"
equal "... and the other beside it" 7 "$(factor sent/versions/1)"
holds "... and not written to disk" test ! -e "$root/sent"
load mha "@$scratch/files"
equal "files for a model that is on disk" 8 "$(factor mha)"
kill -HUP "$daemon_pid"
sleep 0.3
equal "... stay after SIGHUP" 8 "$(factor mha)"
load mha
equal "... until the next load" 2 "$(factor mha)"
unload sent
infer sent "$good"
holds "what was only sent has gone with its unload" [ "$status" != 200 ]
stop_daemon "explicit: it stops"

# ---- --load-model ----------------------------------------------------------------------------
start_daemon --model-repository="$root" --model-control-mode=explicit --load-model=mha,nobody,score
index '{"ready":true}'
expect_json "--load-model: those named" '[m["name"] for m in j] == ["mha", "score"]'
holds "--load-model: one that is not there has its reason" has_reason nobody nobody
stop_daemon "--load-model: it stops"
start_daemon --model-repository="$root" --model-control-mode=explicit '--load-model=*' --strict-readiness
index '{"ready":true}'
expect_json "--load-model=*: all" 'len({m["name"] for m in j}) == 9'
ask GET /v2/health/ready
expect_status "--strict-readiness: all that is wanted is loaded" 200
unload mha
ask GET /v2/health/ready
expect_status "--strict-readiness: what was unloaded is not wanted" 200
echo 'oops' >"$root/score/config.json"
load score
ask GET /v2/health/ready
expect_status "--strict-readiness: a failed reload beside what serves on" 200
stop_daemon "--load-model=*: it stops"
holds "--load-model in another mode is refused" grep -q explicit <("$DAEMON" --model-repository="$root" --load-model=mha 2>&1)
holds "a mode that is none is refused" grep -q 'model-control-mode' <("$DAEMON" --model-control-mode=magic 2>&1)

# ---- versions and warm-up --------------------------------------------------------------------
fresh policies
layer='"layer": {"kind": "routing_mha", "embedding_dim": 4, "n_heads": 2}'
policy() { # POLICY
    load versions "{\"parameters\":{\"config\":\"${layer//\"/\\\"}\"}}"
    echo "{$layer, \"version_policy\": $1}" >"$root/versions/config.json"
    load versions
}
serves() { # NAME VERSIONS
    ask GET /v2/models/versions
    expect_json "$1" "j['versions'] == '$2'.split()"
}
start_daemon --model-repository="$root" --model-control-mode=explicit '--load-model=versions'
serves "no policy: all versions" '1 2 10'
policy '{"latest": {"num_versions": 2}}'
serves "the latest two" '2 10'
infer versions/versions/1 "$good"
expect_error "a version that the policy leaves out" 404 '1'
policy '{"latest": {}}'
serves "the latest" '10'
policy '{"specific": {"versions": [2, 1]}}'
serves "those named" '1 2'
equal "the highest of them is the default" 2 "$(factor versions)"
ask GET /v2/models/versions/config
expect_json "the policy is in the configuration" 'j["version_policy"] == {"specific": {"versions": [1, 2]}} or
    j["version_policy"] == {"specific": {"versions": ["1", "2"]}}'
policy '{"all": {}}'
serves "all" '1 2 10'
policy '{"specific": {"versions": [1, 7]}}'
serves "one of those named is not there: the other" '1'
holds "... and the index tells" has_reason versions 'no such version'
for fault in '{}' '{"all":{},"latest":{}}' '{"latest":{"num_versions":0}}' '{"specific":{"versions":[]}}' '{"newest":{}}' '[]'; do
    policy "$fault"
    expect_error "a policy that is none: $fault" 400 'config.json|version_policy'
done
serves "bad policies leave what serves" '1'

warm() { # WARMUPS
    echo "{$layer, \"warmup\": $1}" >"$root/mha/config.json"
    load mha
}
warm '[{"name": "three", "count": 3, "inputs": {"query": {"shape": [2, 1, 4], "data": "random"},
    "key": {"shape": [2, 3, 4], "data": "random"}, "value": {"shape": [2, 3, 4], "data": "zero"}}}]'
expect_status "warm-up: the load" 200
equal "warm-up: it serves" 1 "$(factor mha)"
ask GET /v2/models/mha/config
expect_json "warm-up: in the configuration" '[w["name"] for w in j["model_warmup"]] == ["three"]'
warm '[{"name": "narrow", "inputs": {"query": {"shape": [1, 1, 4]}, "key": {"shape": [1, 3, 4]}, "value": {"shape": [1, 3, 3]}}}]'
expect_error "warm-up: one that fails is a load that fails" 400 'narrow|value'
holds "warm-up: ... with its reason in the index" has_reason mha narrow
equal "warm-up: ... and what serves serves on" 1 "$(factor mha)"
unload mha
load mha
expect_error "warm-up: nor does it come up alone" 400 'narrow'
infer mha "$good"
expect_error "warm-up: ... so it is not served" 503 'narrow'
warm '[{"name": "x", "inputs": {}}]'
expect_error "warm-up: without inputs" 400 'config.json|warmup'
warm '[{"name": "x", "count": 0, "inputs": {"query": {"shape": [1, 1, 4]}}}]'
expect_error "warm-up: none" 400 'warmup|count'
warm '{}'
expect_error "warm-up: of a kind" 400 'warmup'
finish
