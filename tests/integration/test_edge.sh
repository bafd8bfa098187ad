#!/usr/bin/env bash
# Does the daemon listen where it is told, with TLS, keep operators apart, and is it safe from slow and too many
# clients?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
repository=--model-repository=$scratch/models
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")

# Run it to its end: it is to refuse these arguments, by --check-config and at a start, and say why.
refuses() { # NAME TEXTS ARGUMENTS...
    local name=$1 texts=$2 code
    shift 2
    timeout -k 1 "$PATIENCE" "$DAEMON" "$repository" --http-port=0 "$@" >"$scratch/out" 2>&1
    code=$?
    equal "$name: exit status" 1 "$code"
    contains "$name" "$texts" "$scratch/out"
    timeout -k 1 "$PATIENCE" "$DAEMON" "$repository" "$@" --check-config >"$scratch/out" 2>&1
    code=$?
    equal "$name, --check-config: exit status" 1 "$code"
    contains "$name, --check-config" "$texts" "$scratch/out"
}

port_of() { # FIELD, of the line in the log
    sed -nE "s/.*listening .*port=([0-9]+).*$1.*/\1/p" "$scratch/log" | head -n 1
}

slow() { # NAME CASE [ARGUMENTS...]
    holds "$1" py "$here/slow.py" "${base##*:}" "${@:2}"
    [ ! -s "$scratch/holds" ] || echo "edge: $1: $(head -c 200 "$scratch/holds")"
}

# ---- addresses -------------------------------------------------------------------------------
addresses=127.0.0.1,127.0.0.2
if py -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' 2>/dev/null; then
    addresses+=,::1
else
    echo "edge: IPv6 is not tested, this machine has none"
fi
start_daemon "$repository" --http-address="$addresses"
for address in ${addresses//,/ }; do
    [[ $address != *:* ]] || address="[$address]"
    base=http://$address:${base##*:}
    infer mha "$good"
    expect_status "$address" 200
done
stop_daemon "several addresses: it stops"
launch "$DAEMON" "$repository" --http-address="$addresses" --http-port=0
wait_for started_or_gone
equal "port 0: one for all" 1 "$(sed -nE 's/.*listening .*port=([0-9]+).*/\1/p' "$scratch/log" | sort -u | wc -l)"
stop_daemon "port 0: it stops"
refuses "an address that is none" '--http-address|1.2.3.4/8' --http-address=127.0.0.1,1.2.3.4/8
refuses "a name" '--http-address|example.com' --http-address=example.com

# ---- unix socket -----------------------------------------------------------------------------
socket=$scratch/socket
start_daemon "$repository" --http-unix-socket="$socket" --http-unix-socket-mode=600
infer mha "$good" --unix-socket "$socket"
expect_status "unix socket" 200
equal "unix socket: its mode" 600 "$(stat -c %a "$socket")"
infer mha "$good"
expect_status "TCP beside it" 200
timeout -k 1 "$PATIENCE" "$DAEMON" "$repository" --http-port=0 --http-unix-socket="$socket" >"$scratch/out" 2>&1
equal "a socket in use: exit status" 1 "$?"
contains "a socket in use" "--http-unix-socket|$socket|listens" "$scratch/out"
holds "a socket in use is no fault of the configuration" \
    "$DAEMON" "$repository" --http-unix-socket="$socket" --check-config
infer mha "$good" --unix-socket "$socket"
expect_status "the socket's owner does not mind" 200
stop_daemon "unix socket: it stops"
holds "its file is removed" test ! -e "$socket"
start_daemon "$repository" --http-unix-socket="$socket"
stop_daemon "unix socket: it is killed" KILL 137 2>/dev/null
holds "its file is left over" test -S "$socket"
start_daemon "$repository" --http-unix-socket="$socket"
infer mha "$good" --unix-socket "$socket"
expect_status "a left-over is replaced" 200
stop_daemon "a left-over: it stops"
echo precious >"$scratch/file"
refuses "a file of another kind" "$scratch/file|no socket" --http-unix-socket="$scratch/file"
equal "a file of another kind is left alone" precious "$(cat "$scratch/file")"
refuses "a path that is too long" '--http-unix-socket|107' --http-unix-socket="$scratch/$(printf 'x%.0s' {1..108})"
refuses "a mode that is none" '--http-unix-socket-mode|rw' --http-unix-socket="$socket" --http-unix-socket-mode=rw

# ---- admin listener --------------------------------------------------------------------------
start_daemon "$repository" --http-admin-address=127.0.0.1 --http-admin-port=0
public=$base
admin=http://127.0.0.1:$(port_of serves=admin)
while read -r verb path on_public on_admin; do
    base=$public
    ask "$verb" "$path"
    expect_status "public: $verb $path" "$on_public"
    base=$admin
    ask "$verb" "$path"
    expect_status "admin: $verb $path" "$on_admin"
done <<END_OF_ROUTES
GET /metrics 404 200
GET /v2/models/stats 404 200
GET /v2/models/mha/stats 404 200
GET /v2/logging 404 200
POST /v2/repository/index 404 200
GET /v2/repository/models/mha/load 404 405
GET /v2/health/live 200 200
GET /v2/health/ready 200 200
GET /v2/models/mha 200 200
GET /v2/models/mha/ready 200 200
POST /v2/models/mha/infer 400 404
POST /v2/models/mha/gradient 400 404
GET /nothing 404 404
END_OF_ROUTES
base=$public
ask GET /metrics
expect_error "public: where it is served instead" 404 '/metrics|admin listener|--http-admin-address'
base=$admin
infer mha "$good"
expect_error "admin: what it does not serve" 404 'not served on the admin listener'
base=$public
stop_daemon "admin listener: it stops"
refuses "an admin address that is none" '--http-admin-address|x' --http-admin-address=x

# ---- certificates ----------------------------------------------------------------------------
authority() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/$1.key" \
        -out "$scratch/$1.pem" -subj "/CN=$1" -days 2 2>"$scratch/openssl"
}

