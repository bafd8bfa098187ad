#!/usr/bin/env bash
# mounts.sh - run a command that starts containers where what it mounts goes with it: mounts.sh COMMAND...
#
# For root: the command has a mount namespace of its own, so that nothing of podman's stays mounted after it.
# In a changed root podman cannot work as it is, since the root is no mount and control groups may be missing
# below /sys: there the command has the root mounted onto a folder, and is given the groups. Anybody else, and
# whoever may have no namespace, gets the command alone.
set -eu

if [ "$(id -u)" -ne 0 ] || ! unshare --mount --propagation unchanged true 2>/dev/null; then
    exec "$@"
fi
if [ -z "${MOUNTS_ARE_OWN:-}" ]; then
    export MOUNTS_ARE_OWN=1
    exec unshare --mount --propagation unchanged "$0" "$@"
fi

give_control_groups() {
    local line names
    ! awk '$3 ~ /^cgroup2?$/ {found = 1} END {exit !found}' /proc/mounts || return 0
    if [ "$(wc -l </proc/self/cgroup)" -eq 1 ]; then
        mount -t cgroup2 none /sys/fs/cgroup
        return
    fi
    mount -t tmpfs none /sys/fs/cgroup
    while read -r line; do
        names=$(cut -d: -f2 <<<"$line")
        mkdir "/sys/fs/cgroup/${names#name=}" 2>/dev/null || mkdir /sys/fs/cgroup/unified
        if [ -n "$names" ]; then
            mount -t cgroup -o "$names" none "/sys/fs/cgroup/${names#name=}"
        else
            mount -t cgroup2 none /sys/fs/cgroup/unified
        fi
    done </proc/self/cgroup
}

if [ "${MOUNTS_ARE_OWN}" = changed ]; then
    cd "$1"
    shift
elif awk '$5 == "/" {found = 1} END {exit !found}' /proc/self/mountinfo; then
    mount --make-rprivate /
else
    # Until it is private, what is mounted may be seen outside: it goes at the end.
    slash=$(mktemp -d)
    trap 'umount -l "$slash"; rmdir "$slash"' EXIT
    trap 'kill "$child" 2>/dev/null' INT TERM
    mount --rbind / "$slash"
    mount --make-rprivate "$slash"
    MOUNTS_ARE_OWN=changed chroot "$slash" "$(realpath "$0")" "$PWD" "$@" &
    child=$!
    code=0
    wait "$child" || code=$?
    exit "$code"
fi
give_control_groups || echo "mounts: control groups cannot be mounted here" >&2
exec "$@"
