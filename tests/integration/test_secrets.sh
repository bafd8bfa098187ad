#!/usr/bin/env bash
# Do keys and private keys stay where they belong? What clients present and what files hold is in no log, no
# trace, no metric and no answer; nor in the daemon's memory once it is done with, which takes root to see.
. "$(dirname "$0")/lib.sh"
# For a daemon of another user, below.
chmod 755 "$scratch"
py "$here/models.py" repository "$scratch/models"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/tls.key" -out "$scratch/tls.pem" -days 2 \
    -subj /CN=localhost 2>/dev/null

random_key() {
    openssl rand -hex 32
}

hash_of() { # KEY
    printf %s "$1" | sha256sum | cut -c 1-64
}

known=$(random_key)
wrong=$(random_key)
other=$(random_key)
misplaced=$(random_key)
name=team-whose-name-is-no-secret
key_options=(--api-keys="$scratch/keys.json" --log-level=debug --trace-file="$scratch/traces" --trace-rate=1)
tls_options=(--tls-certificate="$scratch/tls.pem" --tls-key="$scratch/tls.key")
write_keys() {
    printf '{"keys":[{"name":"%s","sha256":"%s","admin":true}]}' $name "$(hash_of "$known")" >"$scratch/keys.json"
}
write_keys
printf '%s\n' "$known" "$wrong" "$other" "$misplaced" >"$scratch/keys"
# The file's text; the hash itself is what requests are compared with.
hash_of "$known" >"$scratch/files"
grep -v -e '---' "$scratch/tls.key" >>"$scratch/files"

show() { # VERB PATH CURL-ARGUMENTS...
    ask "$1" "$2" --insecure "${@:3}"
    cat "$scratch/body" "$scratch/head" >>"$scratch/answers"
}

present() { # PATH CURL-ARGUMENTS...
    show GET "$@" -H "Authorization: Bearer $known"
    expect_status "a key that is known: $1" 200
    show GET "$@" -H "X-API-Key: $wrong"
    expect_status "one that is not: $1" 401
    show GET "$@" -H "Authorization: Bearer $wrong" -H "X-API-Key: $other"
    expect_status "two keys: $1" 400
    show GET "$@" -H "Authorization: Bearer $other" -H "Authorization: Bearer $wrong"
    expect_status "two headers: $1" 400
    show GET "$@" -H "Authorization: Basic $(base64 -w 0 <<<"user:$wrong")"
    expect_status "another scheme: $1" 401
    show POST "$@" -H "X-API-Key: $other" -H 'Transfer-Encoding: nonsense' --data-binary x
    expect_status "a request that is refused before: $1" 400
    show POST "$@" -H "X-API-Key: $other" -H 'Expect: 100-continue' -H 'Content-Length: 100000000000'
    expect_status "a body that nobody waits for: $1" 405
}

# Nothing of the secrets is in what the daemon has written.
unwritten() { # NAME
    cat "$scratch/keys" "$scratch/files" >"$scratch/all"
    equal "$1: no secret is written" '' "$(grep -l -F -f "$scratch/all" "$scratch/log" "$scratch/traces" \
        "$scratch/answers" "$scratch/said" 2>/dev/null)"
}

# ... nor in its memory.
forgotten() { # NAME FILE [URL]
    if [ "$(id -u)" -eq 0 ]; then
        equal "$1" '' "$(py "$here/remembers.py" "$daemon_pid" "${@:2}" 2>&1)"
    fi
}

are_read_again() {
    [ "$(grep -c 'API keys read' "$scratch/log")" -ge 2 ]
}

