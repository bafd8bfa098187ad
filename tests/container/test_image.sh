#!/usr/bin/env bash
# Is the image what it claims to be, and does it run as containers are run in production: any user, nothing
# writable, no capability, limits kept, SIGTERM obeyed as process 1? test_image.sh DAEMON: the daemon that was
# built beside it, for the same answers.
. "$(dirname "$0")/../integration/lib.sh"
. "$here/../container/lib.sh"
CONTAINER_TESTS=$here/../container
MOST_BYTES=16000000 # 12.5 MB are in use: what must not be there would show
trap 'containers_gone; image_unmounted; cleanup' EXIT

image_unmounted() {
    podman image unmount "$IMAGE" >/dev/null 2>&1
}

built_or_finish have_image

# ---- what is in it ---------------------------------------------------------------------------
about() { # TEMPLATE
    podman image inspect "$IMAGE" --format "$1"
}
bytes=$(about '{{.Size}}')
holds "at most $MOST_BYTES bytes, it has $bytes" test "$bytes" -le "$MOST_BYTES"
equal "user" 10001:10001 "$(about '{{.Config.User}}')"
equal "entry" '["/usr/bin/attentiond"] null' "$(about '{{json .Config.Entrypoint}} {{json .Config.Cmd}}')"
equal "port" '{"8000/tcp":{}}' "$(about '{{json .Config.ExposedPorts}}')"
equal "signal" SIGTERM "$(about '{{.Config.StopSignal}}')"
equal "health check" '["CMD","/usr/bin/attentiond","--health-check"]' "$(about '{{json .HealthCheck.Test}}')"
equal "architecture" "$(dpkg --print-architecture)" "$(about '{{.Architecture}}')"
label() {
    about "{{index .Config.Labels \"org.opencontainers.image.$1\"}}"
}
equal "label: title" attentiond "$(label title)"
equal "label: version" "$("$DAEMON" --version | awk '{print $2}')" "$(label version)"
equal "label: licenses" MIT "$(label licenses)"
holds "label: revision" test -n "$(label revision)"
holds "label: source" test -n "$(label source)"
holds "label: description" test -n "$(label description)"
equal "the Dockerfile's own version" "$("$DAEMON" --version | awk '{print $2}')" \
    "$(sed -n 's/^ARG VERSION=//p' "$container_top/docker/Dockerfile")"

root=$(podman image mount "$IMAGE")
equal "programs: the daemon alone" attentiond "$(ls "$root/usr/bin")"
equal "nothing else that runs" "" "$(find "$root" -type f -perm /111 ! -path '*/usr/bin/attentiond' \
    ! -name 'ld-linux*' ! -name 'libattention.so*')"
equal "nothing for developers" "" "$(find "$root" -name '*.a' -o -name '*.h' -o -name '*.pc' -o -name '*.service')"
equal "no file with an owner's rights" "" "$(find "$root" -perm /6000)"
equal "all owned by root" "" "$(find "$root" \( ! -uid 0 -o ! -gid 0 \))"
equal "writable by others: /tmp alone" /tmp "$(find "$root" ! -type l -perm /022 -printf '/%P\n')"
equal "models as in the source" "" "$(diff -r "$container_top/config/models" "$root/usr/share/attentiond/models" 2>&1)"
equal "stripped" "" "$(readelf -S "$root/usr/bin/attentiond" "$root"/usr/lib/libattention.so.?.* |
    grep -oE '\.(symtab|debug_[a-z]*)')"
