/* activation.c - elementwise activations and the softmax of a row, and what gradients they pass on.
 * Pure functions, any thread. */
#include "post.h"

#include <math.h>

void attni_activate(enum attn_post_kind kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kind == ATTN_POST_RELU) {
            x[i] = x[i] < 0 ? 0 : x[i]; /* NaN passes */
        } else if (kind == ATTN_POST_SIGMOID) {
            x[i] = 1 / (1 + expf(-x[i]));
        } else {
            x[i] = tanhf(x[i]);
        }
    }
}

void attni_activate_back(enum attn_post_kind kind, const float *output, float *gradient,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float y = output[i];
        if (kind == ATTN_POST_RELU) {
            gradient[i] = y > 0 ? gradient[i] : 0;
        } else if (kind == ATTN_POST_SIGMOID) {
            gradient[i] *= y * (1 - y);
        } else {
            gradient[i] *=
                (1 - y) * (1 + y); /* 1 - y loses no digits near 1, y * y does */
        }
    }
}

void attni_softmax(float *x, size_t n, size_t stride)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        max = x[i * stride] > max || isnan(x[i * stride]) ? x[i * stride] : max;
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        x[i * stride] = expf(x[i * stride] - max);
        sum += (double)x[i * stride];
    }
    for (size_t i = 0; i < n; i++) {
        x[i * stride] = (float)((double)x[i * stride] / sum);
    }
}

void attni_softmax_back(const float *output, float *gradient, size_t n, size_t stride,
                        size_t n_features)
{
    double sums[ATTNI_POST_BLOCK] = {0};
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < n_features; d++) {
            size_t at = i * stride + d;
            sums[d] += (double)gradient[at] * (double)output[at];
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < n_features; d++) {
            size_t at = i * stride + d;
            gradient[at] = (float)((double)output[at] * ((double)gradient[at] - sums[d]));
        }
    }
}
