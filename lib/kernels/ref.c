/* ref.c - the kernels in plain C: what every other table must agree with. Pure functions. */
#include "kernels.h"

#include <math.h>

/* Partial sums of a product, so that the compiler may keep them in one vector register without
 * being allowed to reorder float additions. */
#define LANES 16

static float dot(size_t n, const float *a, const float *b)
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

static void scores_f32(size_t n_queries, size_t n_keys, size_t width, float scale,
                       const float *query, size_t query_stride, const float *key,
                       size_t key_stride, float *scores, size_t score_stride)
{
    for (size_t j = 0; j < n_keys; j++) {
        for (size_t i = 0; i < n_queries; i++) {
            scores[i * score_stride + j] =
                scale * dot(width, query + i * query_stride, key + j * key_stride);
        }
    }
}

static void clip_f32(size_t n, float clip, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = clip * tanhf(row[j]);
    }
}

static bool softmax_f32(size_t n, float *row)
{
    float max = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        if (row[j] > max || isnan(row[j])) {
            max = row[j]; /* once NaN, nothing is greater */
        }
    }
    if (max == -INFINITY) {
        return false;
    }
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
        row[j] = expf(row[j] - max);
        sum += (double)row[j];
    }
    float inverse = (float)(1 / sum);
    for (size_t j = 0; j < n; j++) {
        row[j] *= inverse;
    }
    return true;
}

static void weighted_sum_f32(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out)
{
    for (size_t d = 0; d < width; d++) {
        out[d] = 0;
    }
    for (size_t j = 0; j < n; j++) {
        if (weight[j] == 0) {
            continue;
        }
        const float *row = value + j * value_stride;
        for (size_t d = 0; d < width; d++) {
            out[d] += weight[j] * row[d];
        }
    }
}

const struct attni_kernels attni_kernels_ref = {
    .name = "ref",
    .scores_f32 = scores_f32,
    .clip_f32 = clip_f32,
    .softmax_f32 = softmax_f32,
    .weighted_sum_f32 = weighted_sum_f32,
};