certify() { # NAME AUTHORITY
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/$1.key" \
        -out "$scratch/$1.request" -subj "/CN=$1" 2>"$scratch/openssl"
    openssl x509 -req -in "$scratch/$1.request" -CA "$scratch/$2.pem" -CAkey "$scratch/$2.key" -CAcreateserial \
        -out "$scratch/$1.pem" -days 2 -extfile "$scratch/names" 2>"$scratch/openssl"
}

# The subject of the certificate that the daemon shows.
shown() {
    openssl s_client -connect "127.0.0.1:${base##*:}" </dev/null 2>"$scratch/openssl" |
        openssl x509 -noout -subject 2>"$scratch/openssl" | sed 's/.*CN *= *//'
}

shows() { # NAME
    [ "$(shown)" = "$1" ]
}

echo 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1' >"$scratch/names"
authority ca
authority other-ca
for name in server second client; do
    certify "$name" ca
done
certify stranger other-ca
cp "$scratch/server.pem" "$scratch/tls.pem"
cp "$scratch/server.key" "$scratch/tls.key"
pair=(--tls-certificate="$scratch/tls.pem" --tls-key="$scratch/tls.key")

start_tls() { # ARGUMENTS...
    local port
    port=$(free_port)
    base=https://127.0.0.1:$port
    launch "$DAEMON" "$repository" --http-port="$port" "${pair[@]}" "$@"
    wait_for started_or_gone
}

known=(--cacert "$scratch/ca.pem")
start_tls --http-unix-socket="$socket" --http-admin-address=127.0.0.1 --http-admin-port=0
infer mha "$good" "${known[@]}"
expect_status "TLS" 200
infer mha "$good" "${known[@]}" --tlsv1.3
expect_status "TLS 1.3" 200
infer mha "$good" "${known[@]}" --tls-max 1.2
expect_status "TLS 1.2" 200
infer mha "$good" "${known[@]}" --tls-max 1.1
expect_status "TLS 1.1 is refused" 000
infer mha "$good"
expect_status "a client that does not know the authority is not fooled" 000
holds "a body of 4 MB" [ "$(head -c 4000000 /dev/zero | tr '\0' ' ' |
    curl -s "${known[@]}" -o /dev/null -w '%{http_code}' --data-binary @- "$base/v2/models/mha/infer")" = 400 ]
