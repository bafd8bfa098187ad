#!/usr/bin/env bash
# Install what the checks of manifests need from npm into a folder, once: packages.sh FOLDER. Types and schemas of the
# API, a compiler for the ones, a reader for YAML, a validator for schemas of our own.
set -eu
folder=$(realpath -m "${1:?usage: packages.sh FOLDER}")
packages=(kubernetes-types@1.30.0 typescript@5.9.3 kubernetes-models@4.5.1
    @kubernetes-models/prometheus-operator@4.4.4 yaml@2.9.1 ajv@8.20.0)

[ "$(cat "$folder/installed" 2>/dev/null)" != "${packages[*]}" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
timeout 300 npm install --ignore-scripts --no-audit --no-fund --silent "${packages[@]}"
echo "${packages[*]}" >installed
