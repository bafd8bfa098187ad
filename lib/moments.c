/* moments.c - mean and variance over draws. Any thread; a task's values are its own. */
#include "moments.h"

#include "tensor.h"

/* Values of a task. */
#define SHARE ((size_t)16384)

bool attni_moments_bytes(size_t n, size_t *n_bytes)
{
    return attni_multiply(n, 2 * sizeof(double), n_bytes);
}

size_t attni_moments_n_tasks(const struct attni_moments *moments)
{
    return attni_parts(moments->n, SHARE);
}

static size_t end_of(const struct attni_moments *moments, size_t task)
{
    size_t first = task * SHARE;
    return moments->n - first < SHARE ? moments->n : first + SHARE;
}

void attni_moments_add(const struct attni_moments *moments, size_t draw,
                       const float *values, size_t task)
{
    double *mean = moments->mean, *squares = moments->squares;
    for (size_t i = task * SHARE; i < end_of(moments, task); i++) {
        double value = (double)values[i];
        if (draw == 0) {
            mean[i] = value;
            squares[i] = value - value; /* 0, or NaN where the value is not finite */
            continue;
        }
        double distance = value - mean[i];
        mean[i] += distance / (double)(draw + 1);
        squares[i] += distance * (value - mean[i]);
    }
}

void attni_moments_finish(const struct attni_moments *moments, size_t n_draws,
                          float *mean, float *variance, size_t task)
{
    for (size_t i = task * SHARE; i < end_of(moments, task); i++) {
        if (mean) {
            mean[i] = (float)moments->mean[i];
        }
        if (variance) {
            variance[i] = (float)(moments->squares[i] / (double)n_draws);
        }
    }
}
