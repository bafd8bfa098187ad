#!/usr/bin/env bash
# Does what `make install` puts down work on its own: daemon, demo models, library, header, pkg-config?
. "$(dirname "$0")/lib.sh"
root=$(cd "$here/../.." && pwd)
built=$(dirname "$DAEMON")
prefix=/usr
installed=$scratch/installed$prefix

# The daemon lies in BUILD/MODE: install from there, so that nothing is built again.
mode=$(basename "$built")
holds "make install" make -C "$root" --no-print-directory install BUILD="$(dirname "$built")" MODE="$mode" \
    DESTDIR="$scratch/installed" PREFIX="$prefix"
for file in bin/attentiond lib/libattention.so include/attention.h lib/pkgconfig/libattention.pc \
    share/attentiond/attentiond.json share/attentiond/models; do
    holds "$file is there" test -e "$installed/$file"
done
equal "pkg-config has the prefix" "prefix=$prefix" "$(grep '^prefix=' "$installed/lib/pkgconfig/libattention.pc")"
equal "nothing installed names the source tree" '' \
    "$(grep -rlF "$root" "$installed" --include='*.pc' --include='*.json')"

# Without arguments, from another folder, it serves the models it was installed with.
cd / || exit 1
start_unasked "$installed/bin/attentiond"
ask POST /v2/repository/index
expect_json "the installed daemon serves every demo model" 'len(j) >= 6 and all(m["state"] == "READY" for m in j)'
holds "... those that were installed" grep -qF "$installed/share/attentiond/models" "$scratch/log"
stop_daemon "the installed daemon stops"

# A program of somebody else's: one layer without weights, computed inline.
cat >"$scratch/program.c" <<'END'
#include <attention.h>
#include <stdio.h>
#include <stdlib.h>

static float query[2] = {2, 0}, key[4] = {1, 0, 0, 1}, logits[2];

int main(void)
{
    struct attn_error error = {0};
    struct attn_spec spec = {.size = sizeof spec};
    attn_layer *layer = NULL;
    attn_plan *plan = NULL;
    struct attn_named_tensor inputs[2] = {
        {"query", {ATTN_F32, 3, {1, 1, 2}, query}},
        {"key", {ATTN_F32, 3, {1, 2, 2}, key}},
    };
    float *outputs[1] = {logits};
    size_t n_scratch = 0;
    if (attn_spec_preset(&spec, "routing_score", NULL, 0, &error) ||
        attn_layer_create(&spec, NULL, &layer, &error) ||
        attn_plan_create(layer, NULL, inputs, 2, NULL, 0, &plan, &error) ||
        attn_plan_scratch(plan, 1, &n_scratch)) {
        puts(error.message);
        return 1;
    }
    void *scratch = malloc(n_scratch + 1);
    if (!scratch || attn_forward(plan, outputs, scratch, NULL, &error)) {
        puts(error.message);
        return 1;
    }
    printf("%.4f %.4f\n", (double)logits[0], (double)logits[1]);
    free(scratch);
    attn_plan_free(plan);
    attn_layer_free(layer);
    return 0;
}
END
case $mode in
asan) sanitizer=-fsanitize=address,undefined ;;
tsan) sanitizer=-fsanitize=thread ;;
*) sanitizer= ;;
esac
export PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/installed
# System folders are left out of what pkg-config prints unless it is told to keep them.
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
read -ra flags <<<"$sanitizer $(pkg-config --cflags --libs libattention)"
holds "a program compiles against what was installed" "${CC:-gcc}" -Wall -Werror -o "$scratch/program" "$scratch/program.c" "${flags[@]}"
equal "... and runs" '1.4142 0.0000' "$(LD_LIBRARY_PATH=$installed/lib "$scratch/program" 2>&1)"
finish
