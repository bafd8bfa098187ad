/* vector.h - the text of the vector kernels, included once by each instruction set after it has
 * defined: LANES, TILE_ROWS, TILE_VECTORS (a tile of accumulators that fits the registers), TABLE,
 * TABLE_NAME, the vector types vf, vi and vw, and the v_ functions used below; HAS_DOT_PAIRS and HAS_ROUND
 * where it has v_dot_pairs and v_round_bf16 of its own. */
#ifndef ATTNI_VECTOR_H
#define ATTNI_VECTOR_H

#include "bf16.h"
#include "draws.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define PANEL ((size_t)LANES * TILE_VECTORS)
/* Most vectors side by side in a tile: few rows take several panels at once, so that enough sums
 * are under way to hide the latency of each. */
#define WIDEST (TILE_VECTORS * 4)
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Elements of c, bias: whole vectors, or what is left of the last one. */
INLINE vf load_columns(const float *p, size_t at, size_t n)
{
    return at + LANES <= n ? v_load(p + at)
           : at < n        ? v_load_part(p + at, n - at)
                           : v_all(0);
}

INLINE void store_columns(float *p, size_t at, size_t n, vf v)
{
    if (at + LANES <= n) {
        v_store(p + at, v);
    } else if (at < n) {
        v_store_part(p + at, v, n - at);
    }
}

#include "vector_product.h"

#include "vector_few.h"

#include "vector_rows.h"

#include "vector_draws.h"

const struct attni_kernels TABLE = {
    .name = TABLE_NAME,
    .packs = true,
    .n_lanes = LANES,
    .n_panel = PANEL,
    .n_rows = TILE_ROWS,
    .gemm_f32 = gemm_f32,
    .gemm_bf16 = gemm_bf16,
    .round_pairs_bf16 = round_pairs_bf16,
    .pack_columns_f32 = pack_columns_f32,
    .pack_rows_f32 = pack_rows_f32,
    .transpose_f32 = transpose_f32,
    .scores_f32 = scores_f32,
    .dot_f32 = dot_f32,
    .sum_f32 = sum_f32,
    .block_f32 = block_f32,
    .clip_f32 = clip_f32,
    .scale_f32 = scale_f32,
    .softmax_step_f32 = softmax_step_f32,
    .exponential_f32 = exponential_f32,
    .softmax_gradient_f32 = softmax_gradient_f32,
    .weighted_sum_f32 = weighted_sum_f32,
    .weighted_heads_f32 = weighted_heads_f32,
    .draw_words = draw_words,
};

#endif
