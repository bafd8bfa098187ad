/* back_rows.h - one task of the backward under way: rows of scores that become weights, and of
 * gradients. A task belongs to one thread. */
#ifndef ATTNI_BACK_ROWS_H
#define ATTNI_BACK_ROWS_H

#include "back_core.h"
#include "kernels/kernels.h"
#include "terms.h"

struct attni_back_work {
    const struct attni_back *back;
    const struct attni_core *core;
    const struct attni_kernels *kernels;
    const struct attni_back_plan *cut;
    size_t batch, head;
    size_t key, n_keys;      /* the tile of keys */
    size_t query, n_queries; /* the block of queries */
    size_t n_seen;           /* keys of the tile that any query of the block sees */
    bool keys_finite;        /* of the tile */
    float *scores, *gradients,
        *slopes;            /* [block][tile]; slopes NULL: nothing is clipped */
    float *turned;          /* [tile][block] */
    float *keys, *values;   /* columns */
    float *key_rows, *rows; /* panels */
    float *grad_keys, *grad_values, *grad_queries;
    float *deltas;  /* [queries]: sum(p * dp) */
    float *factors; /* [tile]: of dropout */
    const struct attni_edge *
        *edges; /* [queries]: the first that may concern the next tile */
};

/* Take up a head of a sample: head_index counts heads over all samples. */
void attni_back_start(struct attni_back_work *work, const struct attni_back *back,
                      size_t head_index, unsigned char *scratch);

/* Find what the block sees of the tile; whether that is nothing. */
bool attni_back_rows_skip(struct attni_back_work *work);

/* Row i of the block: from products to weights in scores, and to gradients of the products in
 * gradients (without the scale where scores are nothing but scaled products); gradients of all terms.
 * cotangent: that of the row's result. */
void attni_back_row(struct attni_back_work *work, size_t i, const float *cotangent);

#endif
