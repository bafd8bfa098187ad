# shellcheck shell=bash
# lib.sh - what the suites of packages share beside those of integration: a Debian to install them in.
#
# A suite is called with the folder where the packages are. `isolate` runs it again in namespaces of
# its own, as root: what it mounts and starts is gone when it ends, its port 8000 is nobody else's, and
# no network can be reached.
# shellcheck source=../integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../integration/lib.sh"
packages=$(realpath "$1")
root=$packages/$suite.root
base=http://127.0.0.1:8000

isolate() { # SCRIPT ARGUMENTS...
    if [ -z "${ISOLATED:-}" ]; then
        rm -rf "$scratch"
        ISOLATED=1 exec unshare --mount --net --ipc --uts --cgroup --pid --fork --kill-child \
            --mount-proc bash "$@"
    fi
    ip link set lo up
}

# A copy of the prepared Debian, with the packages of both versions in /debs and /next.
make_root() {
    rm -rf "$root"
    cp -a "$packages/root" "$root"
    mount --bind "$root" "$root"
    mkdir "$root/debs" "$root/next"
    cp "$packages"/*.deb "$root/debs"
    cp "$packages"/next/*.deb "$root/next"
    rm -f "$root"/*/*-dbgsym_*.deb
}

# The folder goes last, with nothing mounted below it; never what is mounted there.
remove_root() {
    [ -d "$root" ] || return 0
    umount -R -l "$root" 2>/dev/null
    rm -rf --one-file-system "$root"
}

equal_files() { # NAME FILE FILE
    holds "$1" cmp "$2" "$3"
}

# Ask a demo layer for something whose answer is known.
expect_served() { # NAME
    infer routing_mha_proj '{"inputs": [{"name": "q", "datatype": "FP32", "shape": [1, 2, 8],
        "data": [1, 0, 0, 0, 0, 0, 0, 1,  0, 1, 0, 0, 0, 0, 1, 0]}]}'
    expect_json "$1" 'abs(j["outputs"][0]["data"][2] - 0.41775897) < 1e-5'
}
