#!/bin/sh
# Install the Debian packages named as arguments where they are missing; says what it installs.
set -eu

missing=
for package in "$@"; do
    if ! dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
        missing="$missing $package"
    fi
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
else
    echo "missing packages:$missing; install them as root: apt-get install$missing" >&2
    exit 1
fi
echo "installing missing packages:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # words are meant to split
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
