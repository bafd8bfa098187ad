#!/usr/bin/env bash
# Does a reload under load cost no request, and does memory come back from what is unloaded?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
weights=1/model.safetensors

load() { # MODEL
    ask POST "/v2/repository/models/$1/load"
}

unload() { # MODEL
    ask POST "/v2/repository/models/$1/unload"
}

has_state() { # MODEL STATE
    ask POST /v2/repository/index
    grep -qE "\"name\":\"$1\",\"version\":\"[0-9]*\",\"state\":\"$2\"" "$scratch/body"
}

# ---- under load ------------------------------------------------------------------------------
root=$scratch/models
start_daemon --model-repository="$root" --model-control-mode=explicit '--load-model=mha' --workers=2
printf '%s' "$good" >"$scratch/good"
ask_on() { # FILE
    while [ ! -e "$scratch/enough" ]; do
        curl -s -m "$PATIENCE" --data-binary "@$scratch/good" -w ' %{http_code}\n' "$base/v2/models/mha/infer?[1-40]"
    done >"$1"
}
clients=()
for n in 1 2 3 4; do
    ask_on "$scratch/answers.$n" &
    clients+=($!)
done
refused=0
for n in $(seq 1 30); do
    py "$here/models.py" scaled "$root/mha/$weights" $((n % 2 + 1))
    load mha
    [ "$status" = 200 ] || refused=$((refused + 1))
done
: >"$scratch/enough"
wait "${clients[@]}"
equal "30 reloads under load: each load" 0 "$refused"
cat "$scratch"/answers.* | sort | uniq -c >"$scratch/tally"
equal "30 reloads under load: all answers are the one or the other" 2 "$(wc -l <"$scratch/tally")"
equal "30 reloads under load: no request has failed" 0 "$(grep -vc '[]}] 200$' "$scratch/tally")"
echo "reload: 30 reloads under $(cat "$scratch"/answers.* | wc -l) requests"

# What runs while its version is replaced or unloaded is answered by that version.
write_heavy 8
heavy -o "$scratch/heavy.out" -w '%{http_code}' >"$scratch/heavy.code" &
client=$!
sleep 0.2
load mha
expect_status "a reload does not wait for what runs" 200
unload mha
expect_status "nor does an unload" 200
wait "$client"
equal "what runs is answered all the same" 200 "$(cat "$scratch/heavy.code")"
holds "what has gone is seen to go" wait_for has_state mha UNAVAILABLE
stop_daemon "under load: it stops"

# ---- memory ----------------------------------------------------------------------------------
# 2.1 million bytes of weights each time; a quarantine of freed memory would hide what is given back.
py "$here/trained.py" "$root/wide" '{"layer":{"kind":"routing_mha_proj","embedding_dim":360,"n_heads":8}}'
ASAN_OPTIONS=quarantine_size_mb=1 start_daemon --model-repository="$root" --model-control-mode=explicit
resident() { # in KiB
    sed -nE 's/^VmRSS:\s*([0-9]+) kB/\1/p' "/proc/$daemon_pid/status"
}
cycle() { # TIMES
    local n verb
    for ((n = 0; n < $1; n++)); do
        for verb in load unload; do
            printf 'url = "%s/v2/repository/models/wide/%s"\noutput = /dev/null\n' "$base" "$verb"
        done
    done | curl -s -m "$PATIENCE" -w '%{http_code}\n' -X POST -K - | grep -vc 200
}
cycle 20 >/dev/null
before=$(resident)
equal "100 loads and unloads: none fails" 0 "$(cycle 100)"
after=$(resident)
holds "100 loads and unloads: memory stays ($before KiB, then $after)" [ $((after - before)) -lt 40000 ]
finish
