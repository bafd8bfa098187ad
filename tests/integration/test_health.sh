#!/usr/bin/env bash
# Does --health-check say the truth, with nothing but the daemon's own options, and in time?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
repository=--model-repository=$scratch/models

# Ask for health with these options; $code, $scratch/out and $scratch/err hold what came.
check_health() { # OPTIONS...
    timeout -k 1 "$PATIENCE" "$DAEMON" --health-check "$@" >"$scratch/out" 2>"$scratch/err"
    code=$?
}

healthy() { # NAME OPTIONS...
    check_health "${@:2}"
    equal "$1" '0 ready' "$code $(cat "$scratch/out" "$scratch/err")"
}

# One line that begins so, and has these texts between bars in it.
unhealthy() { # NAME TEXTS OPTIONS...
    check_health "${@:3}"
    equal "$1: exit status" 1 "$code"
    equal "$1: one line" 1 "$(cat "$scratch/out" "$scratch/err" | wc -l)"
    contains "$1" "not ready: |$2" "$scratch/out"
}

refused() { # NAME TEXTS OPTIONS...
    check_health "${@:3}"
    equal "$1: exit status" 2 "$code"
    contains "$1" "attentiond: |$2" "$scratch/err"
    equal "$1: nothing else" 0 "$(wc -c <"$scratch/out")"
}

# Start it with these options, and ask for health with the same.
start_checked() { # OPTIONS...
    start_daemon "$repository" "$@"
    port=${base##*:}
}

# ---- ready and not ---------------------------------------------------------------------------
start_checked --drain-seconds=60
healthy "ready" --http-port="$port"
healthy "all of its options" "$repository" --http-port="$port" --drain-seconds=60
healthy "localhost" --http-port="$port" --http-address=localhost
ATTENTIOND_HTTP_PORT=$port healthy "the environment"
echo '{"http-port": '"$port"'}' >"$scratch/config.json"
healthy "a file" --config="$scratch/config.json"
ATTENTIOND_CONFIG=$scratch/config.json healthy "a file that the environment names"
timeout "$PATIENCE" env -i "$DAEMON" --health-check --http-port="$port" >"$scratch/out" 2>&1
equal "no environment at all" '0 ready' "$? $(cat "$scratch/out")"
healthy "a repository that is not there" --http-port="$port" --model-repository=/nonexistent
healthy "files that cannot be made" --http-port="$port" --trace-file=/nonexistent/trace --log-dir=/nonexistent
healthy "a level of the log" --http-port="$port" --log-level=debug
NOTIFY_SOCKET=/nonexistent LISTEN_FDS=junk LISTEN_PID=junk healthy "a service manager of somebody's" --http-port="$port"
(
    cd / && ulimit -n 16
    exec timeout "$PATIENCE" "$DAEMON" --health-check --http-port="$port"
) >"$scratch/out" 2>&1
equal "few files" '0 ready' "$? $(cat "$scratch/out")"
kill -TERM "$daemon_pid"
wait_for grep -q ' draining ' "$scratch/log"
unhealthy "draining" 503 --http-port="$port"
stop_daemon "it stops"
unhealthy "stopped" 'cannot connect: Connection refused' --http-port="$port"

# ---- where it listens ------------------------------------------------------------------------
start_checked --http-address=0.0.0.0
healthy "every address" --http-port="$port" --http-address=0.0.0.0
stop_daemon "every address: it stops"
start_checked --http-address=127.0.0.2,127.0.0.1 --http-admin-address=127.0.0.1 --http-admin-port=0
healthy "the first of several" --http-port="$port" --http-address=127.0.0.2,127.0.0.1
unhealthy "an address that it does not listen on" 'cannot connect' --http-port="$port" --http-address=127.0.0.3
stop_daemon "several: it stops"
if py -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' 2>/dev/null; then
    start_checked --http-address=::
    healthy "every address, IPv6" --http-port="$port" --http-address=::
    stop_daemon "every address, IPv6: it stops"
fi

# ---- who may ask -----------------------------------------------------------------------------
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/server.key" \
    -out "$scratch/server.pem" -subj "/CN=elsewhere" -days 2 2>"$scratch/openssl"
printf '{"keys":[{"name":"a","sha256":"%s"}]}' "$(printf a | sha256sum | cut -c 1-64)" >"$scratch/keys.json"
start_tls() { # OPTIONS...
    port=$(free_port)
    base=https://127.0.0.1:$port
    launch "$DAEMON" "$repository" --http-port="$port" --tls-certificate="$scratch/server.pem" \
        --tls-key="$scratch/server.key" "$@"
    wait_for started_or_gone
}
start_tls --tls-client-ca="$scratch/server.pem" --api-keys="$scratch/keys.json" --http-thread-count=2
healthy "TLS, whoever the certificate is of" --http-port="$port" --tls-certificate="$scratch/server.pem"
healthy "TLS: its files are not read" --http-port="$port" --tls-certificate=/nonexistent --tls-key=/nonexistent
unhealthy "TLS that is not asked for" 'closed without an answer' --http-port="$port"
stop_daemon "TLS: it stops"
start_tls --tls-minimum-version=1.3
healthy "TLS 1.3" --http-port="$port" --tls-certificate="$scratch/server.pem" --tls-minimum-version=1.3
stop_daemon "TLS 1.3: it stops"
start_checked --api-keys="$scratch/keys.json" --http-max-connections=1
# What is no HTTP is answered with 400, or cut off at once: what is seen of it is a matter of luck.
unhealthy "TLS that is not spoken" '' --http-port="$port" --tls-certificate="$scratch/server.pem"
exec 3<>"/dev/tcp/127.0.0.1/$port" 4<>"/dev/tcp/127.0.0.1/$port"
healthy "keys, and more connections than there may be" --http-port="$port"
exec 3>&- 4>&-
stop_daemon "keys: it stops"

# ---- what is wrong ---------------------------------------------------------------------------
mkdir -p "$scratch/models/broken"
echo '{}' >"$scratch/models/broken/config.json"
start_checked --strict-readiness
unhealthy "a broken model" 503 --http-port="$port"
kill -STOP "$daemon_pid"
begin=$(date +%s%N)
unhealthy "a daemon that does nothing" 'no answer in time' --http-port="$port"
took=$((($(date +%s%N) - begin) / 1000000))
holds "... is known within seconds ($took ms)" [ "$took" -lt 10000 ]
kill -CONT "$daemon_pid"
stop_daemon "a broken model: it stops"
"$PYTHON" -I -S -c 'import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    connection, _ = listening.accept()
    connection.recv(4096)
    connection.sendall(b"220 mail.example ESMTP\r\n")
    connection.close()' >"$scratch/port" 2>&1 &
other_pid=$!
trap 'kill "$other_pid" 2>/dev/null; cleanup' EXIT
wait_for test -s "$scratch/port"
unhealthy "something else" 'what answers does not speak HTTP' --http-port="$(cat "$scratch/port")"
kill "$other_pid"
wait "$other_pid" 2>/dev/null
trap cleanup EXIT
refused "port 0" '--http-port|got 0' --http-port=0
refused "an address that is none" "--http-address|'nowhere'" --http-address=nowhere
refused "a port that is none" "--http-port|'x'" --http-port=x
refused "an option that is none" '--no-such-option' --no-such-option
refused "a word too many" 'extra' extra
refused "a file that is not there" /nonexistent.json --config=/nonexistent.json
ATTENTIOND_HTTP_PORT=x refused "a bad environment" ATTENTIOND_HTTP_PORT
finish