serve_and_search() { # NAME URL-SCHEME OPTIONS...
    local port
    port=$(free_port)
    base=$2://127.0.0.1:$port
    launch "$DAEMON" --model-repository="$scratch/models" --http-port="$port" "${key_options[@]}" "${@:3}"
    wait_for started_or_gone
    forgotten "$1: what the files hold, at the start" "$scratch/files"
    present /v2/models
    present /metrics
    forgotten "$1: keys of connections that are over" "$scratch/keys"
    forgotten "$1: keys of connections that are open" "$scratch/keys" "$base/v2/models"
    kill -HUP "$daemon_pid"
    wait_for are_read_again
    printf '{"keys":[{"name":"%s","sha256":"%s"}]}' $name "$misplaced." >"$scratch/keys.json"
    kill -HUP "$daemon_pid"
    wait_for grep -q 'keys.json: keys.0..sha256: expected' "$scratch/log"
    printf '{"keys":[{"name":"%s","sha256":%s}]}' $name "$misplaced" >"$scratch/keys.json"
    kill -HUP "$daemon_pid"
    wait_for grep -q 'keys.json: line 1' "$scratch/log"
    write_keys
    forgotten "$1: what the files hold, after reloads" "$scratch/files"
    forgotten "$1: what a file held that was no good" "$scratch/keys"
    unwritten "$1"
}

: >"$scratch/answers"
serve_and_search "plain" http --http-max-header-size=4096
# It would be found: what is no secret is.
echo $name >"$scratch/name"
[ "$(id -u)" -ne 0 ] || holds "the search finds what is there" grep -q 'secret 1' <(
    py "$here/remembers.py" "$daemon_pid" "$scratch/name")
grep -F 'Max core file size' "/proc/$daemon_pid/limits" >"$scratch/limit"
contains "no core is dumped" 'Max core file size        0                    0 ' "$scratch/limit"
stop_daemon "plain: stops"
serve_and_search "TLS" https "${tls_options[@]}"
stop_daemon "TLS: stops"

# ---- messages of the start -------------------------------------------------------------------
refuses() { # NAME TEXTS KEYS
    printf '%s' "$3" >"$scratch/bad.json"
    timeout "$PATIENCE" "$DAEMON" --model-repository="$scratch/models" --check-config --api-keys="$scratch/bad.json" \
        >"$scratch/said" 2>&1
    contains "$1: says what is wrong" "$2" "$scratch/said"
    unwritten "$1"
}

refuses "a key in the place of its hash" 'keys[0].sha256: expected|64 hexa' '{"keys":[{"name":"a","sha256":"x'"$known"'"}]}'
refuses "a key in the place of a name" 'keys[0].name: expected|1 to 64' '{"keys":[{"name":"x'"$known"'"}]}'
refuses "a key without quotes" 'line 1, column' '{"keys":['"x$known"']}'
refuses "a key behind the end" 'line 1, column|expected' '{"keys":[]} '"\"$known\""
refuses "a key twice" 'line 1, column|duplicate' "{\"$known\":1,\"$known\":1}"

# ---- another process of the same user --------------------------------------------------------
# As root is asked for a daemon of another user, since root may look into all.
port=$(free_port)
base=http://127.0.0.1:$port
as_user=()
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
chmod 644 "$scratch/tls.key"
owner_of_memory() { # OPTIONS...
    launch "${as_user[@]}" "$DAEMON" --model-repository="$scratch/models" --http-port="$port" "$@"
    wait_for started_or_gone
    stat -c %u "/proc/$daemon_pid/mem" >"$scratch/owner"
}
if "${as_user[@]}" test -x "$DAEMON" -a -r "$scratch/models/mha/config.json"; then
    owner_of_memory
    equal "without secrets: the memory is the user's" "$("${as_user[@]}" id -u)" "$(<"$scratch/owner")"
    stop_daemon "without secrets: stops"
    owner_of_memory --api-keys="$scratch/keys.json"
    holds "with keys: the memory is nobody's" [ "$("${as_user[@]}" id -u)" != "$(<"$scratch/owner")" ]
    show GET /metrics -H "X-API-Key: $known"
    contains "with keys: the process knows itself" 'process_open_fds|process_start_time_seconds' "$scratch/body"
    holds "... its files" grep -Eq "^process_open_fds ([4-9]|[1-9][0-9]+)" "$scratch/body"
    stop_daemon "with keys: stops"
    owner_of_memory "${tls_options[@]}"
    holds "with a private key: the memory is nobody's" [ "$("${as_user[@]}" id -u)" != "$(<"$scratch/owner")" ]
    stop_daemon "with a private key: stops"
fi
finish
