#!/usr/bin/env bash
# Whatever the daemon is doing, does a signal end it as it should, or reload: at once, with the right status, and with
# nothing lost that it has taken? As process 1 too, for which the system does nothing by itself.
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
repository=--model-repository=$scratch/models
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
explicit=(--model-control-mode=explicit --load-model=mha)
# A model whose load takes longer than anybody waits: hours of warm-up.
mkdir "$scratch/slow"
cp -r "$scratch/models/mha" "$scratch/slow/mha"
py "$here/models.py" layer "$scratch/slow/slow" routing_mha '{"layer":{"kind":"routing_mha","embedding_dim":4,"n_heads":2},
    "warmup":[{"name":"hours","count":1000,"inputs":{"query":{"shape":[1,30000,4]},"key":{"shape":[1,30000,4]},
    "value":{"shape":[1,30000,4]}}}]}'
slow=--model-repository=$scratch/slow

logs() { # TEXT
    grep -q -e "$1" "$scratch/log"
}

await() { # TEXT
    wait_for logs "$1" || fail "the log has '$1'" "$(tail -n 3 "$scratch/log")"
}

# It ends with this status, and was not waited for until the patience was over.
ends() { # NAME STATUS [PID]
    local pid=${3:-$daemon_pid} code
    wait_for is_gone "$pid" || fail "$1" "still running after $PATIENCE s"
    kill -KILL "$pid" 2>/dev/null
    wait "$daemon_pid"
    code=$?
    daemon_pid=
    equal "$1" "$2" "$code"
    holds "$1: no sanitizer spoke" bash -c "! grep -q -e Sanitizer -e 'runtime error' '$scratch/log'"
}

# ---- at the start, while models are loaded ---------------------------------------------------
for signal in TERM INT; do
    launch "$DAEMON" "$slow" --http-port=0
    await 'model loaded.*mha'
    kill -$signal "$daemon_pid"
    ends "SIG$signal while models are loaded at the start" 0
    equal "... it has not served" 0 "$(grep -c ' listening ' "$scratch/log")"
done
launch "$DAEMON" "$slow" --http-port=0
await 'model loaded.*mha'
kill -HUP "$daemon_pid"
kill -TERM "$daemon_pid"
kill -TERM "$daemon_pid"
ends "SIGHUP and two SIGTERM while models are loaded at the start" 0
# One that comes for a reload is kept until there is something to reload.
start_daemon "$repository" --log-level=debug
kill -HUP "$daemon_pid"
await ' reloading'
stop_daemon "SIGTERM just after SIGHUP"

# ---- while a model is loaded or reloaded -----------------------------------------------------
load_slow() { # OPTIONS...
    start_daemon "$slow" "${explicit[@]}" "$@"
    curl -s -m 120 -o /dev/null -X POST "$base/v2/repository/models/slow/load" &
    client=$!
    wait_for is_loading
}

is_loading() {
    curl -s -m 5 -X POST "$base/v2/repository/index" | grep -q LOADING
}

load_slow --exit-timeout-secs=1
infer mha "$good"
expect_status "a load is under way: another model computes" 200
stop_daemon "SIGTERM during a load that takes hours" TERM 1
contains "... says why" 'ERROR|stopped while a model was being loaded' "$scratch/log"
wait "$client"
load_slow
write_heavy 8
heavy -o /dev/null -w '%{http_code}' >"$scratch/code" &
heavy_pid=$!
wait_for metric_is 2 attentiond_requests_in_flight
kill -TERM "$daemon_pid"
await ' stopping '
kill -INT "$daemon_pid"
ends "two signals during a load that takes hours" 1
wait "$client" "$heavy_pid"
load_slow --exit-timeout-secs=1 --drain-seconds=60
kill -HUP "$daemon_pid"
kill -TERM "$daemon_pid"
await ' draining '
infer mha "$good"
expect_status "a drain beside a load: another model computes" 200
kill -TERM "$daemon_pid"
ends "SIGHUP and two SIGTERM during a load and a drain" 1
wait "$client"
# Many models, one after the other: a stop does not wait for all of them.
for ((i = 0; i < 300; i++)); do
    ln -s mha "$scratch/models/copy$i"
