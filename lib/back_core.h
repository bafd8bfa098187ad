/* back_core.h - the backward of attention itself: from the cotangent of what the heads give to those of
 * projected queries, keys and values, and of every term. */
#ifndef ATTNI_BACK_CORE_H
#define ATTNI_BACK_CORE_H

#include "core.h"

/* Gradients of rows [batch, length, heads, width], laid out as attni_rows; data NULL: not wanted. */
struct attni_back_rows {
    float *data;
    size_t batch, row, head;
};

/* What the backward works on. Results and their cotangents are [batch, queries, heads * value width]. */
struct attni_back {
    const struct attni_core *core; /* of the forward, all of whose rows are still there */
    const float *context, *cotangent;
    bool
        results; /* they have a cotangent: else it is 0, and nothing passes through values */
    const float *attention, *grad_attention; /* [score batch, heads, queries, keys]; NULL:
                                               * it has no cotangent */
    struct attni_back_rows query, key, value;
    float *query_parts; /* [batch, heads, parts of the keys, queries, width]; of no use
                         * with one part */
    float *kq, *kv;     /* gradients of the dense relations, which start at 0; NULL */
    float *edge_scores,
        *edge_weights; /* [edges, heads]: gradients of an edge's score, and its
                                        * weight; NULL: not wanted */
};

/* How it is cut: fills plan->back. Bytes of scratch that a task takes; false when that overflows. */
void attni_back_cut(attn_plan *plan);
bool attni_back_lay_out(attn_plan *plan, size_t *n_bytes);

/* Tasks: the keys of a head of a sample, or a part of them. They are independent unless a dense
 * relation whose gradient is wanted broadcasts over samples, heads or keys: then they may run one
 * after the other alone. scratch is a worker's, aligned to 64. */
size_t attni_back_n_tasks(const struct attni_back *back);
bool attni_back_in_turn(const struct attni_back *back);
void attni_back_run(const struct attni_back *back, size_t task, unsigned char *scratch);

/* Then, where the keys are cut: add up the parts of the queries' gradients. */
size_t attni_back_gather_n_tasks(const struct attni_back *back);
void attni_back_gather(const struct attni_back *back, size_t task);

#endif
