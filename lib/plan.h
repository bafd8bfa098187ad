/* plan.h - one call, checked: whose data, which sizes, where in scratch. */
#ifndef ATTNI_PLAN_H
#define ATTNI_PLAN_H

#include "attention.h"
#include "layer.h"
#include "mask.h"
#include "spec.h"

/* Parts of the core's scratch. */
#define ATTNI_CORE_PARTS 8

/* Where rows [batch, length, heads, head width] are; strides in floats, 0 where one batch entry
 * serves all. */
struct attni_rows {
    const float *data;
    size_t batch, row, head;
};

/* A dense relation [batch, queries, keys, heads(, width)]; data NULL: none. Strides in floats, 0
 * where an axis broadcasts. */
struct attni_dense {
    const float *data;
    size_t batch, query, key, head, width;
};

/* Scores alone: leading axes that broadcast. */
struct attni_free {
    size_t rank; /* of the leading axes */
    size_t shape[ATTN_MAX_RANK];
    size_t query[ATTN_MAX_RANK], key[ATTN_MAX_RANK], mask[ATTN_MAX_RANK]; /* strides */
    size_t mask_query, mask_key;
};

struct attn_plan {
    const attn_layer *layer;
    struct attn_tensor
        inputs[ATTNI_N_ROLES]; /* key and value resolved to what serves them */
    bool given[ATTNI_N_ROLES];

    size_t n_batch; /* of the output */
    size_t
        n_score_batch; /* of the scores: 1 when queries and keys have one and values many */
    size_t batch[3];   /* of query, key and value inputs: n_batch or 1 */
    size_t n_queries, n_keys;
    size_t head_width, value_width; /* of one head */
    float scale;
    struct attni_mask mask;
    struct attni_dense kq, kv;
    size_t n_edges;
    struct attni_free free;

    struct attn_named_tensor outputs[2];
    size_t n_outputs;
    size_t main_output, attention_output; /* index into outputs; n_outputs: not wanted */

    /* Scratch, in bytes from its start; each part is aligned to 64. */
    size_t query_at, key_at, value_at, context_at, edges_at[4];
    size_t shared_bytes;              /* before the workers' parts */
    size_t worker_bytes;              /* each */
    size_t core_at[ATTNI_CORE_PARTS]; /* within a worker's part */
};

/* Which of query, key and value (0, 1, 2) a projection makes from its own input. */
const struct attni_linear *attni_plan_projection(const attn_plan *plan, size_t which);

#endif
