/* blas.h - the matrix library, loaded where the processor has no kernels of ours: it is large, and
 * starts threads as it comes. */
#ifndef ATTNI_BLAS_H
#define ATTNI_BLAS_H

#include <stdbool.h>

struct attni_blas {
    const char *name; /* as it describes itself; static */
    /* c = a b^T + beta c, or a b where b_plain: row-major, a [m, k], b [n, k] or [k, n], c [m, n]. On
     * the calling thread alone; any thread. */
    void (*multiply)(bool b_plain, int m, int n, int k, const float *a, const float *b,
                     float beta, float *c);
};

/* Loaded at the first call; NULL: the machine has none. Any thread. */
const struct attni_blas *attni_blas(void);

#endif
