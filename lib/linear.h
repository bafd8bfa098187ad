/* linear.h - learned projections of rows. */
#ifndef ATTNI_LINEAR_H
#define ATTNI_LINEAR_H

#include "attention.h"

/* y = x W^T + b over rows; weights are the layer's, immutable. weight == NULL: no projection. */
struct attni_linear {
    const float *weight; /* [n_out, n_in], or [n_in, n_out] when in_out */
    const float *bias;   /* [n_out], or NULL */
    size_t n_in, n_out;
    bool in_out;
};

/* Rows that make one task: the same cut whatever the number of workers, so that results are too. */
#define ATTNI_LINEAR_ROWS 128

/* Make the matrix library run on the calling thread alone. Call before the first apply; cheap. */
void attni_linear_start(void);

/* y[r] = W x[r] + b for n_rows rows; x is [n_rows, n_in], y is [n_rows, n_out], apart from x. */
void attni_linear_apply(const struct attni_linear *linear, size_t n_rows, const float *x,
                        float *y);

#endif
