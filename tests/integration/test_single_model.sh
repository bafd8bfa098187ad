#!/usr/bin/env bash
# Is a folder that holds one model's files served as that model, under the name that it is given, in each mode, and
# does what is wrong with it say so?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
mha_config='{"layer": {"kind": "routing_mha", "embedding_dim": 4, "n_heads": 2}}'

# A folder with config.json and weights of `mha` times 2: beside it, or below 1/.
flat() { # NAME
    root=$scratch/$1
    mkdir -p "$root"
    echo "$mha_config" >"$root/config.json"
    py "$here/models.py" scaled "$root/model.safetensors" 2
}

with_version() { # NAME
    flat "$1"
    mkdir "$root/1"
    mv "$root/model.safetensors" "$root/1/"
}

factor() { # MODEL[/versions/N]
    infer "$1" "$good"
    echo $(($(sed -nE 's/.*"data":\[([0-9]+),.*/\1/p' "$scratch/body") / 2))
}

gives() { # MODEL FACTOR
    [ "$(factor "$1")" = "$2" ]
}

has_reason() { # MODEL TEXT
    ask POST /v2/repository/index
    grep -qE "\"name\":\"$1\",(\"version\":\"[0-9]*\",)?\"state\":\"[A-Z]*\",\"reason\":\"[^\"]*$2" "$scratch/body"
}

names_are() { # 'NAMES, sorted, between blanks'
    ask GET /v2/models
    [ "$(py -c 'import json, sys; print(*sorted(json.load(open(sys.argv[1]))["models"]))' "$scratch/body")" = "$1" ]
}

logged() { # TEXT
    grep -q -e "$1" "$scratch/log"
}

# ---- as a serving platform starts it ---------------------------------------------------------
for kind in flat with_version; do
    $kind "mnt_$kind"
    chmod -R a-w "$root"
    start_daemon --model-repository="$root" --model-name=demo --strict-readiness
    ask GET /v2/health/ready
    expect_status "$kind: ready" 200
    ask GET /v2/models/demo/ready
    expect_status "$kind: the model too" 200
    equal "$kind: it answers to the name given" 2 "$(factor demo)"
    expect_json "$kind: ... and says it" 'j["model_name"] == "demo" and j["model_version"] == "1"'
    equal "$kind: version 1" 2 "$(factor demo/versions/1)"
    ask GET /v2/models/demo/config
    expect_json "$kind: in its configuration" 'j["name"] == "demo"'
    ask GET /v2/models/demo/stats
    expect_json "$kind: in its statistics" 'j["model_stats"][0]["name"] == "demo"'
    equal "$kind: in its metrics" 2 "$(metric attentiond_requests_total 'model="demo"' 'outcome="success"')"
    ask POST /v2/repository/index
    expect_json "$kind: and alone in the index" \
        '[(m["name"], m["version"], m["state"]) for m in j] == [("demo", "1", "READY")]'
    ask GET "/v2/models/mnt_$kind"
    expect_status "$kind: its folder's name is nobody's" 404
    stop_daemon "$kind: it stops"
    chmod -R u+w "$root"
done

# ---- without a name --------------------------------------------------------------------------
flat plain
start_daemon --model-repository="$root/"
equal "without a name it has its folder's" 2 "$(factor plain)"
stop_daemon "without a name: it stops"
(cd "$root" && exec "$DAEMON" --check-config --model-repository=.) >"$scratch/checked" 2>&1
equal "--check-config of the folder one stands in" 0 $?
contains "--check-config: it counts one" "OK: 1 models in ." "$scratch/checked"

# ---- renaming --------------------------------------------------------------------------------
mkdir "$scratch/renamed"
cp -r "$scratch/models/mha" "$scratch/renamed/"
start_daemon --model-repository="$scratch/renamed" --model-name=other
equal "the only folder is renamed" 1 "$(factor other)"
holds "... and only that is there" names_are other
stop_daemon "renamed: it stops"
start_daemon --model-repository="$scratch/models" --model-name=other
equal "several folders keep their names" 1 "$(factor mha)"
holds "... and the log says why" logged '--model-name is ignored'
ask GET /v2/models/other
expect_status "... the name is nobody's" 404
stop_daemon "several: it stops"

