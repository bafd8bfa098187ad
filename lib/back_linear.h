/* back_linear.h - the backward of learned projections: y = x W^T + b, given the gradient of y. */
#ifndef ATTNI_BACK_LINEAR_H
#define ATTNI_BACK_LINEAR_H

#include "linear.h"

/* A weight turned around, so that rows of gradients can be multiplied with it: columns are inputs.
 * Floats that it takes; false when that overflows. */
bool attni_back_weight_floats(const struct attni_linear *linear, size_t *n);

/* Tasks that turn it (panels of it), and one of them. Any thread. */
size_t attni_back_weight_n_tasks(const struct attni_linear *linear);
void attni_back_weight_turn(const struct attni_linear *linear, float *turned,
                            size_t task);

/* dx[r] = W^T dy[r] for n_rows rows of n_out floats, or dx[r] += that. */
struct attni_back_input {
    const struct attni_linear *linear;
    const float *turned;
    size_t n_rows;
    const float *dy;
    float *dx;
    bool accumulate;
};
size_t attni_back_input_n_tasks(const struct attni_back_input *product);
void attni_back_input_run(const struct attni_back_input *product, size_t task,
                          void *scratch);

/* out[m][n] = factor * sum_r a[r][m] * b[r][n]: with a = dy and b = x the gradient of a weight
 * [n_out, n_in], the other way round that of one stored [n_in, n_out]. Rows are m and n floats. */
struct attni_back_weight {
    size_t n_rows, m, n;
    const float *a, *b;
    float factor;
    float *out;
};
size_t attni_back_product_n_tasks(const struct attni_back_weight *product);
void attni_back_product_run(const struct attni_back_weight *product, size_t task,
                            void *scratch);

/* Bytes of scratch that a task of either product takes, aligned to 64. */
size_t attni_back_linear_scratch(void);

/* out[n] = factor * sum_r dy[r][n]: the gradient of a bias. Tasks take columns. */
struct attni_back_bias {
    size_t n_rows, n;
    const float *dy;
    float factor;
    float *out;
};
size_t attni_back_bias_n_tasks(const struct attni_back_bias *sum);
void attni_back_bias_run(const struct attni_back_bias *sum, size_t task);

#endif
