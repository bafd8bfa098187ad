#!/usr/bin/env bash
# Does the daemon do what its unit says under a systemd that really runs: start, sandbox, watchdog,
# sockets, upgrades under load, removal?
. "$(dirname "$0")/lib.sh"
isolate "$0" "$packages"
make_root
group=$scratch/cgroup/${scratch##*/}
first= # the pid of that systemd, seen from here

end_root() {
    [ "$n_failed" -eq 0 ] || inside journalctl --no-pager -q -u attentiond >"$scratch/journal" 2>&1
    if [ -n "$first" ]; then
        kill -KILL "$first"
        wait_for is_gone "$first"
    fi
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    umount "$scratch/cgroup"
    cleanup
    remove_root
}
trap end_root EXIT

inside() { # COMMAND...
    timeout 60 nsenter -t "$first" -m -u -i -p -C -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive "$@"
}

shown() { # PROPERTY [UNIT]
    inside systemctl show -P "$1" "${2:-attentiond}"
}

drop_in() { # NAME LINES
    mkdir -p "$root/etc/systemd/system/attentiond.service.d"
    printf '[Service]\n%s\n' "$2" >"$root/etc/systemd/system/attentiond.service.d/$1.conf"
    inside systemctl daemon-reload
}

drop_none() {
    rm -r "$root/etc/systemd/system/attentiond.service.d"
    inside systemctl daemon-reload
}

configure() { # JSON
    printf '%s\n' "$1" >"$root/etc/attentiond/attentiond.json"
}

journal() {
    inside journalctl --no-pager -q -o cat -u attentiond
}

in_journal() { # TEXT
    journal | grep -q "$1"
}

has_new_pid() { # OLD-PID
    local pid
    pid=$(shown MainPID)
    [ "$pid" != "$1" ] && [ "$pid" != 0 ] && [ "$(shown ActiveState)" = active ]
}

boot() {
    mkdir "$scratch/cgroup"
    mount -t cgroup2 cgroup2 "$scratch/cgroup"
    mkdir "$group"
    holds "systemd installs" chroot "$root" apt-get install -y -qq systemd
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec unshare --mount --pid --fork --kill-child --ipc --uts --cgroup bash "$here/../deb/boot.sh" "$root"
    ) >"$scratch/boot.log" 2>&1 &
    local starter=$!
    wait_for grep -q . "/proc/$starter/task/$starter/children"
    read -r first <"/proc/$starter/task/$starter/children"
    first=${first%% *}
    is_up() { inside systemctl is-system-running | grep -qE 'running|degraded'; }
    if ! wait_for is_up; then
        fail "systemd starts" "$(cat "$scratch/boot.log")"
        finish
    fi
}

# ---- start ---------------------------------------------------------------------------------------

boot
holds "the packages install" inside sh -c 'apt-get install -y -qq /debs/*.deb'
equal "the daemon was started" active "$(shown ActiveState)"
expect_served "it serves when the installation is done"
contains "systemd knows what it does" 'serving at 127.0.0.1 port 8000' <(shown StatusText)
holds "the log is in the journal" in_journal 'INFO  started version='
equal "... and in no file" '' "$(find "$root/var/log" -type f -path '*attention*')"
pid=$(inside systemctl show -P MainPID attentiond)
inside cat "/proc/$pid/status" >"$scratch/status"
contains "it has no capability, gets none, and is filtered" $'CapEff:\t0000000000000000|CapBnd:\t0000000000000000|NoNewPrivs:\t1|Seccomp:\t2' "$scratch/status"
equal "... has a read-only system" '' "$(inside cat "/proc/$pid/mountinfo" | awk '$5 == "/" && $6 ~ /^rw/ || $5 ~ "^/usr" && $6 ~ /^rw/')"
equal "... a user namespace of its own" 2 "$(inside readlink "/proc/$pid/ns/user" /proc/1/ns/user | sort -u | wc -l)"
equal "... and one thread for each processor" "$(nproc)" "$(journal | sed -n 's/.* started .*workers=\([0-9]*\).*/\1/p')"
holds "systemctl reload" inside systemctl reload attentiond
holds "... loads the models again" wait_for in_journal 'INFO  reloading'
equal "... in the same process" "$pid" "$(shown MainPID)"

# ---- what it may be asked to use -----------------------------------------------------------------

mkdir -p "$root/etc/ssl/private" "$root/etc/ssl/certs"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -keyout "$root/etc/ssl/private/served.key" -out "$root/etc/ssl/certs/served.pem" 2>/dev/null
chmod 600 "$root/etc/ssl/private/served.key"
drop_in credentials 'LoadCredential=tls.key:/etc/ssl/private/served.key
Environment=ATTENTIOND_TLS_KEY=%d/tls.key'
configure '{"model-repository": "/usr/share/attentiond/models", "tls-certificate": "/etc/ssl/certs/served.pem",
 "http-unix-socket": "/run/attentiond/socket", "log-dir": "/var/log/attentiond",
 "trace-file": "/var/log/attentiond/traces", "allow-client-shm": true}'
holds "it starts with TLS, a unix socket, log and trace files" inside systemctl restart attentiond
base=https://127.0.0.1:8000
ask GET /v2/health/ready -k
expect_status "a key that only root can read, as a credential" 200
base=http://unix
socket=(--unix-socket "/proc/$first/root/run/attentiond/socket")
ask GET /v2/models "${socket[@]}"
expect_status "a unix socket in /run/attentiond" 200
equal "... for its group" 'attentiond 660' "$(inside stat -c '%G %a' /run/attentiond/socket)"
head -c 4096 /dev/zero >"/proc/$first/root/dev/shm/mine"
inside chmod 666 /dev/shm/mine
ask POST /v2/systemsharedmemory/region/mine/register "${socket[@]}" -d '{"key":"/mine","offset":0,"byte_size":4096}'
infer causal_steps '{"inputs": [{"name":"input","datatype":"FP32","shape":[1,2,8],
    "parameters":{"shared_memory_region":"mine","shared_memory_byte_size":64}}],
    "outputs": [{"name":"output","parameters":{"shared_memory_region":"mine","shared_memory_offset":1024,
    "shared_memory_byte_size":64}}]}' "${socket[@]}"
