#!/usr/bin/env bash
# Is the daemon confined once it has started, in all of its threads, and does all that it does at run time go on: every
# reload, every way in which what it reads is replaced, every file that it writes? And is what it was not given out of
# its reach?
. "$(dirname "$0")/lib.sh"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
mha_config='{"layer": {"kind": "routing_mha", "embedding_dim": 4, "n_heads": 2}}'

# A folder with `mha` in it, whose outputs are times so much.
repository() { # FOLDER FACTOR
    mkdir -p "$1/mha/1"
    echo "$mha_config" >"$1/mha/config.json"
    py "$here/models.py" scaled "$1/mha/1/model.safetensors" "$2"
}

gives() { # FACTOR [CURL-ARGUMENTS...]
    infer mha "$good" "${@:2}"
    [[ $(cat "$scratch/body") == *"\"data\":[$(($1 * 2)),"* ]]
}

load() { # MODEL [CURL-ARGUMENTS...]
    ask POST "/v2/repository/models/$1/load" "${@:2}"
}

# What of the two is in force: the line of the log has "on" for it. Nothing else than these is a reason for less.
is_on() { # PART
    grep -q " sandbox .*$1=\"on, " "$scratch/log"
}
reasons='off: built with a sanitizer|off: built to measure coverage|off: under valgrind|off: not offered here \([A-Za-z ]+\)'
check_line() { # NAME
    local part
    for part in seccomp landlock; do
        holds "$1: $part is on, or why not" grep -qE " sandbox .*$part=\"(on, [A-Z0-9 ]+( calls)?|$reasons)\"" "$scratch/log"
    done
}

# Every thread of the daemon.
is_confined() {
    local status n=0
    for status in "/proc/$daemon_pid/task"/*/status; do
        grep -qx 'NoNewPrivs:	1' "$status" && grep -qx 'Seccomp:	2' "$status" || return 1
        n=$((n + 1))
    done
    [ "$n" -ge 4 ]
}

# ---- the repository, as links lead to it -----------------------------------------------------
# Two folders of a place of their own, and the link beside another; a model that lies elsewhere.
repository "$scratch/store/v1" 1
repository "$scratch/store/v2" 3
repository "$scratch/elsewhere" 5
mkdir "$scratch/site" "$scratch/models.d"
ln -s ../store/v1 "$scratch/site/current"
ln -s ../../elsewhere/mha "$scratch/store/v1/linked"
secret=$scratch/secret
repository "$secret" 7
# keys as Kubernetes mounts them
keys() { # FOLDER NAME
    mkdir -p "$scratch/keys/..$1"
    printf '{"keys":[{"name":"%s","sha256":"%s","admin":true}]}' "$2" "$(printf %s "$2" | sha256sum | cut -c 1-64)" \
        >"$scratch/keys/..$1/keys.json"
    ln -s "..$1" "$scratch/keys/..new"
    mv -T "$scratch/keys/..new" "$scratch/keys/..data"
}
keys 1 first
ln -s ..data/keys.json "$scratch/keys/keys.json"
mkdir "$scratch/logs" "$scratch/traces" "$scratch/run"

as=(-H 'Authorization: Bearer first')
start_daemon --model-repository="$scratch/site/current" --model-control-mode=explicit '--load-model=*' \
    --api-keys="$scratch/keys/keys.json" --log-dir="$scratch/logs" --trace-file="$scratch/traces/spans" \
    --http-unix-socket="$scratch/run/socket" --allow-client-shm --workers=2
check_line "a start"
! is_on seccomp || holds "every thread is confined" is_confined
if is_on landlock; then
    contains "the log says what is within reach" \
        "reads=$scratch/site/current,$scratch/site/../store,|$scratch/keys,|writes=$scratch/logs,$scratch/traces,$scratch/run,/dev/shm" \
        "$scratch/log"
fi
holds "it serves" gives 1 "${as[@]}"
infer linked "$good" "${as[@]}"
contains "it serves a model that a link leads to" '"data":[10,' "$scratch/body"
holds "it serves at the unix socket" gives 1 "${as[@]}" --unix-socket "$scratch/run/socket"
holds "it says how it does" [ "$(curl -s "${as[@]}" "$base/metrics" | grep -c '^process_\(open_fds\|start_time_seconds\) [1-9]')" = 2 ]

ln -s ../store/v2 "$scratch/site/next"
mv -T "$scratch/site/next" "$scratch/site/current"
load mha "${as[@]}"
holds "the repository's link leads to the next folder, and it is loaded" gives 3 "${as[@]}"
py "$here/models.py" scaled "$scratch/store/v2/mha/1/model.safetensors" 4
kill -HUP "$daemon_pid"
holds "SIGHUP: a file that was replaced is loaded" wait_for gives 4 "${as[@]}"
ask POST /v2/repository/models/mha/unload "${as[@]}"
expect_status "unload" 200
repository "$scratch/store/v2/later" 6
mv "$scratch/store/v2/later/mha" "$scratch/store/v2/more"
rmdir "$scratch/store/v2/later"
load more "${as[@]}"
infer more "$good" "${as[@]}"
contains "a model that came later is loaded" '"data":[12,' "$scratch/body"

keys 2 second
kill -HUP "$daemon_pid"
as=(-H 'Authorization: Bearer second')
opens() {
    ask GET /v2/models "${as[@]}"
    [ "$status" = 200 ]
}
holds "SIGHUP: keys that were replaced open" wait_for opens

ask POST /v2/logging "${as[@]}" --data '{"log_file":"a.log"}'
expect_status "the log goes to a file" 200
mv "$scratch/logs/a.log" "$scratch/logs/b.log"
mv "$scratch/traces/spans" "$scratch/traces/old"
kill -HUP "$daemon_pid"
holds "SIGHUP: the log is written anew" wait_for test -s "$scratch/logs/a.log"
load more "${as[@]}"
is_traced() {
    infer more "$good" "${as[@]}"
    test -s "$scratch/traces/spans"
}
holds "SIGHUP: the trace file is written anew" wait_for is_traced
ask POST /v2/logging "${as[@]}" --data '{"log_file":""}'

# ---- what is out of reach --------------------------------------------------------------------
if is_on landlock; then
    ln -s "$secret/mha" "$scratch/store/v2/secret"
    load secret "${as[@]}"
    contains "a model that a later link has elsewhere is not read" 'Permission denied' "$scratch/body"
    mkdir "$scratch/other"
    ln -sf "$scratch/other/spans" "$scratch/traces/spans"
    kill -HUP "$daemon_pid"
    holds "a trace file that a later link has elsewhere is not written" \
        wait_for grep -q 'cannot reopen the trace file.*Permission denied' "$scratch/log"
    holds "... not even made" [ ! -e "$scratch/other/spans" ]
    infer more "$good" "${as[@]}"
    expect_status "it goes on" 200
fi
stop_daemon "it stops"
holds "its socket is gone" [ ! -e "$scratch/run/socket" ]

# ---- TLS -------------------------------------------------------------------------------------
certify() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/tls/$1.key" \
        -out "$scratch/tls/$1.pem" -subj "/CN=$1" -days 2 2>"$scratch/openssl"
}
shows() { # NAME
    [ "$(openssl s_client -connect "127.0.0.1:${base##*:}" </dev/null 2>"$scratch/openssl" |
        openssl x509 -noout -subject 2>"$scratch/openssl" | sed 's/.*CN *= *//')" = "$1" ]
}
mkdir "$scratch/tls"
certify one
certify two
cp "$scratch/tls/one.pem" "$scratch/tls/now.pem"
cp "$scratch/tls/one.key" "$scratch/tls/now.key"
port=$(free_port)
base=https://127.0.0.1:$port
: >"$scratch/log"
"$DAEMON" --model-repository="$scratch/store/v1" --http-port="$port" --model-control-mode=poll --repository-poll-secs=1 \
    --tls-certificate="$scratch/tls/now.pem" --tls-key="$scratch/tls/now.key" --http-admin-address=127.0.0.1 \
    --http-admin-port=0 >"$scratch/log" 2>&1 &