ask GET /v2/health/live --unix-socket "$socket"
expect_status "the unix socket has TLS? no" 000
equal "the unix socket is plain" 200 "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$socket" http://localhost/v2)"
admin_port=$(port_of serves=admin)
equal "the admin listener has TLS" 200 "$(curl -s "${known[@]}" -o /dev/null -w '%{http_code}' "https://127.0.0.1:$admin_port/metrics")"
equal "plain HTTP to a TLS port gets nothing" 000 "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:${base##*:}/v2")"
stop_daemon "TLS: it stops"

start_tls --tls-minimum-version=1.3
infer mha "$good" "${known[@]}"
expect_status "only 1.3: TLS 1.3" 200
infer mha "$good" "${known[@]}" --tls-max 1.2
expect_status "only 1.3: TLS 1.2 is refused" 000
stop_daemon "only 1.3: it stops"

start_tls --http-header-timeout=1
slow "TLS: a client that says nothing" silence
slow "TLS: a slow handshake" handshake
infer mha "$good" "${known[@]}"
expect_status "TLS: it goes on" 200
stop_daemon "TLS and slow clients: it stops"

# A connection is open while certificate and key are replaced.
start_tls
py "$here/slow.py" "${base##*:}" kept "$scratch/ca.pem" "$scratch/kept" >"$scratch/kept.out" 2>&1 &
kept=$!
wait_for test -e "$scratch/kept.begun"
cp "$scratch/second.pem" "$scratch/tls.pem"
kill -HUP "$daemon_pid"
holds "reload: a certificate without its key is not taken" wait_for grep -q 'cannot reload the certificate' "$scratch/log"
contains "reload: the log says why" "--tls-key|is not the key of the certificate" "$scratch/log"
equal "reload: the old one serves" server "$(shown)"
cp "$scratch/second.key" "$scratch/tls.key"
kill -HUP "$daemon_pid"
holds "reload: the new one serves" wait_for shows second
touch "$scratch/kept.go"
wait "$kept"
equal "reload: a connection from before goes on" server "$(cat "$scratch/kept.out")"
stop_daemon "reload: it stops"

cp "$scratch/ca.pem" "$scratch/clients.pem"
start_tls --tls-client-ca="$scratch/clients.pem"
as() { # NAME
    identity=("${known[@]}" --cert "$scratch/$1.pem" --key "$scratch/$1.key")
}
as client
infer mha "$good" "${identity[@]}"
expect_status "client certificate" 200
infer mha "$good" "${identity[@]}" --tls-max 1.2
expect_status "client certificate, TLS 1.2" 200
for path in /v2/models/mha /metrics /nothing; do
    ask GET "$path" "${known[@]}"
    expect_error "no client certificate: $path" 401 'client certificate is required'
done
infer mha "$good" "${known[@]}" -H 'Expect: 100-continue'
expect_error "no client certificate: consent is refused" 401 'client certificate'
holds "no client certificate: without asking for the body" grep -vq '100 Continue' "$scratch/head"
for path in /v2/health/live /v2/health/ready /v2/models/mha/ready; do
    ask GET "$path" "${known[@]}"
    expect_status "no client certificate: $path is open" 200
done
as stranger
ask GET /v2 "${identity[@]}"
expect_error "a client of another authority" 401 'client certificate'
cp "$scratch/other-ca.pem" "$scratch/clients.pem"
kill -HUP "$daemon_pid"
is_known() {
    ask GET /v2 "${identity[@]}"
    [ "$status" = 200 ]
}
holds "reload: the other authority's clients are in" wait_for is_known
as client
ask GET /v2 "${identity[@]}"
expect_error "reload: the first one's are out" 401 'client certificate'
stop_daemon "client certificates: it stops"

