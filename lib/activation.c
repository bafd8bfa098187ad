/* activation.c - elementwise activations and the softmax of a row. Pure functions, any thread. */
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
