/* linear.c - projections by BLAS; the only file that knows which. Any thread; weights are shared,
 * results belong to the caller. */
#include "linear.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Serial builds of OpenBLAS share work buffers without a lock and give wrong results when several
 * threads call them; then, and only then, calls take turns. */
static pthread_mutex_t serial_turn = PTHREAD_MUTEX_INITIALIZER;

static void run_single_threaded(void)
{
    openblas_set_num_threads(1);
}

void attni_linear_start(void)
{
    pthread_once(&started, run_single_threaded);
}

const char *attn_blas_name(void)
{
    return openblas_get_config();
}

void attni_linear_apply(const struct attni_linear *linear, size_t n_rows, const float *x,
                        float *y)
{
    assert(n_rows <= INT_MAX && linear->n_in <= INT_MAX && linear->n_out <= INT_MAX);
    if (n_rows == 0) {
        return;
    }
    if (linear->bias) {
        for (size_t r = 0; r < n_rows; r++) {
            memcpy(y + r * linear->n_out, linear->bias, linear->n_out * sizeof *y);
        }
    }
    bool take_turns = openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
    if (take_turns) {
        pthread_mutex_lock(&serial_turn);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, linear->in_out ? CblasNoTrans : CblasTrans,
                (blasint)n_rows, (blasint)linear->n_out, (blasint)linear->n_in, 1.0f, x,
                (blasint)linear->n_in, linear->weight,
                (blasint)(linear->in_out ? linear->n_out : linear->n_in),
                linear->bias ? 1.0f : 0.0f, y, (blasint)linear->n_out);
    if (take_turns) {
        pthread_mutex_unlock(&serial_turn);
    }
}
