#!/usr/bin/env bash
# Does the daemon tell a service manager what becomes of it, and serve the sockets that one has opened?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
repository=--model-repository=$scratch/models
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
messages=$scratch/messages

# Start the daemon as a service manager would: WORDS are manager.py's.
start_service() { # WORDS... -- ARGUMENTS...
    local words=()
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    launch "$PYTHON" -I -S "$here/manager.py" run "$scratch" "${words[@]}" -- "$DAEMON" "$repository" "$@"
    wait_for started_or_gone
    if is_gone "$daemon_pid"; then
        fail "the daemon starts" "it ended: $(tail -n 5 "$scratch/log")"
        daemon_pid=
        finish
    fi
    base=http://127.0.0.1:$(sed -nE 's/.* started .*port=([0-9]+).*/\1/p' "$scratch/log")
}

told() { # NAME PATTERN
    if wait_for grep -qxE "$2" "$messages"; then
        pass "$1"
    else
        fail "$1" "no '$2' in: $(cat "$messages")"
    fi
}

n_told() { # PATTERN
    grep -cxE "$1" "$messages"
}

more_told() { # NUMBER PATTERN
    [ "$(n_told "$2")" -gt "$1" ]
}

# ---- messages --------------------------------------------------------------------------------
start_service notify -- --http-port=0 --drain-seconds=60 --exit-timeout-secs=20
told "it serves" "READY=1\|MAINPID=$daemon_pid\|STATUS=serving at 127.0.0.1 port ${base##*:}"
kill -HUP "$daemon_pid"
told "it reloads" 'RELOADING=1\|MONOTONIC_USEC=[0-9]+'
told "it has reloaded" 'READY=1'
equal "nothing else is told, no watchdog" 3 "$(wc -l <"$messages")"
kill -TERM "$daemon_pid"
told "it sends clients elsewhere" 'STOPPING=1\|EXTEND_TIMEOUT_USEC=90000000\|STATUS=sending clients elsewhere for 60 s'
kill -HUP "$daemon_pid"
reloaded_twice() {
    [ "$(grep -c ' reloading$' "$scratch/log")" = 2 ]
}
wait_for reloaded_twice
ask GET /v2/health/live
expect_status "SIGHUP meanwhile" 200
n_ready=$(n_told 'READY=1|RELOADING=1.*')
stop_daemon "it stops"
told "it finishes" 'STOPPING=1\|EXTEND_TIMEOUT_USEC=30000000\|STATUS=finishing what runs'
equal "SIGHUP meanwhile: the manager hears of the stop alone" "$n_ready" "$(n_told 'READY=1|RELOADING=1.*')"
equal "nothing is told behind that" 'STATUS=finishing what runs' "$(tail -n 1 "$messages" | sed 's/.*|//')"

start_service abstract -- --http-port=0
told "by a name that is in no folder" "READY=1\|MAINPID=$daemon_pid\|.*"
stop_daemon "by a name: it stops"
told "without a drain: it finishes" 'STOPPING=1\|EXTEND_TIMEOUT_USEC=40000000\|STATUS=finishing what runs'

start_service gone WATCHDOG_USEC=200000 -- --http-port=0
infer mha "$good"
expect_status "a manager that has gone: it serves" 200
sleep 0.5
equal "... and says so once" 1 "$(grep -c 'cannot tell the service manager' "$scratch/log")"
stop_daemon "a manager that has gone: it stops"
start_service NOTIFY_SOCKET=relative WATCHDOG_USEC=200000 -- --http-port=0
contains "a socket that is none" 'cannot tell the service manager|NOTIFY_SOCKET: expected' "$scratch/log"
stop_daemon "a socket that is none: it stops"

"$PYTHON" -I -S "$here/manager.py" run "$scratch" notify -- "$DAEMON" --model-repository=/nonexistent >"$scratch/log" 2>&1
equal "it cannot start" 1 $?
told "it cannot start: it is told why" 'STATUS=cannot start: .*/nonexistent.*'
equal "it cannot start: it is not ready" 0 "$(n_told 'READY=1.*')"

# ---- watchdog --------------------------------------------------------------------------------
start_service notify WATCHDOG_USEC=1000000 WATCHDOG_PID=@ -- --http-port=0
begin=$(date +%s%N)
wait_for more_told 3 WATCHDOG=1
took=$((($(date +%s%N) - begin) / 1000000))
holds "it is alive, twice a second ($took ms)" [ "$took" -ge 1000 ]
kill -STOP "$daemon_pid"
sleep 0.1
n=$(n_told WATCHDOG=1)
sleep 1
equal "it does not answer: nothing is told" "$n" "$(n_told WATCHDOG=1)"
kill -CONT "$daemon_pid"
holds "it is alive again" wait_for more_told "$n" WATCHDOG=1
stop_daemon "alive: it stops"
start_service notify WATCHDOG_USEC=200000 WATCHDOG_PID=1 -- --http-port=0
sleep 0.5
equal "the watchdog of somebody else" 0 "$(n_told WATCHDOG=1)"
stop_daemon "somebody else: it stops"

# Somebody in its place takes what it asks, and gives no answer: the daemon itself goes on.
start_service notify "unix:$scratch/socket" WATCHDOG_USEC=800000 -- --drain-seconds=60
holds "alive over a unix socket" wait_for more_told 0 WATCHDOG=1
"$PYTHON" -I -S "$here/manager.py" hang "$scratch/socket" "$scratch/enough" &
hang_pid=$!
holds "no answer: the log" wait_for grep -q 'the daemon does not answer itself error="no answer in time"' "$scratch/log"
n=$(n_told WATCHDOG=1)
sleep 1
equal "no answer: nothing is told" "$n" "$(n_told WATCHDOG=1)"
touch "$scratch/enough"
wait "$hang_pid"
holds "an answer again" wait_for more_told "$n" WATCHDOG=1
kill -TERM "$daemon_pid"
told "clients are sent elsewhere" 'STOPPING=1.*60 s'
n=$(n_told WATCHDOG=1)
holds "it is alive meanwhile" wait_for more_told "$n" WATCHDOG=1
stop_daemon "watched and draining: it stops"
rm "$scratch/socket"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/server.key" \
    -out "$scratch/server.pem" -subj "/CN=server" -days 2 2>"$scratch/openssl"