missing=
for file in "$root/usr/bin/attentiond" "$root"/usr/lib/*.so* "$root"/usr/lib/*/*.so*; do
    for name in $(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'); do
        compgen -G "$root/usr/lib/*/$name" >/dev/null || [ -e "$root/usr/lib/$name" ] || missing+=" $name"
    done
done
equal "every library that one needs" "" "$missing"
n_libraries=$(find "$root/usr/lib" -name 'lib*.so*' -type f ! -name 'libattention*' | wc -l)
holds "the licence of every library" test "$(find "$root/usr/share/doc" -name copyright | wc -l)" -ge $((n_libraries - 1))
image_unmounted

# ---- starting and stopping -------------------------------------------------------------------
host_pid() {
    podman inspect "$1" --format '{{.State.Pid}}'
}

exited_or_answers() { # NAME
    curl -s -o /dev/null -m "$PATIENCE" "$base/v2/health/live" ||
        [ "$(podman inspect "$1" --format '{{.State.Status}}')" = exited ]
}

# One of the image that answers on a free port: start NAME PODMAN-ARGUMENTS... [-- ARGUMENTS...]
start() {
    local name=attentiond-$1-$$ port
    port=$(free_port)
    base=http://127.0.0.1:$port
    container=$name
    run_container "$name" --env ATTENTIOND_HTTP_PORT="$port" "${@:2}" >/dev/null
    wait_for exited_or_answers "$name"
    podman logs "$name" >"$scratch/log" 2>&1
    ask GET /v2/health/ready
    equal "$1: ready" 200 "$status"
}

# It ends by itself at SIGTERM (or another signal), in time, with status 0.
stop() { # NAME [SIGNAL]
    local from=$SECONDS
    podman kill -s "${2:-TERM}" "$container" >/dev/null
    equal "$1: ${2:-TERM} ends process 1" 0 "$(timeout "$PATIENCE" podman wait "$container")"
    holds "$1: within some seconds" test $((SECONDS - from)) -le 5
    equal "$1: not killed" false "$(podman inspect "$container" --format '{{.State.OOMKilled}}')"
    containers_gone
}

# A field of the daemon's "started" line.
started() { # FIELD
    sed -nE "s/.* started .*\b$1=([^ ]*).*/\1/p" "$scratch/log"
}

# A line of the process's own status.
self() { # FIELD
    awk -v field="$1:" '$1 == field {print $2}' "/proc/$(host_pid "$container")/status"
}

start_daemon --model-repository="$container_top/config/models"
holds "what the daemon beside it answers" py "$CONTAINER_TESTS/demo.py" "${base##*:}" "$scratch/expected"
stop_daemon "the daemon beside it stops"
same_answers() { # NAME
    holds "$1: every demo model answers" py "$CONTAINER_TESTS/demo.py" "${base##*:}" "$scratch/got"
    holds "$1: the same bytes as the daemon beside it" cmp "$scratch/expected" "$scratch/got"
}

# ---- as it comes, nothing writable -----------------------------------------------------------
start plain
equal "plain: its user" 10001 "$(self Uid)"
equal "plain: process 1 in its container" 1 "$(awk '$1 == "NSpid:" {print $NF}' "/proc/$(host_pid "$container")/status")"
equal "plain: no capability" 0000000000000000 "$(self CapEff)"
equal "plain: no new privileges" 1 "$(self NoNewPrivs)"
holds "plain: its root is read-only" grep -qE '^[^ ]+ / [^ ]+ ro' "/proc/$(host_pid "$container")/mounts"
equal "plain: models" /usr/share/attentiond/models "$(started repository)"
same_answers plain
if [ "${MOUNTS_ARE_OWN:-}" = changed ]; then
    echo "image: in a changed root nothing can be run inside a container: another one asks for its health"
    holds "plain: healthy, asked from outside" timeout "$PATIENCE" podman run --rm --network host --no-healthcheck \
        --env ATTENTIOND_HTTP_PORT="${base##*:}" "$IMAGE" --health-check
else
    holds "plain: healthy, asked by its own health check" timeout "$PATIENCE" podman healthcheck run "$container"
    equal "plain: the runtime knows" healthy "$(podman inspect "$container" --format '{{.State.Health.Status}}')"
    holds "plain: no shell" fails podman exec "$container" sh -c true
fi
holds "plain: the log goes to the runtime" grep -q ' started ' "$scratch/log"
stop plain

start interrupted
stop interrupted INT

# ---- any user; where it could write, it does not ---------------------------------------------
start user --user 234567:345678
equal "user: the one that was given" 234567 "$(self Uid)"
same_answers user
stop user

start writable --read-only=false --user 0:0
same_answers writable
equal "writable: it wrote nothing" "" "$(podman diff "$container" | grep -vE '^[AC] /(dev|etc|proc|run|sys)(/|$)')"
stop writable

# ---- models from outside ---------------------------------------------------------------------
py "$here/models.py" repository "$scratch/models"
chmod -R a+rX "$scratch"
start mounted -v "$scratch/models:/models:ro" --env ATTENTIOND_MODEL_REPOSITORY=/models
equal "mounted: models" /models "$(started repository)"
query=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
infer mha "$query"
expect_status "mounted: a model of them answers" 200
expect_json "mounted: equal scores give the mean" 'j["outputs"][0]["data"] == [2, 3, 4, 5]'
stop mounted

# ---- limits ----------------------------------------------------------------------------------
# The number behind a limit, in the first or the second version of control groups.
limit() { # CONTROLLER FILE-OF-V1 FILE-OF-V2
    local line path
    line=$(grep -E ":([a-z,]*,)?$1(,[a-z]*)?:" "/proc/$(host_pid "$container")/cgroup")
    path=${line#*:*:}
    if [ -n "$line" ]; then
        cat "/sys/fs/cgroup/$1$path/$2" 2>/dev/null || cat "/sys/fs/cgroup/cpu,cpuacct$path/$2"
    else
        path=$(sed -n 's/^0:://p' "/proc/$(host_pid "$container")/cgroup")
        cat "/sys/fs/cgroup$path/$3"
    fi
}
memory=$((192 << 20))
start limited --cpus 1 --memory "$memory" --memory-swap "$memory" --pids-limit 64 \
    -v "$scratch/models:/models:ro" --env ATTENTIOND_MODEL_REPOSITORY=/models
equal "limited: workers as many as processors are allowed" 1 "$(started workers)"
equal "limited: memory" "$memory" "$(limit memory memory.limit_in_bytes memory.max)"
write_heavy 1
before=$(host_pid "$container")
clients=()
codes() {
    heavy -o /dev/null -w '%{http_code}\n'
}
for client in 1 2 3 4 5 6 7 8; do
    { codes && codes && codes && codes; } >"$scratch/client-$client" &
    clients+=($!)
done
wait "${clients[@]}"
equal "limited: 32 requests in parallel are answered" "32 200" \
    "$(cat "$scratch"/client-* | sort | uniq -c | awk '{print $1, $2}' | paste -sd, -)"
peak=$(limit memory memory.max_usage_in_bytes memory.peak)
holds "limited: it stayed below, with $peak bytes at most" test "${peak:-0}" -lt "$memory"
equal "limited: the same process" "$before" "$(host_pid "$container")"
stop limited

# ---- encrypted, compressed -------------------------------------------------------------------
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/models/key.pem" \
    -out "$scratch/models/chain.pem" -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -days 2 2>"$scratch/openssl"
chmod a+r "$scratch/models/key.pem"
port=$(free_port)
base=https://127.0.0.1:$port
container=attentiond-tls-$$
run_container "$container" -v "$scratch/models:/models:ro" -- --http-port="$port" --model-repository=/models \
    --tls-certificate=/models/chain.pem --tls-key=/models/key.pem >/dev/null
trusting=(--cacert "$scratch/models/chain.pem")
wait_for curl -s "${trusting[@]}" "$base/v2/health/ready"
printf '%s' "$query" | zstd -q >"$scratch/query.zst"
ask POST /v2/models/mha/infer "${trusting[@]}" --data-binary "@$scratch/query.zst" -H 'Content-Encoding: zstd' \
    -H 'Accept-Encoding: zstd'
expect_status "tls: compressed there and back" 200
stop tls

# ---- wrong use -------------------------------------------------------------------------------
# It ends at once with this status and says why: refuses NAME STATUS TEXTS PODMAN-ARGUMENTS... -- ARGUMENTS...
refuses() {
    local name=$1 code=$2 texts=$3
    shift 3
    container=attentiond-refuses-$$
    run_container "$container" "$@" >/dev/null
    equal "$name: status" "$code" "$(timeout "$PATIENCE" podman wait "$container")"
    podman logs "$container" >"$scratch/log" 2>&1
    contains "$name: says why" "$texts" "$scratch/log"
    equal "$name: in one line" 1 "$(wc -l <"$scratch/log")"
    containers_gone
}
mkdir -m 700 "$scratch/closed"
refuses "a repository that is not there" 1 '/absent|no such folder' -- --model-repository=/absent
refuses "a repository that this user may not read" 1 '/closed|Permission denied' \
    -v "$scratch/closed:/closed:ro" -- --model-repository=/closed
refuses "an option that is none" 2 'no-such-option' -- --no-such-option
refuses "a bad value in the environment" 2 'ATTENTIOND_HTTP_PORT|many' --env ATTENTIOND_HTTP_PORT=many

finish