done
start_daemon "$repository"
kill -HUP "$daemon_pid"
await ' reloading'
stop_daemon "SIGTERM during a reload of many"
rm "$scratch"/models/copy*

# ---- while requests are computed -------------------------------------------------------------
begin_heavy() { # OPTIONS...
    start_daemon "$repository" --workers=1 "$@"
    heavy -o /dev/null -w '%{http_code}' >"$scratch/code" &
    client=$!
    wait_for is_at_work
}

write_heavy 8
begin_heavy
kill -TERM "$daemon_pid"
await ' stopping '
for ((i = 0; i < 5; i++)); do
    kill -HUP "$daemon_pid"
done
ends "SIGHUP while it stops" 0
wait "$client"
equal "... what was taken in is answered" 200 "$(<"$scratch/code")"
begin_heavy --drain-seconds=60
kill -INT "$daemon_pid"
await ' draining '
kill -HUP "$daemon_pid"
await ' reloading'
kill -INT "$daemon_pid"
ends "SIGHUP while it drains, and SIGINT twice" 0
wait "$client"
equal "... what was taken in is answered" 200 "$(<"$scratch/code")"
write_heavy 200
begin_heavy
kill -TERM "$daemon_pid"
await ' stopping '
kill -TERM "$daemon_pid"
ends "a second SIGTERM ends it while it computes" 1
wait "$client"

# ---- many, under load ------------------------------------------------------------------------
start_daemon "$repository" --drain-seconds=1
timeout 120 "$PYTHON" -I -S "$here/signals.py" "${base##*:}" "$daemon_pid" >"$scratch/said" 2>&1
equal "SIGHUP without a pause, then SIGTERM: every request is answered" 0 $?
ends "... and it ends" 0
grep -q '^answered' "$scratch/said" || cat "$scratch/said"

# ---- process 1 -------------------------------------------------------------------------------
child_of() { # PID
    local children
    { read -r children <"/proc/$1/task/$1/children"; } 2>/dev/null
    echo "${children%% *}"
}

has_child() {
    [ -n "$(child_of "$daemon_pid")" ]
}

if unshare --pid --fork --kill-child true 2>/dev/null; then
    start_as_first() { # OPTIONS...
        local port
        port=$(free_port)
        base=http://127.0.0.1:$port
        launch unshare --pid --fork --kill-child "$DAEMON" --http-port="$port" "$@"
        wait_for has_child
        first=$(child_of "$daemon_pid")
    }
    for signal in TERM INT; do
        start_as_first "$repository"
        wait_for_start
        kill -HUP "$first"
        await ' reloading'
        infer mha "$good"
        expect_status "process 1: it serves on after SIGHUP" 200
        kill -$signal "$first"
        ends "process 1: SIG$signal" 0
        start_as_first "$slow"
        await 'model loaded.*mha'
        kill -$signal "$first"
        ends "process 1: SIG$signal while models are loaded" 0
    done
    write_heavy 8
    start_as_first "$repository" --workers=1
    wait_for_start
    heavy -o /dev/null -w '%{http_code}' >"$scratch/code" &
    client=$!
    wait_for is_at_work
    kill -TERM "$first"
    ends "process 1: SIGTERM while it computes" 0
    wait "$client"
    equal "... what was taken in is answered" 200 "$(<"$scratch/code")"
    write_heavy 200
    start_as_first "$repository" --workers=1
    wait_for_start
    heavy -o /dev/null &
    client=$!
    wait_for is_at_work
    kill -TERM "$first"
    await ' stopping '
    kill -TERM "$first"
    ends "process 1: a second SIGTERM" 1
    wait "$client"
fi
finish
