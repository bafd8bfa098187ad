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

/* Floats that a weight of this size takes in memory; false when that overflows. */
bool attni_linear_floats(size_t n_in, size_t n_out, bool bf16, size_t *n);

/* Lay a weight, [n_out, n_in] or (in_out) [n_in, n_out], out the way that the kernels read it.
 * `linear` says all but the weight. */
void attni_linear_store(const struct attni_linear *linear, const float *weight,
                        float *stored);

/* Columns [first, first + n_columns) of y[r] = W x[r] + b for n_rows rows of x, n_in floats each.
 * Column `first + c` of row r goes to y[c / block * block_stride + r * row + c % block]: the heads of
 * a projection lie one after the other, or side by side. */
struct attni_product {
    const struct attni_linear *linear;
    size_t first,
        n_columns; /* multiples of a panel, as block is, unless all columns are asked for */
    size_t n_rows;
    const float *x;
    float *y;
    size_t row, block, block_stride;
    bool in_place; /* y is x */
};

/* All columns, y being [n_rows, n_out] apart from x. */
struct attni_product attni_product_of(const struct attni_linear *linear, size_t n_rows,
                                      const float *x, float *y);

/* Whether a projection goes over packed weights: the bits of a row then do not depend on what other rows
 * there are. */
bool attni_linear_is_packed(const struct attni_linear *linear);

/* Whether a product may have columns of its own and blocks of this width. */
bool attni_linear_cuts(const struct attni_linear *linear, size_t width);

/* Bytes of scratch that a task takes, aligned to 64; false when that overflows. */
bool attni_linear_scratch(const struct attni_linear *linear, bool in_place,
                          size_t *n_bytes);

/* Independent tasks, and one of them. The cut does not change a bit of y. */
size_t attni_linear_n_tasks(const struct attni_product *product);
void attni_linear_run(const struct attni_product *product, size_t task, void *scratch);

#endif
