#!/usr/bin/env bash
# Build the container image and run it for real: run.sh quick|all DAEMON. `quick` is what every change
# passes: one image, without its own tests, which ran outside. `all` adds the image for 64-bit ARM, the
# checks of the Dockerfile itself and what stands in for containers.
#
# Where no container can be started the same files are run without one, and the output says so; where
# not even that is possible nothing is tested, and the output says why.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mode=${1:?usage: run.sh quick|all DAEMON}
DAEMON=$(realpath "${2:?usage: run.sh quick|all DAEMON}")
if [ "$(id -u)" -ne 0 ]; then
    echo "container: skipped: only root starts containers here, and this is user $(id -u)"
    exit 0
fi
. "$here/lib.sh"

suites=(image)
why=$(no_containers)
[ -n "$why" ] || why=$(no_container_runs)
if [ -n "$why" ]; then
    echo "container: no container can be started ($why): what would be in the image is run without one"
    suites=(root)
elif [ "$mode" = all ]; then
    suites=(image arm64 root dockerfile)
fi

code=0
for suite in "${suites[@]}"; do
    timeout -k 10 "${SUITE_TIMEOUT:-900}" bash "$here/test_$suite.sh" "$DAEMON" || {
        code=1
        echo "container: $suite failed"
    }
done
exit "$code"
