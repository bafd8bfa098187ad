#!/usr/bin/env bash
# Told to stop with time for it, does the daemon send its clients elsewhere and lose nothing on the way?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
repository=--model-repository=$scratch/models
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
other_pid=

# The daemon that clients can go to instead.
start_other() {
    other_port=$(free_port)
    "$DAEMON" --http-port="$other_port" "$repository" >"$scratch/other-log" 2>&1 &
    other_pid=$!
    wait_for curl -s -o /dev/null "http://127.0.0.1:$other_port/v2/health/live"
}

stop_other() {
    [ -z "$other_pid" ] || kill -KILL "$other_pid" 2>/dev/null
    [ -z "$other_pid" ] || wait "$other_pid" 2>/dev/null
    other_pid=
}
trap 'stop_other; cleanup' EXIT

milliseconds() {
    echo $(($(date +%s%N) / 1000000))
}

begin_stop() { # SIGNAL
    kill "-${1:-TERM}" "$daemon_pid"
    wait_for grep -q ' draining ' "$scratch/log"
}

# The daemon, which was told to stop, ends with this status within so many milliseconds since $begin, and not
# before so many.
ends() { # NAME STATUS FROM TO
    wait_for is_gone "$daemon_pid"
    local took=$(($(milliseconds) - begin)) code
    wait "$daemon_pid"
    code=$?
    daemon_pid=
    equal "$1: exit status" "$2" "$code"
    holds "$1: after $3 to $4 ms ($took)" [ "$took" -ge "$3" -a "$took" -le "$4" ]
    holds "$1: no sanitizer spoke" bash -c "! grep -q -e Sanitizer -e 'runtime error' '$scratch/log'"
}