daemon_pid=$!
wait_for grep -q ' started ' "$scratch/log"
check_line "TLS"
holds "TLS: it serves" gives 1 --insecure
holds "TLS: the certificate" shows one
mv "$scratch/tls/two.pem" "$scratch/tls/now.pem"
mv "$scratch/tls/two.key" "$scratch/tls/now.key"
kill -HUP "$daemon_pid"
holds "TLS: SIGHUP: the certificate that was moved there" wait_for shows two
py "$here/models.py" scaled "$scratch/store/v1/mha/1/model.safetensors" 2
holds "poll: the file that was replaced" wait_for gives 2 --insecure
stop_daemon "TLS: it stops"

# ---- how much of it --------------------------------------------------------------------------
start_daemon --model-repository="$scratch/store/v1" --sandbox=off
contains "off: the log says so" 'seccomp="off: as --sandbox says"|landlock="off: as --sandbox says"' "$scratch/log"
equal "off: no thread is confined" '' "$(grep -lx 'NoNewPrivs:	1' "/proc/$daemon_pid/task"/*/status | head -n 1)$(
    [ "$(grep -x 'Seccomp:.*' /proc/self/status)" = "$(grep -x 'Seccomp:.*' "/proc/$daemon_pid/status")" ] || echo seccomp)"
stop_daemon "off: it stops"

port=$(free_port)
timeout "$PATIENCE" "$DAEMON" --model-repository="$scratch/store/v1" --http-port="$port" --sandbox=require >"$scratch/log" 2>&1 &
daemon_pid=$!
base=http://127.0.0.1:$port
wait_for answers_or_gone
if is_gone "$daemon_pid"; then
    wait "$daemon_pid"
    equal "require: it does not start without" 1 $?
    holds "require: ... and says why" grep -qE "cannot start .*--sandbox=require: (seccomp|landlock) is ($reasons)" "$scratch/log"
    daemon_pid=
else
    holds "require: both are on" grep -qE ' sandbox seccomp="on, [0-9]+ calls" landlock="on, ABI [0-9]+"' "$scratch/log"
    stop_daemon "require: it stops"
fi
"$DAEMON" --sandbox=some >"$scratch/out" 2>&1
equal "another word: exit status" 2 $?
contains "another word" '--sandbox: expected auto, off or require' "$scratch/out"
finish