tls=(--tls-certificate="$scratch/server.pem" --tls-key="$scratch/server.key")
start_service notify WATCHDOG_USEC=600000 -- --http-port=0 --http-address=0.0.0.0 "${tls[@]}" \
    --tls-client-ca="$scratch/server.pem"
holds "alive over TLS" wait_for more_told 2 WATCHDOG=1
stop_daemon "TLS: it stops"
start_service notify WATCHDOG_USEC=600000 -- --http-port=0 --http-max-connections-per-address=1
exec 3<>"/dev/tcp/127.0.0.1/${base##*:}"
ask GET /v2/health/live
n=$(n_told WATCHDOG=1)
holds "turned away is alive" wait_for more_told $((n + 2)) WATCHDOG=1
exec 3>&-
stop_daemon "turned away: it stops"

# ---- sockets ---------------------------------------------------------------------------------
other=$(free_port)
start_service notify tcp "unix:$scratch/socket" tcp LISTEN_FDNAMES=web::admin -- --http-port="$other" \
    --http-unix-socket="$scratch/not-made" --http-admin-address=192.0.2.1
port=${base##*:}
told "it serves what was passed" "READY=1\|.*STATUS=serving at 127.0.0.1 port $port"
equal "each says where it is" 3 "$(grep -c ' listening .* opened_by="service manager"' "$scratch/log")"
contains "the log: TCP" "listening address=127.0.0.1 port=$port tls=no serves=\"all but admin\"|started version=|address=127.0.0.1 port=$port" "$scratch/log"
contains "the log: unix" "listening path=$scratch/socket tls=no" "$scratch/log"
holds "the port of the options is not used" [ "$port" != "$other" ]
equal "nobody is there" 000 "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$other/v2")"
holds "no unix socket of the options is made" test ! -e "$scratch/not-made"
infer mha "$good"
expect_status "TCP: infer" 200
infer mha "$good" --unix-socket "$scratch/socket"
expect_status "unix: infer" 200
ask GET /metrics
expect_status "metrics are on the admin listener" 404
admin=$(sed -nE 's/.* listening .*port=([0-9]+).*serves=admin.*/\1/p' "$scratch/log")
base=http://127.0.0.1:$admin
ask GET /metrics
expect_status "the admin listener: metrics" 200
infer mha "$good"
expect_status "the admin listener: infer" 404
stop_daemon "it stops, with sockets that were passed"
holds "the file of a unix socket stays" test -S "$scratch/socket"
rm "$scratch/socket"

start_service tcp -- "${tls[@]}"
equal "TLS on a socket that was passed" 200 "$(curl -sk -o /dev/null -w '%{http_code}' "https://127.0.0.1:${base##*:}/v2/health/ready")"
stop_daemon "TLS: it stops"
start_service "unix:$scratch/socket" -- --http-port="$other"
contains "a unix socket alone" "started version=|address=$scratch/socket repository=" "$scratch/log"
equal "a unix socket alone answers" 200 "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$scratch/socket" http://localhost/v2/health/ready)"
stop_daemon "a unix socket alone: it stops"
rm "$scratch/socket"
start_service tcp LISTEN_FDNAMES=admin -- --http-port="$other"
equal "the admin socket alone: the options say the rest" "http://127.0.0.1:$other" "$base"
ask GET /metrics
expect_status "the admin socket alone: it is for operators" 404
stop_daemon "the admin socket alone: it stops"
start_service tcp LISTEN_PID=1 -- --http-port="$other"
equal "passed to somebody else" "http://127.0.0.1:$other" "$base"
stop_daemon "somebody else: it stops"
holds "who comes while it restarts is served" timeout 60 "$PYTHON" -I -S "$here/manager.py" restart "$scratch" "$DAEMON" "$repository"

# ---- what cannot be served -------------------------------------------------------------------
refuses() { # NAME TEXTS WORDS...
    timeout -k 1 "$PATIENCE" "$PYTHON" -I -S "$here/manager.py" run "$scratch" notify "${@:3}" -- "$DAEMON" "$repository" \
        --http-port=0 >"$scratch/said" 2>&1
    equal "$1: exit status" 1 $?
    contains "$1" "cannot start|$2" "$scratch/said"
    told "$1: it is told" 'STATUS=cannot start: LISTEN_.*'
}
refuses "a datagram socket" 'descriptor 3: |got a datagram socket' datagram
refuses "a file" 'descriptor 4: |no socket' tcp file
refuses "a socket that does not listen" 'descriptor 3 web: |does not listen' unbound LISTEN_FDNAMES=web
refuses "a descriptor that is closed" 'descriptor 3: |not open' closed
refuses "a number that is none" "LISTEN_FDS: expected a number|'two'" tcp LISTEN_FDS=two
refuses "too many" "LISTEN_FDS: expected a number|'100000'" tcp LISTEN_FDS=100000
refuses "more than there are" 'descriptor 4: ' tcp LISTEN_FDS=2
refuses "a process that is none" "LISTEN_PID: expected|'me'" tcp LISTEN_PID=me
refuses "names for others" "LISTEN_FDNAMES: expected 1 names" tcp LISTEN_FDNAMES=a:b
finish
