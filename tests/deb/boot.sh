#!/usr/bin/env bash
# Become the first process of a Debian in a folder: boot.sh ROOT, in mount, pid, cgroup and other
# namespaces of its own. The root is changed with pivot_root: in a chroot no user namespace can be made,
# which PrivateUsers= needs.
set -eu
root=$1

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mkdir -p old-root
pivot_root . old-root
cd /
umount -l old-root
rmdir old-root
# Credentials are mounted by a child, and seen where mounts are shared, as on a real machine.
mount --make-rshared /
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=journal --show-status=no --unit=multi-user.target
