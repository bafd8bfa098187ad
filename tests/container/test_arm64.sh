#!/usr/bin/env bash
# Does the image for 64-bit ARM say so, and does what is in it start, answer and stop? An emulator runs it.
# test_arm64.sh DAEMON: the daemon of this machine, for answers to compare with.
. "$(dirname "$0")/../integration/lib.sh"
IMAGE=${IMAGE_ARM64:-localhost/attentiond:test-arm64}
. "$here/../container/lib.sh"
demo=$here/../container/demo.py
root=$scratch/root

built_or_finish env ARCH=arm64 TESTS=none ENGINE=buildah "$container_top/docker/image.sh" "$IMAGE"
equal "architecture" arm64 "$(podman image inspect "$IMAGE" --format '{{.Architecture}}')"
equal "health check" '["CMD","/usr/bin/attentiond","--health-check"]' \
    "$(podman image inspect "$IMAGE" --format '{{json .HealthCheck.Test}}')"
equal "user" 10001:10001 "$(podman image inspect "$IMAGE" --format '{{.Config.User}}')"

# A folder that any user may enter.
mkdir "$root"
cp -a "$(podman image mount "$IMAGE")/." "$root"
podman image unmount "$IMAGE" >/dev/null
chmod 755 "$scratch" "$root"
others=$(find "$root" -type f \( -perm /111 -o -name '*.so*' \) -exec readelf -h {} + | grep -c 'Machine:' || true)
equal "every program and library is for it" "$others" \
    "$(find "$root" -type f \( -perm /111 -o -name '*.so*' \) -exec readelf -h {} + | grep -c 'Machine: *AArch64')"

start_daemon --model-repository="$container_top/config/models"
holds "what the daemon of this machine answers" py "$demo" "${base##*:}" "$scratch/expected"
stop_daemon "the daemon of this machine stops"

# `exec`, so that signals reach the emulator.
cat >"$scratch/emulated" <<END
#!/bin/sh
exec setpriv --reuid 10001 --regid 10001 --clear-groups qemu-aarch64 -L "$root" "$root/usr/bin/attentiond" "\$@"
END
chmod +x "$scratch/emulated"
DAEMON=$scratch/emulated
start_daemon
contains "its own kernels" 'kernels=neon' "$scratch/log"
contains "the models in the image" "$root/usr/share/attentiond/models" "$scratch/log"
holds "every demo model answers the same within rounding" py "$demo" "${base##*:}" "$scratch/got" "$scratch/expected"
holds "its health check" env ATTENTIOND_HTTP_PORT="${base##*:}" "$DAEMON" --health-check
finish
