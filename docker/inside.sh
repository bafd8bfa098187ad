#!/bin/sh
# inside.sh - the steps of the image's first stage, run in it: inside.sh packages|build|tests|root FOLDER
#
# TARGETARCH, TESTS and OPENBLAS come from the build arguments. Where TARGETARCH is not the processor of
# the stage itself, the compiler and the libraries are those of Debian for the other one.
set -eu

own=$(dpkg --print-architecture)
target=${TARGETARCH:-$own}
case $target in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
*)
    echo "TARGETARCH=$target: expected amd64 or arm64" >&2
    exit 1
    ;;
esac

build() { # TARGETS AND VARIABLES...
    if [ "$target" = "$own" ]; then
        make -j"$(nproc)" --no-print-directory "$@"
    else
        PKG_CONFIG_LIBDIR=/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig \
            make -j"$(nproc)" --no-print-directory CC="$triplet-gcc" "$@"
    fi
}

packages() {
    if ! command -v make >/dev/null; then
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends make >/dev/null
    fi
    if [ "$target" != "$own" ]; then
        dpkg --add-architecture "$target"
        make --no-print-directory cross-deps ARCH="$target" TRIPLET="$triplet"
    elif [ "$TESTS" = none ]; then
        make --no-print-directory deps
    else
        make --no-print-directory test-deps
    fi
}

tests() {
    if [ "$target" != "$own" ]; then
        echo "built for $target on $own: no test is run here"
        return
    fi
    case $TESTS in
    none) echo "TESTS=none: no test is run here" ;;
    quick) build tests-quick && make --no-print-directory check-unit check-golden ;;
    all) build tests-built && make --no-print-directory check-suites ;;
    *)
        echo "TESTS=$TESTS: expected quick, all or none" >&2
        exit 1
        ;;
    esac
}

case $1 in
packages) packages ;;
build) build all ;;
tests) tests ;;
root) build image-root ROOT="$2" OPENBLAS="$OPENBLAS" ;;
esac
