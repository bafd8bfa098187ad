#!/usr/bin/env bash
# Daemons behind HAProxy, restarted, killed and joined by others under load: run.sh DAEMON [PART...]
# CLUSTER=containers runs them as containers of the image, CLUSTER=processes (default) as processes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
daemon=$(realpath "${1:?usage: run.sh DAEMON [PART...]}")
shift
limit=${SUITE_TIMEOUT:-400}
PYTHON=${PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/attentiond-cluster.XXXXXX")

timeout -k 10 "$limit" "$PYTHON" "$here/cluster.py" "$daemon" "$scratch" "$@"
code=$?
if [ "$code" -eq 0 ]; then
    rm -rf "$scratch"
else
    [ "$code" -ne 124 ] || echo "cluster: not done within $limit s"
    echo "cluster: what it left is in $scratch"
fi
exit "$code"
