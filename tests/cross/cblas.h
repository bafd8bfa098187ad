/* cblas.h - as much of OpenBLAS as the library uses, for machines that we only cross compile for. */
#ifndef TESTS_CROSS_CBLAS_H
#define TESTS_CROSS_CBLAS_H

typedef int blasint;
enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };
enum { OPENBLAS_SEQUENTIAL = 0, OPENBLAS_THREAD = 1 };

void openblas_set_num_threads(int n);
int openblas_get_parallel(void);
char *openblas_get_config(void);
void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a,
                 enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n, blasint k,
                 float alpha, const float *a, blasint a_stride, const float *b,
                 blasint b_stride, float beta, float *c, blasint c_stride);

#endif
