/* kernels.h - the inner loops, one table an instruction set.
 *
 * Kernels neither check nor allocate: their callers have. Pointers need no more alignment than a
 * float's. ref.c defines the right answer of each; every other table is held against it. */
#ifndef ATTNI_KERNELS_H
#define ATTNI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

struct attni_kernels {
    const char *name;

    /* scores[i][j] = scale * sum_d query[i][d] * key[j][d] for n_queries x n_keys. Rows of query
     * and key are query_stride and key_stride floats apart, rows of scores score_stride. */
    void (*scores_f32)(size_t n_queries, size_t n_keys, size_t width, float scale,
                       const float *query, size_t query_stride, const float *key,
                       size_t key_stride, float *scores, size_t score_stride);

    /* row[j] = clip * tanh(row[j]) */
    void (*clip_f32)(size_t n, float clip, float *row);

    /* row[j] = exp(row[j] - max) / sum, in place. False, and the row untouched, when every element
     * is -inf (or n is 0). A NaN makes the whole row NaN. */
    bool (*softmax_f32)(size_t n, float *row);

    /* out[d] = sum_j weight[j] * value[j][d]; a weight of 0 adds nothing, whatever its value. */
    void (*weighted_sum_f32)(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out);
};

extern const struct attni_kernels attni_kernels_ref;

/* The table for this processor, chosen at the first call; ATTN_ISA names another. Any thread. */
const struct attni_kernels *attni_kernels(void);

#endif
