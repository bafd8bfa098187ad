# shellcheck shell=bash
# lib.sh - containers on a machine that may have neither a Docker engine nor systemd: podman and buildah,
# run by root, with a store of their own under $BUILD/container.
#
# Sourced by every script that builds or runs images. Exports CONTAINERS_CONF and CONTAINERS_STORAGE_CONF;
# have_image builds the image under test, run_container starts one of it. Nothing outside the store is
# written, and containers_gone removes what a script started.
#
# Expects: BUILD (default: build/ of the source tree). IMAGE is what is built and run.

container_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(realpath -m "${BUILD:-$container_top/build}")
IMAGE=${IMAGE:-localhost/attentiond:test}
store=$BUILD/container
export BUILD IMAGE

# Why no container can be started here; nothing, if it can.
no_containers() {
    local tool
    if [ "$(id -u)" -ne 0 ]; then
        echo "containers are started by root, this is user $(id -u)"
        return
    fi
    for tool in podman buildah runc mmdebstrap; do
        if ! command -v "$tool" >/dev/null; then
            echo "$tool is not installed"
            return
        fi
    done
}

# What the image will hold, from what is built here, in $store/root.
stage_root() {
    make -C "$container_top" -s --no-print-directory image-root BUILD="$BUILD" ROOT="$store/root"
}

# Why no container runs here though the tools are there; nothing, if one does.
no_container_runs() {
    local said
    if ! stage_root >"$store/probe.log" 2>&1; then
        echo "nothing to try with: $(tail -n 1 "$store/probe.log")"
    elif ! said=$(tar -C "$store/root" -c . | podman import -q - localhost/attentiond-probe 2>&1 >/dev/null &&
        timeout 60 podman run --rm --network host localhost/attentiond-probe /usr/bin/attentiond --version \
            2>&1 >/dev/null); then
        tail -n 1 <<<"$said"
    fi
    podman rmi -f localhost/attentiond-probe >/dev/null 2>&1
}

# podman asks for limits that root may not have, for a runtime that refuses mixed cgroups, and for a
# network of its own that needs a firewall: ask for what is there everywhere.
write_configuration() {
    local files hard
    mkdir -p "$store"
    hard=$(ulimit -Hn)
    files=16384
    [ "$hard" = unlimited ] || [ "$hard" -ge "$files" ] || files=$hard
    cat >"$store/containers.conf" <<END
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
netns = "host"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
    cat >"$store/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$store/storage"
runroot = "$store/run"
END
    export CONTAINERS_CONF=$store/containers.conf CONTAINERS_STORAGE_CONF=$store/storage.conf
}

# Build the image that is tested, unless this was done a moment ago; its own tests are not run in it.
have_image() {
    if [ -n "${IMAGE_IS_BUILT:-}" ] && podman image exists "$IMAGE"; then
        return 0
    fi
    TESTS=none "$container_top/docker/image.sh" "$IMAGE" || return 1
    export IMAGE_IS_BUILT=1
}

# Build the image of a suite of tests, which ends here if that fails.
built_or_finish() { # COMMAND...
    local code=0
    "$@" >"${scratch:?}/build" 2>&1 || code=$?
    cat "$scratch/build"
    if [ "$code" -ne 0 ]; then
        fail "the image is built" "docker/image.sh ended with $code"
        finish
    fi
}

# Start a container of the image in the background: run_container NAME PODMAN-ARGUMENTS... [-- ARGUMENTS...]
# There is no timer that would ask for its health, so the image's check is left to `podman healthcheck`.
run_container() {
    local name=$1
    shift
    local options=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    containers="${containers:-} $name"
    podman run -d --name "$name" --network host --read-only --read-only-tmpfs=false --cap-drop=ALL \
        --security-opt no-new-privileges "${options[@]}" "$IMAGE" "$@" 2> >(without_noise >&2)
}

# What podman says of itself where there is no systemd.
without_noise() {
    grep -v -e 'unable to get systemd connection' -e 'healthcheck' || true
}

# Remove the containers that this script started.
containers_gone() {
    local name
    for name in ${containers:-}; do
        timeout 30 podman rm -f -t 2 "$name" >/dev/null 2>&1
    done
    containers=
}

fails() { # COMMAND...
    ! "$@"
}

# The store as it is before anything is built; what is mounted in it goes first.
remove_store() {
    [ -d "$store" ] || return 0
    if command -v podman >/dev/null; then
        timeout 60 podman rm -fa -t 2 >/dev/null 2>&1
        timeout 60 buildah rm -a >/dev/null 2>&1
        timeout 60 podman image unmount -fa >/dev/null 2>&1
    fi
    awk -v below="$store/" 'index($2, below) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
    rm -rf "$store"
}

write_configuration
