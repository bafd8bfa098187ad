/* linear.h - learned projections of rows. */
#ifndef ATTNI_LINEAR_H
#define ATTNI_LINEAR_H

#include "attention.h"

/* y = x W^T + b over rows; weights are the layer's, immutable. weight == NULL: no projection. */
struct attni_linear {
    const float *weight; /* as attni_linear_store left it */
    const float *bias;   /* [n_out], or NULL */
    size_t n_in, n_out;
    bool in_out; /* as the spec says */
    bool bf16;   /* the weight is stored, and multiplied, as bf16 */
};

/* Make the matrix library run on the calling thread alone. Call before the first run; cheap. */
void attni_linear_start(void);

/* Floats that a weight of this size takes in memory; false when that overflows. */
bool attni_linear_floats(size_t n_in, size_t n_out, bool bf16, size_t *n);

/* Lay a weight, [n_out, n_in] or (in_out) [n_in, n_out], out the way that the kernels read it.
 * `linear` says all but the weight. */
void attni_linear_store(const struct attni_linear *linear, const float *weight,
                        float *stored);

/* Cut y[r] = W x[r] + b over n_rows rows into independent tasks, and run one of them. x is
 * [n_rows, n_in], y is [n_rows, n_out], apart from x. The cut does not change a bit of y. */
size_t attni_linear_n_tasks(const struct attni_linear *linear, size_t n_rows);
void attni_linear_run(const struct attni_linear *linear, size_t n_rows, const float *x,
                      float *y, size_t task);

#endif
