#!/usr/bin/env bash
# Do requests that share a pass get, byte for byte, what each gets alone, whatever its mates are? Is an error in one
# its own? Do the settings of batching do what they say, and the statistics tell?
. "$(dirname "$0")/lib.sh"

# The six kinds with random weights, under these settings.
write_models() { # FOLDER SETTINGS
    local name kind options
    while IFS='|' read -r name kind options; do
        py "$here/trained.py" "$1/$name" "{\"layer\":{\"kind\":\"$kind\"$options}$2}"
    done <<'END'
speech|speech_mha|,"num_heads":4,"d_model":32
proj|routing_mha_proj|,"embedding_dim":32,"n_heads":4
given|routing_mha|,"embedding_dim":32,"n_heads":2
score|routing_score|,"use_tanh":true
causal|causal_mha|,"output_shape":[80,32],"n_heads":4
batchnorm|causal_mha|,"output_shape":[6,32],"n_heads":2,"normalisation":{"type":"BatchNorm"},"activation":{"type":"Tanh"}
relation|relational_mha|,"num_heads":2,"num_edge_types":3,"key_query_dimension":4,"value_dimension":4,"output_dimension":12,"dropout_rate":0.1,"use_edge_value_biases":true
END
}

flood() { # NAME CLIENTS ROUNDS
    holds "$1" "$PYTHON" -I "$here/flood.py" "${base##*:}" "$2" "$3" "$scratch/alone"
    [ -z "${VERBOSE:-}" ] || echo "$suite: $(tail -n 1 "$scratch/holds")"
}

# ---- the same bytes whatever the settings ----------------------------------------------------
write_models "$scratch/many" ''
py "$here/trained.py" "$scratch/delay/small" '{"layer":{"kind":"speech_mha","num_heads":2,"d_model":4}}'
write_models "$scratch/one" ',"dynamic_batching":{"max_batch_requests":1}'
write_models "$scratch/rows" ',"dynamic_batching":{"max_batch_rows":50,"max_batch_requests":7}'
write_models "$scratch/delay" ',"dynamic_batching":{"max_queue_delay_microseconds":2000,"max_batch_requests":200,"max_batch_rows":3000}'
for settings in one many rows delay; do
    for workers in 1 2; do
        start_daemon --model-repository="$scratch/$settings" --workers=$workers
        flood "$settings, $workers workers: a flood gets what each gets alone" 12 1
        ask GET /v2/models/stats
        if [ "$status" = 200 ]; then
            expect_json "$settings, $workers workers: no more passes than requests" \
                'all(m["execution_count"] <= m["inference_stats"]["success"]["count"] + m["inference_stats"]["fail"]["count"]
                     for m in j["model_stats"])'
            echo "batching: $settings, $workers workers: $(py "$here/passes.py" "$scratch/body")"
        fi
        stop_daemon "$settings, $workers workers: it stops"
    done
done

# ---- settings --------------------------------------------------------------------------------
start_daemon --model-repository="$scratch/delay" --workers=2
tensors=$(tensor k FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor v FP32 '[1,1,4]' '[1,2,3,4]'),$(tensor q FP32 '[1,1,4]' '[1,2,3,4]')
infer small "$(request "$tensors")"
expect_status "a delay with a single client: its request is served" 200
ask GET /v2/models/speech/config
expect_json "the configuration tells the settings" 'j["dynamic_batching"]["max_queue_delay_microseconds"] == 2000 and
    j["dynamic_batching"]["max_batch_requests"] == 200 and j["dynamic_batching"]["max_batch_rows"] == 3000 and
    j["dynamic_batching"]["preferred_batch_size"] == []'
stop_daemon "it stops with a delay"

# Far above any other time of a request: a batch that is not full waits for it, a full one does not.
small='{"layer":{"kind":"speech_mha","num_heads":2,"d_model":4}'
py "$here/models.py" layer "$scratch/slow/small" speech_mha "$small,"'
    "dynamic_batching":{"max_queue_delay_microseconds":1500000,"max_batch_requests":2}}'
start_daemon --model-repository="$scratch/slow" --workers=1
begin=$(date +%s%N)
infer small "$(request "$tensors")"
took=$((($(date +%s%N) - begin) / 1000000))
expect_status "a long delay with a single client: it is served in the end" 200
holds "... when the delay has passed ($took ms)" [ "$took" -ge 1500 ]
# Alone, each would wait for the delay: six pairs for nine seconds.
begin=$(date +%s%N)
pairs=()
for n in 1 2; do
    for _ in 1 2 3 4 5 6; do
        curl -s -m "$PATIENCE" -o /dev/null -w '%{http_code}\n' --data-binary "$(request "$tensors")" "$base/v2/models/small/infer"
    done >"$scratch/pairs.$n" &
    pairs+=($!)
done
wait "${pairs[@]}"
took=$((($(date +%s%N) - begin) / 1000000))
equal "two clients fill each other's batches" '     12 200' "$(cat "$scratch"/pairs.* | sort | uniq -c)"
echo "batching: 6 pairs under a delay of 1500 ms took $took ms"

# ---- bad settings ----------------------------------------------------------------------------
bad() { # NAME TEXTS SETTINGS
    rm -rf "$scratch/bad"
    py "$here/models.py" layer "$scratch/bad/m" routing_score "{\"layer\":{\"kind\":\"routing_score\"},$3}"
    "$DAEMON" --check-config --model-repository="$scratch/bad" >"$scratch/checked" 2>&1
    contains "$1" "$2" "$scratch/checked"
}
bad "no requests in a batch" 'config.json|dynamic_batching.max_batch_requests|1|256|0' '"dynamic_batching":{"max_batch_requests":0}'
bad "too many requests in a batch" 'max_batch_requests|257' '"dynamic_batching":{"max_batch_requests":257}'
bad "rows of a kind" 'dynamic_batching.max_batch_rows' '"dynamic_batching":{"max_batch_rows":"many"}'
bad "a negative delay" 'max_queue_delay_microseconds|-1' '"dynamic_batching":{"max_queue_delay_microseconds":-1}'
bad "an unknown setting" 'dynamic_batching|preferred' '"dynamic_batching":{"preferred":4}'
bad "settings of a kind" 'dynamic_batching|object' '"dynamic_batching":true'
finish
