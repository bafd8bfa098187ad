#!/usr/bin/env bash
# Do README's curl lines give README's answers? test_readme.sh DAEMON
. "$(dirname "$0")/lib.sh"
start_daemon --model-repository="$here/../../config/models"
holds "every example of README" "$PYTHON" "$here/readme.py" "$here/../../README.md" "${base##*:}"
stop_daemon "exit status 0"
finish
