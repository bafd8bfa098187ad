#!/usr/bin/env bash
# Check the manifests under config/k8s: run.sh DAEMON FOLDER. The packages it takes are installed into FOLDER, once;
# main.js says what is checked.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
daemon=$(realpath "${1:?usage: run.sh DAEMON FOLDER}")
folder=$(realpath -m "${2:?usage: run.sh DAEMON FOLDER}")

# Types and schemas of the API, a compiler for the ones, a reader for YAML, a validator for schemas of our own.
packages=(kubernetes-types@1.30.0 typescript@5.9.3 kubernetes-models@4.5.1
    @kubernetes-models/prometheus-operator@4.4.4 yaml@2.9.1 ajv@8.20.0)

mkdir -p "$folder"
if [ "$(cat "$folder/installed" 2>/dev/null)" != "${packages[*]}" ]; then
    rm -rf "$folder/node_modules" "$folder/package.json" "$folder/package-lock.json"
    (cd "$folder" && timeout 300 npm install --ignore-scripts --no-audit --no-fund --silent "${packages[@]}")
    echo "${packages[*]}" >"$folder/installed"
fi
NODE_PATH=$folder/node_modules timeout 300 node "$here/main.js" "$daemon" "$folder"
