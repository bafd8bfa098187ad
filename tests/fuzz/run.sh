#!/usr/bin/env bash
# run.sh - run fuzz targets one after the other, and say for each how far it came: run.sh FOLDER TARGET...
#
# FUZZ_SECONDS and FUZZ_RUNS bound each (0: unbounded); FUZZ_ONLY names some of them. Edges and features are
# shown as they were after four fifths of the executions, and at the end: equal, if the last fifth found
# nothing new. Inputs that reach more than the corpus does are kept in FOLDER/found, and so is what crashed.
set -u
LC_ALL=C
export LC_ALL

folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1 # where the demo models are
# Memory that is freed is used again soon, as a parser needs little and each fresh page costs time.
ASAN_OPTIONS=quarantine_size_mb=1:malloc_context_size=4:allocator_release_to_os_interval_ms=-1:${ASAN_OPTIONS:-}
export ASAN_OPTIONS

# Bytes of the longest input: short ones are tried more often, and reach as much.
most_bytes() { # NAME
    case $1 in
    numbers) echo 64 ;;
    unpack) echo 100 ;;
    options | peek) echo 200 ;;
    access | control | headers | infer_binary | predict | shared) echo 300 ;;
    infer_json | sequence) echo 400 ;;
    safetensors) echo 512 ;;
    *) echo 600 ;;
    esac
}

# Of a log: executions, executions a second, edges and features at 4/5 and at the end.
summary() { # LOG
    awk '
        /^#[0-9]+\t.* cov: / {
            at[n] = substr($1, 2) + 0
            for (i = 2; i < NF; i++) {
                if ($i == "cov:") edges[n] = $(i + 1)
                if ($i == "ft:") features[n] = $(i + 1)
            }
            last = n++
        }
        /^stat::number_of_executed_units:/ { total = $2 }
        /^stat::average_exec_per_sec:/ { rate = $2 }
        END {
            for (i = 0; i < n && at[i] <= total * 0.8; i++) early = i
            printf "%10d %7d  %5d -> %5d  %5d -> %5d\n", total, rate, edges[early], edges[last],
                features[early], features[last]
        }' n=0 "$1"
}

fuzz() { # TARGET
    local name=${1##*/fuzz_} found log bounds=() dictionary
    found=$folder/found/$name log=$folder/found/$name.log dictionary=$here/dict/$name.dict
    mkdir -p "$found"
    [ ! -f "$dictionary" ] || bounds+=("-dict=$dictionary")
    [ "${FUZZ_RUNS:-0}" = 0 ] || bounds+=("-runs=$FUZZ_RUNS")
    "$1" -max_total_time="${FUZZ_SECONDS:-0}" -max_len="$(most_bytes "$name")" -entropic=0 \
        -timeout=60 -rss_limit_mb=4096 -artifact_prefix="$folder/found/$name-" \
        -print_final_stats=1 "${bounds[@]}" "$found" "$here/corpus/$name" >"$log" 2>&1
    local status=$?
    # it ends with the first crash
    printf '%-12s %s  %d\n' "$name" "$(summary "$log")" $((status != 0))
    [ $status -eq 0 ] || tail -n 40 "$log"
    return $status
}

n_failed=0
printf '%-12s %10s %7s  %14s  %14s  %s\n' target executions each-s 'edges 4/5-end' 'features' crashes
for target in "$@"; do
    case " ${FUZZ_ONLY:-${target##*/fuzz_}} " in
    *" ${target##*/fuzz_} "*) fuzz "$target" || n_failed=$((n_failed + 1)) ;;
    esac
done
echo "fuzz: $n_failed targets failed"
[ $n_failed -eq 0 ]
