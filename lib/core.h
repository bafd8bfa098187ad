/* core.h - attention itself: scores, every term that changes them, softmax, values. One for all
 * layers. */
#ifndef ATTNI_CORE_H
#define ATTNI_CORE_H

#include "edges.h"
#include "plan.h"

/* What the core works on: projected rows, and where its results go. */
struct attni_core {
    const attn_plan *plan;
    struct attni_rows query, key, value;
    struct attni_edges edges; /* of no use when the plan has none */
    struct {
        float *data; /* NULL: not wanted */
        size_t batch, row, head;
    } context;            /* results, laid out as attni_rows */
    float *probabilities; /* [score batch, heads, queries, keys]; NULL: not wanted */
};

/* Independent tasks (a tile of queries of one head of one sample), costly ones first, and one of
 * them. scratch is aligned to 64. */
size_t attni_core_n_tasks(const struct attni_core *core);
void attni_core_run(const struct attni_core *core, size_t task, void *scratch);

#endif