# ---- mode poll -------------------------------------------------------------------------------
flat poll
start_daemon --model-repository="$root" --model-name=demo --model-control-mode=poll --repository-poll-secs=1
py "$here/models.py" scaled "$root/model.safetensors" 3
holds "poll: new weights are seen" wait_for gives demo 3
echo oops >"$root/config.json"
holds "poll: a bad config is a reason" wait_for has_reason demo config.json
equal "poll: ... beside what serves on" 3 "$(factor demo)"
rm "$root/config.json"
holds "poll: a missing one too" wait_for has_reason demo 'no such file'
equal "poll: ... which does not look for models elsewhere" 3 "$(factor demo)"
mkdir "$root/2"
py "$here/models.py" scaled "$root/2/model.safetensors" 4
echo "$mha_config" >"$root/config.json"
holds "poll: a version's folder is taken instead" wait_for gives demo 4
cp -r "$scratch/models/score" "$root/score"
holds "poll: one model and many at once is refused" wait_for logged 'lies beside'
equal "poll: ... and what serves serves on" 4 "$(factor demo)"
rm -r "$root/config.json" "$root/2"
cp -r "$scratch/models/mha" "$root/mha"
holds "poll: without its config it is a folder of models" wait_for names_are 'mha score'
equal "poll: ... which are served" 1 "$(factor mha)"
holds "poll: ... under their own names" logged '--model-name is ignored'
stop_daemon "poll: it stops"

# ---- modes none and explicit -----------------------------------------------------------------
with_version none
start_daemon --model-repository="$root" --model-name=demo
py "$here/models.py" scaled "$root/1/model.safetensors" 5
equal "none: a change is not looked at" 2 "$(factor demo)"
kill -HUP "$daemon_pid"
holds "SIGHUP: it is" wait_for gives demo 5
stop_daemon "none: it stops"

flat explicit
start_daemon --model-repository="$root" --model-name=demo --model-control-mode=explicit
infer demo "$good"
expect_error "explicit: not before it is asked for" 503 'demo'
ask POST /v2/repository/models/explicit/load
expect_error "explicit: not by its folder's name" 404 "demo"
ask POST /v2/repository/models/demo/load
expect_status "explicit: load" 200
equal "explicit: it is served" 2 "$(factor demo)"
py "$here/models.py" scaled "$scratch/seven" 7
printf '{"parameters":{"config":"%s","file:3/model.safetensors":"%s"}}' "${mha_config//\"/\\\"}" \
    "$(base64 -w 0 "$scratch/seven")" >"$scratch/files"
ask POST /v2/repository/models/demo/load --data-binary "@$scratch/files"
equal "explicit: with files and config of its own" 7 "$(factor demo)"
ask POST /v2/repository/models/demo/load --data-binary "{\"parameters\":{\"config\":\"${mha_config//\"/\\\"}\"}}"
equal "explicit: with a config, over the weights on disk" 2 "$(factor demo)"
ask POST /v2/repository/models/demo/unload
expect_status "explicit: unload" 200
infer demo "$good"
expect_error "explicit: not served any more" 503 'unloaded'
stop_daemon "explicit: it stops"
start_daemon --model-repository="$root" --model-name=demo --model-control-mode=explicit --load-model=demo
equal "--load-model by the name given" 2 "$(factor demo)"
stop_daemon "--load-model: it stops"

# ---- warm-up and readiness -------------------------------------------------------------------
echo "${mha_config%\}}"', "warmup": [{"name": "narrow", "inputs": {"query": {"shape": [1, 1, 4]},
    "key": {"shape": [1, 3, 4]}, "value": {"shape": [1, 3, 3]}}}]}' >"$root/config.json"
start_daemon --model-repository="$root" --model-name=demo --strict-readiness
ask GET /v2/health/ready
expect_status "a warm-up that fails: not ready" 503
holds "a warm-up that fails: the reason" has_reason demo narrow
stop_daemon "warm-up: it stops"

# ---- what is wrong with it -------------------------------------------------------------------
refused() { # NAME STATUS TEXTS ARGUMENTS...
    timeout "$PATIENCE" "$DAEMON" --http-port=0 "${@:4}" >"$scratch/said" 2>&1
    equal "$1: status" "$2" $?
    contains "$1: text" "$3" "$scratch/said"
}
flat both
cp -r "$scratch/models/mha" "$root/mha"
refused "one model and many" 1 "$root/config.json lies beside $root/mha/config.json" --model-repository="$root"
refused "a name that cannot be" 1 "--model-name: 'a/b'" --model-repository="$scratch/plain" --model-name=a/b
refused "no name" 2 '--model-name: expected a text' --model-repository="$scratch/plain" --model-name=
refused "a startup name that is not the model's" 1 "--load-model: 'plain'|is called 'demo'" \
    --model-repository="$scratch/plain" --model-name=demo --model-control-mode=explicit --load-model=plain
mkdir -p "$scratch/bare/1"
cp "$scratch/plain/model.safetensors" "$scratch/bare/1/"
refused "weights alone, checked" 1 'no model found|no config.json there or in a folder of it' \
    --model-repository="$scratch/bare" --check-config
mkdir "$scratch/empty"
refused "an empty folder, checked" 1 "$scratch/empty: no model: no config.json there or in a folder of it" \
    --model-repository="$scratch/empty" --check-config
rm "$scratch/plain/model.safetensors"
refused "a config alone, checked" 1 "model plain: $scratch/plain: no version, expected model.safetensors beside" \
    --model-repository="$scratch/plain" --check-config
finish
