/* ref.c - the kernels in plain C: what every other table must agree with. Pure functions. */
#include "kernels.h"

#include "bf16.h"
#include "draws.h"

#include <math.h>
#include <string.h>

#define PANEL 8

/* Partial sums of a product, so that the compiler may keep them in one vector register without
 * being allowed to reorder float additions. */
#define LANES 8

static float dot_f32(size_t n, const float *a, const float *b)
{
    float lanes[LANES] = {0};
    size_t d = 0;
    for (; d + LANES <= n; d += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lanes[l] += a[d + l] * b[d + l];
        }
    }
    for (size_t l = 0; d + l < n; l++) {
        lanes[l] += a[d + l] * b[d + l];
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lanes[l] += lanes[l + half];
        }
    }
    return lanes[0];
}

static void gemm_f32(const struct attni_gemm *g)
{
    for (size_t i = 0; i < g->m; i++) {
        for (size_t j = 0; j < g->n; j += PANEL) {
            size_t n = g->n - j < PANEL ? g->n - j : PANEL;
            const float *b = g->b + j / PANEL * g->panel_stride;
            float *c = g->c + i * g->c_stride + j;
            for (size_t l = 0; l < n; l++) {
                c[l] = g->accumulate ? c[l] : g->bias ? g->bias[j + l] : 0;
            }
            for (size_t d = 0; d < g->k; d++) {
                for (size_t l = 0; l < n; l++) {
                    c[l] += g->a[i * g->a_stride + d] * b[d * PANEL + l];
                }
            }
        }
    }
}

/* Element `half` of the pair that a float stands for. */
static float of_pair(const float *pair, size_t half)
{
    uint16_t halves[2];
    memcpy(halves, pair, sizeof halves);
    return attni_bf16_to_f32(halves[half]);
}

static void gemm_bf16(const struct attni_gemm *g)
{
    for (size_t i = 0; i < g->m; i++) {
        for (size_t j = 0; j < g->n; j++) {
            const float *b = g->b + j / PANEL * g->panel_stride + j % PANEL;
            float *c = g->c + i * g->c_stride + j;
            float sum = g->accumulate ? *c : g->bias ? g->bias[j] : 0;
            for (size_t d = 0; d < 2 * g->k; d++) {
                sum += of_pair(g->a + i * g->a_stride + d / 2, d % 2) *
                       of_pair(b + d / 2 * PANEL, d % 2);
            }
            *c = sum;
        }
    }
}

static void round_pairs_bf16(size_t n, const float *x, float *pairs)
{
    for (size_t d = 0; d < n; d += 2) {
        const uint16_t pair[2] = {attni_bf16(x[d]), d + 1 < n ? attni_bf16(x[d + 1]) : 0};
        memcpy(&pairs[d / 2], pair, sizeof pair);
    }
}

static void pack_columns_f32(size_t n, size_t width, const float *rows, size_t stride,
                             float *panel)
{
    for (size_t d = 0; d < width; d++) {
        for (size_t j = 0; j < PANEL; j++) {
            panel[d * PANEL + j] = j < n ? rows[j * stride + d] : 0;
        }
    }
}

static bool pack_rows_f32(size_t n, size_t width, const float *rows, size_t stride,
                          float *panels, size_t panel_stride)
{
    bool finite = true;
    for (size_t d = 0; d < (width + PANEL - 1) / PANEL * PANEL; d++) {
        for (size_t j = 0; j < n; j++) {
            float x = d < width ? rows[j * stride + d] : 0;
            panels[d / PANEL * panel_stride + j * PANEL + d % PANEL] = x;
            finite = finite && isfinite(x);
        }
    }
    return finite;
}

static void transpose_f32(size_t n, size_t width, const float *rows, size_t stride,
                          float *out, size_t out_stride)
{
    for (size_t j = 0; j < n; j++) {
        for (size_t d = 0; d < width; d++) {
            out[d * out_stride + j] = rows[j * stride + d];
        }
    }
}

static void scores_f32(const struct attni_few_scores *few)
{
    for (size_t row = 0; row < few->n_heads * few->n_queries; row++) {
        size_t head = row / few->n_queries, i = row % few->n_queries;
        for (size_t j = 0; j < few->n_keys; j++) {
            few->scores[row * few->score_row + j] = dot_f32(
                few->width, few->query.data + head * few->query.head + i * few->query.row,
                few->key.data + head * few->key.head + j * few->key.row);
        }
    }
}