expect_status "shared memory of clients" 200
ask POST /v2/logging "${socket[@]}" -d '{"log_file": "requests.log", "log_verbose_level": 1}'
holds "a log file" wait_for test -e "$root/var/log/attentiond/requests.log"
holds "... traces" wait_for test -s "$root/var/log/attentiond/traces"
mv "$root/var/log/attentiond/requests.log" "$root/var/log/attentiond/requests.1"
inside systemctl reload attentiond
holds "... opened anew by a reload" wait_for test -s "$root/var/log/attentiond/requests.log"
drop_none
configure '{"model-repository": "/usr/share/attentiond/models"}'
inside systemctl restart attentiond
base=http://127.0.0.1:8000
expect_served "and without all of it again"

# ---- what may happen to it -----------------------------------------------------------------------

pid=$(shown MainPID)
inside kill -KILL "$pid"
holds "it is started again when it was killed" wait_for has_new_pid "$pid"
expect_served "... and serves"
drop_in watchdog 'WatchdogSec=2'
inside systemctl restart attentiond
pid=$(shown MainPID)
sleep 5
equal "it lives on while it tells the watchdog" "$pid" "$(shown MainPID)"
inside kill -STOP "$pid"
holds "it is started again when it hangs" wait_for has_new_pid "$pid"
holds "... by the watchdog" inside sh -c 'journalctl --no-pager -q -u attentiond | grep -q "Watchdog timeout"'
expect_served "... and serves"
drop_none
configure '{"http-prot": 8000}'
inside systemctl restart attentiond >/dev/null 2>&1
sleep 2
equal "a wrong option is told once, and not tried again" 'failed 2 1' \
    "$(shown ActiveState) $(shown ExecMainStatus) $(journal | grep -c 'http-prot')"
configure '{"model-repository": "/usr/share/attentiond/models", "drain-seconds": 2}'
inside systemctl restart attentiond
begun=$SECONDS
holds "a stop" inside systemctl stop attentiond
holds "... takes the time to drain" test $((SECONDS - begun)) -ge 2
equal "... and is clean" 'inactive success' "$(shown ActiveState) $(shown Result)"

# ---- sockets -------------------------------------------------------------------------------------

configure '{"model-repository": "/usr/share/attentiond/models"}'
cat >"$root/etc/systemd/system/attentiond-admin.socket" <<'END_OF_UNIT'
[Socket]
ListenStream=127.0.0.1:8002
FileDescriptorName=admin
Service=attentiond.service
END_OF_UNIT
inside systemctl daemon-reload
holds "systemd listens" inside systemctl start attentiond.socket attentiond-admin.socket
equal "... while the daemon does not run" inactive "$(shown ActiveState)"
expect_served "the first request starts it"
base=http://127.0.0.1:8002
ask GET /metrics
expect_status "a socket named admin is for operators" 200
base=http://127.0.0.1:8000
ask GET /metrics
expect_status "... and then no other" 404

# Ask without pause, one connection after the other, until told to end; note each answer's status.
ask_on() {
    while [ ! -e "$scratch/enough" ]; do
        curl -s -m 20 -o /dev/null -w '%{http_code}\n' "$base/v2/models/routing_score/infer" -d '{"inputs": [
            {"name": "query", "datatype": "FP32", "shape": [1, 1, 2], "data": [1, 0.5]},
            {"name": "key", "datatype": "FP32", "shape": [1, 1, 2], "data": [1, 0]}]}'
    done >"$scratch/asked"
}
ask_on &
asker=$!
pid=$(shown MainPID)
holds "a restart" inside systemctl restart attentiond
holds "an upgrade" inside sh -c \
    'apt-get install -y -qq -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /next/*.deb'
holds "... starts the next one" has_new_pid "$pid"
: >"$scratch/enough"
wait "$asker"
# What the one that stops has taken before systemd knew, it answers: not now, try again.
equal "no connection is lost, as systemd holds the socket" '' "$(grep -v -x -e 200 -e 503 "$scratch/asked" | sort | uniq -c)"
n_served=$(grep -c -x 200 "$scratch/asked")
n_refused=$(grep -c -x 503 "$scratch/asked")
echo "systemd: over a restart and an upgrade $n_served requests were served, $n_refused told to try again"
holds "... and nearly all are served" test "$n_served" -gt $((20 + n_refused * 20))
equal "the edited configuration is kept" '{"model-repository": "/usr/share/attentiond/models"}' "$(cat "$root/etc/attentiond/attentiond.json")"
expect_served "the next one serves"

# ---- away with it --------------------------------------------------------------------------------

holds "it is removed while it runs" inside apt-get remove -y -qq attentiond
ask GET /v2/health/live
expect_status "... nobody listens any more" 000
equal "... nor runs" '' "$(inside sh -c 'ls -l /proc/[0-9]*/exe' 2>/dev/null | grep -o '/attentiond.*')"
holds "it is purged" inside apt-get purge -y -qq attentiond libattention0 libattention-dev
equal "... with its logs and links" '' "$(find "$root"/var/log "$root"/etc/systemd -path '*attentiond*' ! -name 'attentiond-admin.socket')"
finish
