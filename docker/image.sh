#!/usr/bin/env bash
# image.sh - build the image of the daemon: image.sh NAME:TAG...
#
# With Docker where its engine answers, else with buildah and a store under $BUILD/container. Says how large
# the image is. From the environment: ENGINE (docker or buildah; default: what is there), ARCH (amd64 or
# arm64; default: this machine's), TESTS, OPENBLAS and BASE as docker/Dockerfile has them, REVISION.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"

TESTS=${TESTS:-quick}
OPENBLAS=${OPENBLAS:-no}
version=$(sed -n 's/^VERSION := //p' Makefile)
revision=${REVISION:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
source=$(git config --get remote.origin.url 2>/dev/null || echo unknown)
debian=docker.io/library/debian:bookworm-slim
own_base=localhost/attentiond-base:bookworm

arguments=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "SOURCE=$source"
    --build-arg "TESTS=$TESTS" --build-arg "OPENBLAS=$OPENBLAS" -f docker/Dockerfile)
[ -z "${BASE:-}" ] || arguments+=(--build-arg "BASE=$BASE")
[ -z "${ARCH:-}" ] || arguments+=(--build-arg "TARGETARCH=$ARCH")

docker_answers() {
    command -v docker >/dev/null && timeout 20 docker version >/dev/null 2>&1
}

megabytes() { # BYTES
    awk -v n="$1" 'BEGIN {printf "%.1f MB", n / 1e6}'
}

sizes() { # NAME UNPACKED PACKED
    echo "image: $1: $(megabytes "$2") unpacked, $(megabytes "$3") packed"
}

with_docker() { # NAMES...
    local name names=()
    for name in "$@"; do
        names+=(-t "$name")
    done
    docker build "${arguments[@]}" "${names[@]}" .
    sizes "$1" "$(docker image inspect "$1" --format '{{.Size}}')" \
        "$(docker save "$1" | gzip -c | wc -c)"
}

# A base to build in, where no registry answers: Debian from the sources of this machine, with what the
# build needs, so that nothing is installed twice, and without what is large and that no build uses.
bootstrap() {
    local file packages sources=() without=()
    packages=$(make -s --no-print-directory build-packages)
    echo "image: no registry answers, so the base is made from this machine's Debian"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ ! -s "$file" ] || sources+=("$file")
    done
    for file in 'share/man/*' 'share/locale/*' 'share/info/*' 'share/doc/*' 'bin/*-lto-dump-*' 'lib/gcc/*/lto1' \
        'lib/*/openblas*.a'; do
        without+=("--dpkgopt=path-exclude=/usr/$file")
    done
    mmdebstrap --quiet --variant=minbase --mode=root --format=tar --include="make,${packages// /,}" "${without[@]}" \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt=force-unsafe-io bookworm "$store/base.tar" "${sources[@]}"
    podman import -q "$store/base.tar" "$own_base" >/dev/null
    rm "$store/base.tar"
}

have_base() {
    if podman image exists "$own_base"; then
        base=$own_base
    elif podman image exists "$debian" || timeout 60 podman pull -q "$debian" >/dev/null 2>&1; then
        base=$debian
    else
        bootstrap
        base=$own_base
    fi
}

# The format of Docker is the one that has health checks.
with_buildah() { # NAMES...
    local name base=${BASE:-} image log packed
    if [ -z "$base" ]; then
        have_base
    elif ! podman image exists "$base"; then
        podman pull -q "$base" >/dev/null
    fi
    log=$store/build.log
    echo "image: what the build says goes to $log"
    buildah bud --isolation chroot --network host --pull-never --format docker --layers \
        "${arguments[@]}" --build-arg "BASE=$base" -t "$1" . >"$log" 2>&1 ||
        { tail -n 60 "$log" >&2; return 1; }
    sed -nE 's/^([a-z]+: [0-9]+ passed, [0-9]+ failed)/image: inside, \1/p' "$log"
    image=$1
    if [ -n "${ARCH:-}" ]; then
        set_processor "$1"
    fi
    for name in "${@:2}"; do
        buildah tag "$image" "$name"
    done
    packed=$store/${image##*/}
    packed=${packed//:/-}.tar.gz
    podman save --format docker-archive "$image" | gzip -c >"$packed"
    sizes "$image" "$(podman image inspect "$image" --format '{{.Size}}')" "$(stat -c %s "$packed")"
    echo "image: $packed, for docker load or podman load"
}

# The last stage is empty, so it cannot tell what processor it is for.
set_processor() { # NAME
    local container
    container=$(buildah from --pull-never "$1")
    buildah config --arch "$ARCH" "$container"
    buildah commit -q --format docker --rm "$container" "$1" >/dev/null
}

engine=${ENGINE:-}
if [ -z "$engine" ]; then
    engine=buildah
    ! docker_answers || engine=docker
fi
case $engine in
docker) with_docker "$@" ;;
buildah)
    # shellcheck source=../tests/container/lib.sh
    . tests/container/lib.sh
    why=$(no_containers)
    if [ -n "$why" ]; then
        echo "image: no Docker engine answers, and without one: $why" >&2
        exit 1
    fi
    with_buildah "$@"
    ;;
*)
    echo "ENGINE=$engine: expected docker or buildah" >&2
    exit 1
    ;;
esac