static float sum_f32(size_t n, const float *a)
{
    double sum = 0;
    for (size_t d = 0; d < n; d++) {
        sum += (double)a[d];
    }
    return (float)sum;
}

static void block_f32(size_t n, const unsigned char *mask, bool true_keeps, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = (mask[j] != 0) != true_keeps ? -INFINITY : row[j];
    }
}

static void clip_f32(size_t n, float clip, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = clip * tanhf(row[j]);
    }
}

static void scale_f32(size_t n, float factor, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] *= factor;
    }
}

/* 0 where the value is below the smallest normal float. */
static float exponential(float x)
{
    return x < -87.33654f ? 0 : expf(x);
}

static float softmax_row(size_t n, float scale, float *row, float *max, float *sum)
{
    float before = *max, now = before;
    bool nan = false;
    for (size_t j = 0; j < n; j++) {
        now = scale * row[j] > now ? scale * row[j] : now;
        nan = nan || isnan(row[j]);
    }
    for (size_t j = n; j % LANES != 0; j++) {
        row[j] = 0;
    }
    if (nan) {
        *sum = NAN;
    }
    double total = 0;
    for (size_t j = 0; j < n; j++) {
        row[j] = now == -INFINITY ? 0 : exponential(scale * row[j] - now);
        total += (double)row[j];
    }
    float factor = before == now || before == -INFINITY ? 1 : expf(before - now);
    *max = now;
    *sum = (float)((double)*sum * (double)factor + total);
    return factor;
}

static void softmax_step_f32(size_t n_rows, const size_t *n, float scale, float *rows,
                             size_t stride, float *max, float *sum, float *factor)
{
    for (size_t i = 0; i < n_rows; i++) {
        factor[i] = softmax_row(n[i], scale, rows + i * stride, &max[i], &sum[i]);
    }
}

static void exponential_f32(size_t n, float scale, float shift, float factor, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = factor * exponential(scale * row[j] - shift);
    }
}

static void softmax_gradient_f32(size_t n, const float *weight, float delta,
                                 float *gradient)
{
    for (size_t j = 0; j < n; j++) {
        gradient[j] = weight[j] == 0 ? 0 : weight[j] * (gradient[j] - delta);
    }
}

static void weighted_sum_f32(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out)
{
    for (size_t j = 0; j < n; j++) {
        const float *row = value + j * value_stride;
        for (size_t d = 0; weight[j] != 0 && d < width; d++) {
            out[d] += weight[j] * row[d];
        }
    }
}

static void weighted_heads_f32(const struct attni_few_sums *few)
{
    for (size_t h = 0; h < few->n_heads; h++) {
        weighted_sum_f32(few->n_keys, few->width, few->weight + h * few->weight_head,
                         few->value.data + h * few->value.head, few->value.row,
                         few->out + h * few->out_head);
    }
}

static void draw_words(size_t n, const uint32_t counter[4], const uint32_t key[2],
                       uint32_t *words)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t c[4] = {counter[0] + (uint32_t)i, counter[1], counter[2], counter[3]};
        uint32_t key_0 = key[0], key_1 = key[1];
        for (int round = 0; round < ATTNI_DRAW_ROUNDS; round++) {
            uint64_t p = (uint64_t)c[0] * ATTNI_DRAW_MULTIPLIER_0;
            uint64_t q = (uint64_t)c[2] * ATTNI_DRAW_MULTIPLIER_1;
            c[0] = (uint32_t)(q >> 32) ^ c[1] ^ key_0;
            c[1] = (uint32_t)q;
            c[2] = (uint32_t)(p >> 32) ^ c[3] ^ key_1;
            c[3] = (uint32_t)p;
            key_0 += ATTNI_DRAW_STEP_0;
            key_1 += ATTNI_DRAW_STEP_1;
        }
        memcpy(words + 4 * i, c, sizeof c);
    }
}

const struct attni_kernels attni_kernels_ref = {
    .name = "ref",
    .packs = false,
    .n_lanes = LANES,
    .n_panel = PANEL,
    .n_rows = 1,
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