# ---- bad certificates ------------------------------------------------------------------------
certificate=--tls-certificate=$scratch/server.pem
key=--tls-key=$scratch/server.key
refuses "a certificate without a key" '--tls-certificate: needs --tls-key' "$certificate"
refuses "a key without a certificate" '--tls-key: needs --tls-certificate' "$key"
refuses "client authorities without a certificate" '--tls-client-ca: needs' --tls-client-ca="$scratch/ca.pem"
refuses "a certificate that is not there" '--tls-certificate: /nonexistent.pem: No such file' "$key" --tls-certificate=/nonexistent.pem
refuses "a key that is not there" '--tls-key: /nonexistent.key: No such file' "$certificate" --tls-key=/nonexistent.key
refuses "authorities that are not there" '--tls-client-ca: /nonexistent.pem: No such file' "$certificate" "$key" --tls-client-ca=/nonexistent.pem
refuses "a certificate that is none" "--tls-certificate: $scratch/file" "$key" --tls-certificate="$scratch/file"
refuses "a key that is none" "--tls-key: $scratch/file" "$certificate" --tls-key="$scratch/file"
refuses "authorities that are none" "--tls-client-ca: $scratch/file" "$certificate" "$key" --tls-client-ca="$scratch/file"
refuses "a key of another certificate" "--tls-key: $scratch/client.key is not the key" "$certificate" --tls-key="$scratch/client.key"

# ---- slow clients ----------------------------------------------------------------------------
write_heavy 30
start_daemon "$repository" --http-header-timeout=1 --http-body-timeout=1 --http-idle-timeout=3 --http-min-rate=1000000
slow "slow headers" headers
slow "a client that says nothing" silence
slow "slow headers of a later request" later_headers
slow "a slow body" body
slow "a slow body of a refused request" refused_body
slow "a slow body in chunks" chunks
slow "a large body has its time" large_body
slow "a client that does not read" reader
slow "a request that is computed is not slow" parked "$scratch/heavy" "${#heavy_json}"
slow "dozens of slow clients beside a healthy one" dozens
for what in headers body reply idle; do
    holds "metrics: cut for their $what" [ "$(metric attentiond_connections_cut_total "waiting_for=\"$what\"")" -gt 0 ]
done
infer mha "$good"
expect_status "it goes on" 200
stop_daemon "slow clients: it stops"

start_daemon "$repository" --http-header-timeout=1000 --http-body-timeout=1000 --http-idle-timeout=1000
slow "clients that leave" leavers
for what in headers body reply idle; do
    equal "metrics: none of them was cut for its $what" 0 \
        "$(metric attentiond_connections_cut_total "waiting_for=\"$what\"")"
done
stop_daemon "clients that leave: it stops"

# ---- limits ----------------------------------------------------------------------------------
start_daemon "$repository" --http-max-connections=4
slow "connections over their limit" connections
slow "connections far over their limit" many_connections
holds "metrics: connections refused" [ "$(metric attentiond_connections_refused_total 'reason="limit"')" -gt 0 ]
stop_daemon "connections: it stops"
start_daemon "$repository" --http-max-connections=4 --http-thread-count=3
slow "connections over their limit, several threads" connections
stop_daemon "connections, several threads: it stops"
start_daemon "$repository" --http-max-connections-per-address=2
slow "connections from one address" per_address
holds "metrics: connections of one address refused" \
    [ "$(metric attentiond_connections_refused_total 'reason="address"')" -gt 0 ]
stop_daemon "connections from one address: it stops"
start_daemon "$repository" --http-max-requests-per-connection=3
slow "requests on one connection" three_requests
stop_daemon "requests on one connection: it stops"
start_daemon "$repository" --http-max-header-size=2048
ask GET /v2 -H "X-Long: $(printf 'x%.0s' {1..1500})"
expect_status "headers within their limit" 200
ask GET /v2 -H "X-Long: $(printf 'x%.0s' {1..2048})"
expect_error "headers over their limit" 431 '--http-max-header-size|2048'
finish
