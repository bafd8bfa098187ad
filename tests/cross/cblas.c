/* cblas.c - c = alpha a b + beta c as its formula says it, row-major, a as it is. */
#include <cblas.h>

void openblas_set_num_threads(int n)
{
    (void)n;
}

int openblas_get_parallel(void)
{
    return OPENBLAS_THREAD;
}

char *openblas_get_config(void)
{
    static char config[] = "plain loops, for tests";
    return config;
}

void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a,
                 enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n, blasint k,
                 float alpha, const float *a, blasint a_stride, const float *b,
                 blasint b_stride, float beta, float *c, blasint c_stride)
{
    (void)order;
    (void)transpose_a;
    for (blasint i = 0; i < m; i++) {
        for (blasint j = 0; j < n; j++) {
            float sum = 0, *at = c + (long)i * c_stride + j;
            for (blasint d = 0; d < k; d++) {
                sum += a[(long)i * a_stride + d] * (transpose_b == CblasTrans
                                                        ? b[(long)j * b_stride + d]
                                                        : b[(long)d * b_stride + j]);
            }
            /* beta 0 means that c is not read: it may be anything */
            *at = alpha * sum + (beta == 0 ? 0 : beta * *at);
        }
    }
}
