#!/usr/bin/env bash
# Does the root of the image serve without a container engine: in namespaces of its own where the system
# allows them, else in a changed root alone? test_root.sh DAEMON: the daemon whose files are staged.
. "$(dirname "$0")/../integration/lib.sh"
. "$here/../container/lib.sh"
demo=$here/../container/demo.py
root=$store/root
models=/usr/share/attentiond/models

if ! stage_root >"$scratch/build" 2>&1; then
    fail "the root is staged" "$(tail -n 5 "$scratch/build")"
    finish
fi
find "$root" -printf '%P %s %T@\n' | sort >"$scratch/before"
bytes=$(du -sb "$root" | cut -f1)
holds "at most 16 MB, it has $bytes bytes" test "$bytes" -le 16000000

start_daemon --model-repository="$container_top/config/models"
holds "what the daemon itself answers" py "$demo" "${base##*:}" "$scratch/expected"
stop_daemon "the daemon itself stops"

alone=(unshare --mount --pid --ipc --uts --fork --kill-child "--mount-proc=$root/proc")
if ! "${alone[@]}" true 2>/dev/null; then
    echo "root: no namespaces here: the root is changed, nothing more"
    alone=()
fi
cat >"$scratch/rooted" <<END
#!/bin/sh
exec ${alone[*]} chroot --userspec=10001:10001 "$root" /usr/bin/attentiond "\$@"
END
chmod +x "$scratch/rooted"
DAEMON=$scratch/rooted

# unshare waits for the daemon, and passes no signal on.
inner_pid() {
    if [ ${#alone[@]} -gt 0 ]; then
        ps -o pid= --ppid "$daemon_pid" | tr -d ' '
    else
        echo "$daemon_pid"
    fi
}

start_daemon --model-repository="$models"
equal "its user" 10001 "$(awk '$1 == "Uid:" {print $2}' "/proc/$(inner_pid)/status")"
equal "no capability" 0000000000000000 "$(awk '$1 == "CapEff:" {print $2}' "/proc/$(inner_pid)/status")"
holds "every demo model answers" py "$demo" "${base##*:}" "$scratch/got"
holds "the same bytes as the daemon itself" cmp "$scratch/expected" "$scratch/got"
kill -TERM "$(inner_pid)"
wait "$daemon_pid"
equal "SIGTERM ends it" 0 $?
daemon_pid=
find "$root" -printf '%P %s %T@\n' | sort >"$scratch/after"
holds "it wrote nothing" cmp "$scratch/before" "$scratch/after"

"$DAEMON" --model-repository=/absent >"$scratch/out" 2>&1
equal "a repository that is not there: status" 1 $?
contains "a repository that is not there: says so" /absent "$scratch/out"
"$DAEMON" --no-such-option >"$scratch/out" 2>&1
equal "an option that is none: status" 2 $?
finish
