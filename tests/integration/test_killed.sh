#!/usr/bin/env bash
# Killed at any moment, of its start or while it loads, unloads, reloads and serves: are the files that the daemon reads
# as they were, and does the next one start on what is left? KILL_TIMES (15) and KILL_SEED say how often and when.
. "$(dirname "$0")/lib.sh"
mkdir "$scratch"/{run,logs}
py "$here/models.py" repository "$scratch/models"
seed=${KILL_SEED:-$RANDOM}
timeout "${KILL_PATIENCE:-900}" "$PYTHON" -I -S "$here/killed.py" "$DAEMON" "$scratch" "$seed" "${KILL_TIMES:-15}" \
    >"$scratch/log" 2>&1
equal "killed, with seed $seed" 0 $?
contains "... and it was killed" 'killed {' "$scratch/log"
holds "no sanitizer spoke" bash -c "! grep -q -e Sanitizer -e 'runtime error' '$scratch/said'"
[ "$n_failed" -eq 0 ] || tail -n 3 "$scratch/log"
finish
