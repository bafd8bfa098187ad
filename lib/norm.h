/* norm.h - what normalisations share forward and backward: the statistics of columns.
 *
 * They are summed in double: two neighbouring positions may differ by little, and what is lost in
 * their mean is magnified by the division. */
#ifndef ATTNI_NORM_H
#define ATTNI_NORM_H

#include "post.h"

#define ATTNI_NORM_EPSILON 1e-6

/* Columns side by side, each normalised by itself: n elements of each of n_features neighbours (at most
 * ATTNI_POST_BLOCK), from one to the next stride floats. */
struct attni_columns {
    size_t n, stride, n_features;
    double divisor; /* of the variance: n, or n - 1 for an unbiased one */
};

struct attni_statistics {
    double mean[ATTNI_POST_BLOCK], variance[ATTNI_POST_BLOCK];
    double factor[ATTNI_POST_BLOCK]; /* 1 / sqrt(variance + epsilon) */
};

void attni_statistics_of(const struct attni_columns *columns, const float *x,
                         struct attni_statistics *statistics);

#endif
