#!/usr/bin/env bash
# Daemons behind HAProxy, restarted, killed and joined by others under load: run.sh DAEMON [PART...]
# CLUSTER=containers runs them as containers of the image, CLUSTER=processes (default) as processes of DAEMON.
set -u
here=$(cd "$(dirname "$0")" && pwd)
daemon=$(realpath "${1:?usage: run.sh DAEMON [PART...]}")
shift
limit=${SUITE_TIMEOUT:-600}
PYTHON=${PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/attentiond-cluster.XXXXXX")

case ${CLUSTER:=processes} in
processes) ;;
containers)
    # shellcheck source=/dev/null
    . "$here/../container/lib.sh"
    why=$(no_containers)
    if [ -n "$why" ]; then
        echo "cluster: containers cannot be run: $why"
        exit 1
    fi
    have_image >&2 || exit 1
    ;;
*)
    echo "CLUSTER=$CLUSTER: expected processes or containers"
    exit 2
    ;;
esac
export CLUSTER
echo "cluster: with $CLUSTER"

timeout -k 10 "$limit" "$PYTHON" "$here/cluster.py" "$daemon" "$scratch" "$@"
code=$?
if [ "$code" -eq 0 ]; then
    rm -rf "$scratch"
else
    [ "$code" -ne 124 ] || echo "cluster: not done within $limit s"
    echo "cluster: what it left is in $scratch"
fi
exit "$code"
