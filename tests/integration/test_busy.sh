#!/usr/bin/env bash
# Are small requests answered while large ones run, and those to one model while another is flooded?
. "$(dirname "$0")/lib.sh"
for name in large small flooded; do
    py "$here/trained.py" "$scratch/models/$name" '{"layer":{"kind":"routing_mha_proj","embedding_dim":128,"n_heads":8},
        "queue_policy":{"max_queue_size":'"$([ $name = flooded ] && echo 8 || echo 100)"'}}'
done
beside() { # NAME WHAT...
    local name=$1
    shift
    holds "$name" "$PYTHON" -I "$here/beside.py" "${base##*:}" "$@"
    echo "busy: $name: $(cat "$scratch/holds")"
}
for workers in 1 2; do
    start_daemon --model-repository="$scratch/models" --workers=$workers
    beside "$workers workers, beside a large request" large 1 2
    beside "$workers workers, beside two of them" large 2 2
    beside "$workers workers, beside a flood of another model" flood 24 2
    stop_daemon "$workers workers: it stops"
done
finish
