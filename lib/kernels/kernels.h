/* kernels.h - the inner loops, one table an instruction set.
 *
 * Kernels neither check nor allocate: their callers have. Pointers need no more alignment than a
 * float's. ref.c defines the right answer of each; every other table is held against it. */
#ifndef ATTNI_KERNELS_H
#define ATTNI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c = a b (+ bias), or c += a b. Columns of b come in panels of n_panel, the last of which is read
 * whole, whatever n is. Every element is summed over k in the same order, whatever m and n are. */
struct attni_gemm {
    size_t m, n, k;
    const float *a; /* [m][k], rows a_stride floats apart */
    size_t a_stride;
    const float *b;      /* first panel */
    size_t panel_stride; /* floats from one panel to the next */
    const float *bias;   /* [n], or NULL for zeros; not read when accumulating */
    float *c;            /* [m][n], rows c_stride floats apart */
    size_t c_stride;
    bool accumulate;
};

#define ATTNI_MOST_ROWS 16

/* Rows of several heads where they lie: strides in floats from row to row and from head to head. */
struct attni_lying {
    const float *data;
    size_t row, head;
};

/* For a few queries, without packing, all heads in one walk over the keys:
 * scores[h * n_queries + i][j] = sum_d query[h][i][d] * key[h][j][d]. */
struct attni_few_scores {
    size_t n_heads, n_queries, n_keys, width;
    struct attni_lying query, key;
    float *scores; /* rows score_row floats apart */
    size_t score_row;
};

/* The other half, for one query of each head, in one walk over the values:
 * out[h][d] += sum_j weight[h][j] * value[h][j][d]; a weight of 0 adds nothing, whatever its value. */
struct attni_few_sums {
    size_t n_heads, n_keys, width;
    const float *weight; /* heads weight_head floats apart */
    size_t weight_head;
    struct attni_lying value;
    float *out; /* heads out_head floats apart */
    size_t out_head;
};

struct attni_kernels {
    const char *name;
    bool
        packs; /* projections go through gemm_f32 and packed weights; else through BLAS */
    size_t n_lanes; /* floats of a vector */
    size_t n_panel; /* columns of a panel */
    size_t n_rows;  /* rows that a product takes at a time, at most ATTNI_MOST_ROWS */

    void (*gemm_f32)(const struct attni_gemm *gemm);

    /* The same over bf16: each float of a and b is instead a pair of bf16, the first in its lower
     * half, and k counts pairs. Products are summed in float32. */
    void (*gemm_bf16)(const struct attni_gemm *gemm);

    /* n floats rounded to (n + 1) / 2 pairs of bf16, the last filled up with 0. */
    void (*round_pairs_bf16)(size_t n, const float *x, float *pairs);

    /* One panel of rows turned into columns: panel[d][j] = rows[j][d] for n <= n_panel rows that
     * are stride floats apart; columns from n on are zero. */
    void (*pack_columns_f32)(size_t n, size_t width, const float *rows, size_t stride,
                             float *panel);

    /* Rows as panels: panel[j][d] = rows[j][d], the panels of n_panel columns being panel_stride
     * floats apart, columns from width on being zero. Whether every element is finite. */
    bool (*pack_rows_f32)(size_t n, size_t width, const float *rows, size_t stride,
                          float *panels, size_t panel_stride);

    /* out[d][j] = rows[j][d] for n rows of `width`; rows are stride floats apart, those of out
     * out_stride. */
    void (*transpose_f32)(size_t n, size_t width, const float *rows, size_t stride,
                          float *out, size_t out_stride);

    void (*scores_f32)(const struct attni_few_scores *few);

    /* sum_d a[d] * b[d], and sum_d a[d] */
    float (*dot_f32)(size_t n, const float *a, const float *b);
    float (*sum_f32)(size_t n, const float *a);

    /* row[j] = -inf where (mask[j] != 0) != true_keeps */
    void (*block_f32)(size_t n, const unsigned char *mask, bool true_keeps, float *row);

    /* row[j] = clip * tanh(row[j]) */
    void (*clip_f32)(size_t n, float clip, float *row);

    /* row[j] *= factor */
    void (*scale_f32)(size_t n, float factor, float *row);

    /* One step of a softmax over rows that come in parts: for each row i of n_rows, stride floats
     * apart, with n[i] elements here and m' = max(max[i], scale * row),
     *     row[j] = exp(scale * row[j] - m'),  sum[i] = sum[i] * f + sum_j row[j],  max[i] = m',
     * where factor[i] = f = exp(max[i] - m') is what everything gathered before has to be multiplied
     * by. Start with max = -inf and sum = 0. While every element so far is -inf, max stays -inf, the
     * row becomes zeros and f is 1. A NaN makes sum NaN for good. scale must be positive and finite.
     * A row needs room for n[i] rounded up to n_lanes: what is beyond n[i] becomes 0. */
    void (*softmax_step_f32)(size_t n_rows, const size_t *n, float scale, float *rows,
                             size_t stride, float *max, float *sum, float *factor);

    /* row[j] = factor * exp(scale * row[j] - shift), for arguments up to 0; exactly 0 from about
     * -87.3 on. */
    void (*exponential_f32)(size_t n, float scale, float shift, float factor, float *row);

    /* The backward of a softmax: gradient[j] = weight[j] * (gradient[j] - delta), and 0 where the
     * weight is 0, whatever its gradient. */
    void (*softmax_gradient_f32)(size_t n, const float *weight, float delta,
                                 float *gradient);

    /* out[d] += sum_j weight[j] * value[j][d]; a weight of 0 adds nothing, whatever its value. */
    void (*weighted_sum_f32)(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out);

    void (*weighted_heads_f32)(const struct attni_few_sums *few);

    /* Random bits by counter: words[4 * i + l] = word l that Philox4x32-10 gives for the key and the
     * counter whose word 0 is increased by i (without a carry), for i < n. The same bits in every
     * table. */
    void (*draw_words)(size_t n, const uint32_t counter[4], const uint32_t key[2],
                       uint32_t *words);
};

extern const struct attni_kernels attni_kernels_ref;
#if defined(__x86_64__)
extern const struct attni_kernels attni_kernels_avx2;
extern const struct attni_kernels attni_kernels_avx512;
extern const struct attni_kernels attni_kernels_avx512_bf16;
#endif
#if defined(__aarch64__)
extern const struct attni_kernels attni_kernels_neon;
#endif

/* The table for this processor, chosen at the first call; ATTN_ISA names another. Any thread. */
const struct attni_kernels *attni_kernels(void);

/* The tables that run on this processor, the plain one first and the best last; NULL past them. */
const struct attni_kernels *attni_kernels_at(size_t index);

#endif
