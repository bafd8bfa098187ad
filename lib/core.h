/* core.h - the core: scores, every term that changes them, softmax, values. One for all layers. */
#ifndef ATTNI_CORE_H
#define ATTNI_CORE_H

#include "edges.h"
#include "plan.h"

/* What the core works on: projected rows, and where its results go. */
struct attni_core {
    const attn_plan *plan;
    struct attni_rows query, key, value;
    struct attni_edges edges; /* of no use when the plan has none */
    float *context;       /* [batch, queries, heads * value width]; NULL: not wanted */
    float *probabilities; /* [score batch, heads, queries, keys]; NULL: not wanted */
};

/* Floats of scratch that one task needs; false when that overflows. */
bool attni_core_scratch(const attn_plan *plan, size_t *n_floats);

/* Independent tasks (a tile of queries of one head of one sample), and one of them. */
size_t attni_core_n_tasks(const struct attni_core *core);
void attni_core_run(const struct attni_core *core, size_t task, float *scratch);

#endif
