/* program.c - a program of somebody else's, compiled against the library once that is installed: one
 * layer without weights, computed inline by its only thread. */
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
