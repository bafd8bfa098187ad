#!/usr/bin/env bash
# Check the manifests under config/k8s: run.sh DAEMON FOLDER. FOLDER is for packages and for what is written on the way;
# main.js says what is checked.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
daemon=$(realpath "${1:?usage: run.sh DAEMON FOLDER}")
folder=$(realpath -m "${2:?usage: run.sh DAEMON FOLDER}")
"$here/packages.sh" "$folder"
NODE_PATH=$folder/node_modules timeout 300 node "$here/main.js" "$daemon" "$folder"