# ---- what clients see ------------------------------------------------------------------------
start_daemon "$repository" --drain-seconds=4 --model-control-mode=explicit --load-model='*'
port=${base##*:}
timeout 60 "$PYTHON" -I -S "$here/draining.py" idle "$port" "$scratch/again" >"$scratch/idle" 2>&1 &
idle_pid=$!
timeout 60 "$PYTHON" -I -S "$here/draining.py" body "$port" "$scratch/again" >"$scratch/half" 2>&1 &
half_pid=$!
wait_for grep -q ready "$scratch/idle"
wait_for grep -q ready "$scratch/half"
exec 3<>"/dev/tcp/127.0.0.1/$port" # says nothing, and keeps nobody waiting
ask GET /v2/health/ready
expect_status "before: ready" 200
equal "before: the connection is kept" '' "$(header Connection)"
equal "before: the metric" 0 "$(metric attentiond_draining)"
begin=$(milliseconds)
begin_stop
contains "the log tells for how long" 'draining signal=Terminated seconds=4' "$scratch/log"
ask GET /v2/health/ready
expect_status "not ready" 503
expect_json "not ready: it says so" 'j == {"ready": False}'
equal "not ready: the connection is closed" close "$(header Connection)"
ask GET /v2/models/mha/ready
expect_status "no model is ready" 503
ask GET /v2/models/mha/versions/1/ready
expect_status "no version is ready" 503
ask GET /v2/health/live
expect_status "live" 200
equal "live: the connection is closed" close "$(header Connection)"
infer mha "$good"
expect_status "infer" 200
equal "infer: the connection is closed" close "$(header Connection)"
infer mha junk
expect_error "junk is told so" 400 ''
equal "junk: the connection is closed" close "$(header Connection)"
ask GET /v2/models/mha
expect_status "metadata" 200
ask GET /nowhere
equal "no such path: the connection is closed" '404 close' "$status $(header Connection)"
equal "the metric" 1 "$(metric attentiond_draining)"
ask POST /v2/repository/models/speech/unload
expect_status "operators may go on: unload" 200
ask POST /v2/repository/models/speech/load
expect_status "operators may go on: load" 200
n_loaded=$(grep -c 'model loaded' "$scratch/log")
kill -HUP "$daemon_pid"
reloaded() {
    [ "$(grep -c 'model loaded' "$scratch/log")" -gt "$n_loaded" ]
}
holds "SIGHUP reloads" wait_for reloaded
touch "$scratch/again"
wait "$idle_pid"
equal "a connection that lay idle is served, told to close and closed" '0 ready' "$? $(cat "$scratch/idle")"
wait "$half_pid"
equal "a body that was on its way arrives" '0 ready' "$? $(cat "$scratch/half")"
ends "it ends by itself" 0 3900 9000
exec 3>&-

# ---- nothing is lost -------------------------------------------------------------------------
start_other
start_daemon "$repository" --drain-seconds=2 --http-thread-count=2
timeout 60 "$PYTHON" -I -S "$here/draining.py" load "${base##*:}" "$other_port" 5 8 >"$scratch/load" 2>&1 &
load_pid=$!
sleep 1
begin=$(milliseconds)
begin_stop
ends "under load" 0 1900 8000
wait "$load_pid"
equal "8 clients go elsewhere and lose nothing: $(head -c 300 "$scratch/load")" 0 $?
stop_other

# ---- the end ---------------------------------------------------------------------------------
start_daemon "$repository" --drain-seconds=60
begin_stop
begin=$(milliseconds)
kill -TERM "$daemon_pid"
ends "a second signal" 0 0 5000
contains "a second signal: the log" 'draining was cut short signal=Terminated|stopped' "$scratch/log"
start_daemon "$repository" --drain-seconds=60
begin_stop INT
begin=$(milliseconds)
kill -INT "$daemon_pid"
ends "a second Ctrl-C" 0 0 5000

# What runs when the time is up is finished, and what comes then is refused.
write_heavy 12
start_daemon "$repository" --drain-seconds=1 --workers=1
begin=$(milliseconds)
begin_stop
heavy -o /dev/null -w '%{http_code}' >"$scratch/code" &
heavy_pid=$!
wait_for grep -q ' stopping ' "$scratch/log"
infer mha "$good"
if [ "$status" = 000 ]; then
    echo "drain: the heavy request was over at once: what comes then is not tested"
else
    expect_error "after it: infer" 503 '"code":"stopping"'
    equal "after it: infer: the connection is closed" close "$(header Connection)"
    ask GET /v2/health/ready
    expect_status "after it: not ready" 503
fi
wait "$heavy_pid"
equal "what was let in is answered" 200 "$(cat "$scratch/code")"
ends "after a long request" 0 1000 60000

# A request whose body is on its way when the time is up.
rm -f "$scratch/again"
start_daemon "$repository" --drain-seconds=60
timeout 60 "$PYTHON" -I -S "$here/draining.py" body "${base##*:}" "$scratch/again" >"$scratch/half" 2>&1 &
half_pid=$!
wait_for grep -q ready "$scratch/half"
sleep 0.3
begin=$(milliseconds)
kill -TERM "$daemon_pid"
wait_for grep -q ' draining ' "$scratch/log"
kill -TERM "$daemon_pid"
wait_for grep -q ' stopping ' "$scratch/log"
touch "$scratch/again"
wait "$half_pid"
equal "a body on its way at the end is waited for" '0 ready' "$? $(cat "$scratch/half")"
ends "... not for long" 0 0 5000
start_daemon "$repository"
exec 4<>"/dev/tcp/127.0.0.1/${base##*:}"
printf 'POST /v2/models/mha/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{' >&4
ask GET /v2/health/live
begin=$(milliseconds)
kill -TERM "$daemon_pid"
ends "a body that does not come" 0 0 8000
exec 4>&-

# The third signal does not wait for anything.
write_heavy 40
start_daemon "$repository" --drain-seconds=60 --workers=1
heavy -o /dev/null &
heavy_pid=$!
in_flight() {
    metric_is 1 attentiond_requests_in_flight
}
wait_for in_flight
begin_stop
kill -TERM "$daemon_pid"
wait_for grep -q ' stopping ' "$scratch/log"
if is_gone "$daemon_pid"; then
    fail "the third signal" "the second one was enough"
    wait "$daemon_pid"
    daemon_pid=
else
    begin=$(milliseconds)
    kill -TERM "$daemon_pid"
    ends "the third signal" 1 0 3000
fi
wait "$heavy_pid"

# ---- wrong -----------------------------------------------------------------------------------
for value in -1 3601 1.5 '' soon; do
    timeout -k 1 "$PATIENCE" "$DAEMON" "$repository" --drain-seconds="$value" >"$scratch/out" 2>&1
    equal "--drain-seconds=$value: exit status" 2 $?
    contains "--drain-seconds=$value" "--drain-seconds|0..3600|'$value'" "$scratch/out"
done
finish
