#!/usr/bin/env bash
# Is docker/Dockerfile well formed, in the plain syntax that every builder reads? test_dockerfile.sh DAEMON
. "$(dirname "$0")/../integration/lib.sh"
. "$here/../container/lib.sh"
file=$container_top/docker/Dockerfile

equal "nothing that only some builders know" "" \
    "$(grep -nE '^(# *syntax|RUN --|ADD |COPY .*--(link|chmod|parents)|.*<<)' "$file")"
equal "the last stage starts from nothing" scratch "$(awk '$1 == "FROM" {last = $2} END {print last}' "$file")"
holds "what is built outside stays there" grep -qx '\*' "$container_top/.dockerignore"

linter=$store/npm/node_modules/.bin/dockerfile-utils
if ! command -v npm >/dev/null; then
    echo "dockerfile: not linted, npm is not installed"
elif [ ! -x "$linter" ] && ! timeout 120 npm install --prefix "$store/npm" --ignore-scripts --no-audit --no-fund \
    --silent dockerfile-utils@0.16 >"$scratch/npm" 2>&1; then
    fail "the linter is installed" "$(tail -n 3 "$scratch/npm")"
else
    holds "the linter finds nothing" "$linter" lint "$file"
    printf 'FROM scratch\nEXPOSE many\nENTRY ["x"]\n' >"$scratch/Dockerfile"
    holds "the linter finds what is wrong" fails "$linter" lint "$scratch/Dockerfile"
fi
finish
