/* moments.h - mean and variance of what draws give, gathered draw by draw. */
#ifndef ATTNI_MOMENTS_H
#define ATTNI_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Of n values each: their means so far, and the sums of squared distances from them. In double: the
 * more draws there are, the less each adds. */
struct attni_moments {
    double *mean, *squares;
    size_t n;
};

/* Bytes of both arrays for n values; false when that overflows. */
bool attni_moments_bytes(size_t n, size_t *n_bytes);

/* Tasks of equal size, of which one takes up (or gives out) some of the values. Any thread. */
size_t attni_moments_n_tasks(const struct attni_moments *moments);

/* Add draw number `draw`, counted from 0: the first one starts anew. (Welford, Technometrics 4:3,
 * 1962.) */
void attni_moments_add(const struct attni_moments *moments, size_t draw,
                       const float *values, size_t task);

/* The mean and the population variance of n_draws draws; either may be NULL. */
void attni_moments_finish(const struct attni_moments *moments, size_t n_draws,
                          float *mean, float *variance, size_t task);

#endif
