#!/usr/bin/env bash
# Are requests told apart, refused and answered as RFC 9110 and 9112 want it, where the HTTP library leaves it to us?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models" --http-idle-timeout=2 --http-max-input-size=65536
while read -r name; do
    holds "${name//_/ }" py "$here/wire.py" "${base##*:}" "$name"
done < <(py "$here/wire.py" list)
ask GET /v2/health/live
expect_status "it lives" 200
finish
