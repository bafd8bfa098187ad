#!/usr/bin/env bash
# Are the Debian packages good, in a Debian that has nothing else? run.sh FOLDER [SUITE...], as root.
# FOLDER has the packages and the tree they were built in; a Debian is made there, once, from the
# machine's own sources of packages. Closes with the count of all checks.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$(realpath "${1:?usage: run.sh FOLDER [SUITE...]}")
shift
[ $# -gt 0 ] || set -- packages service systemd
limit=${SUITE_TIMEOUT:-300}
. "$here/../tally.sh"
export DEBIAN_FRONTEND=noninteractive

if [ "$(id -u)" -ne 0 ]; then
    echo 'deb: installing packages needs root'
    echo 'deb: 0 passed, 1 failed'
    exit 1
fi

give_up() { # WHAT LOG
    echo "deb: $1:"
    tail -n 30 "$2"
    echo 'deb: 0 passed, 1 failed'
    exit 1
}

# The next version: a changelog with one more entry, a configuration with one more line, the same
# programs.
make_next() {
    local tree=$folder/attentiond version
    [ ! "$folder/next/made" -nt "$folder/built" ] || return 0
    rm -rf "$folder/next"
    mkdir -p "$folder/next"
    cd "$tree" || return 1
    version=$(dpkg-parsechangelog -S Version)
    cp debian/changelog config/systemd/attentiond.json "$folder/next/"
    {
        printf 'attentiond (%s.1) unstable; urgency=medium\n\n  * The next one.\n\n -- %s  %s\n\n' "$version" \
            "$(dpkg-parsechangelog -S Maintainer)" "$(date -R)"
        cat "$folder/next/changelog"
    } >debian/changelog
    sed -i 's/^{$/{\n    "queue-size": 1000,/' config/systemd/attentiond.json
    timeout 300 dpkg-buildpackage -us -uc -b -nc
    local code=$?
    cp "$folder/next/changelog" debian/changelog
    cp "$folder/next/attentiond.json" config/systemd/
    [ "$code" -eq 0 ] && mv "$folder"/*_"$version".1_* "$folder/next/" && touch "$folder/next/made"
}

# A Debian with a compiler and no more.
make_base() {
    [ ! -s "$folder/base.tar" ] || return 0
    local sources=/etc/apt/sources.list.d/debian.sources
    [ -s "$sources" ] || sources=/etc/apt/sources.list
    timeout 1200 mmdebstrap --variant=minbase --mode=root --include=gcc,libc6-dev,pkg-config \
        --dpkgopt=force-unsafe-io "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" \
        "$folder/base.part" "$sources" </dev/null && mv "$folder/base.part" "$folder/base.tar"
}

# The base, and in its cache what our packages depend on: the suites have no network.
prepare_root() {
    local root=$folder/root
    rm -rf "$root"
    mkdir -p "$root/debs"
    tar -C "$root" -xf "$folder/base.tar" || return 1
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    printf 'Dpkg::Options { "--force-unsafe-io"; };\nAPT::Install-Recommends "false";\n' \
        >"$root/etc/apt/apt.conf.d/90tests"
    printf '#!/bin/sh\n[ -d /run/systemd/system ] || exit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp "$folder"/*.deb "$root/debs"
    rm -f "$root"/debs/*-dbgsym_*.deb
    timeout 300 chroot "$root" sh -c 'apt-get update -qq &&
        apt-get install -y -qq --download-only /debs/*.deb systemd' || return 1
    rm -rf "$root/debs"
}

for step in make_next make_base prepare_root; do
    ( set -e; $step ) >"$folder/$step.log" 2>&1 || give_up "$step did not succeed" "$folder/$step.log"
done

for suite in "$@"; do
    output=$(timeout -k 5 "$limit" bash "$here/test_$suite.sh" "$folder" 2>&1 </dev/null)
    code=$?
    tally "$suite" "$code" "$output" ||
        output+=$'\n'"$suite: ended with status $code before its count"
    echo "$output"
    rm -rf --one-file-system "${folder:?}/$suite.root"
done
rm -rf --one-file-system "$folder/root"
echo "deb: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
