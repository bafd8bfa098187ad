/* blas.c - OpenBLAS, which no other file knows. Any thread. */
#include "blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* By the name that stays the same as long as its functions do. */
#define LIBRARY "libopenblas.so.0"

/* What is loaded, once for the process. */
static struct {
    struct attni_blas blas;
    __typeof__(&cblas_sgemm) sgemm; /* NULL: there is no library */
    /* Serial builds share work buffers without a lock and give wrong results when several threads call
     * them; then, and only then, calls take turns. */
    bool take_turns;
    pthread_mutex_t turn;
    pthread_once_t once;
} loaded = {.turn = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void multiply(bool b_plain, int m, int n, int k, const float *a, const float *b,
                     float beta, float *c)
{
    if (loaded.take_turns) {
        pthread_mutex_lock(&loaded.turn);
    }
    loaded.sgemm(CblasRowMajor, CblasNoTrans, b_plain ? CblasNoTrans : CblasTrans, m, n,
                 k, 1.0f, a, k, b, b_plain ? n : k, beta, c, n);
    if (loaded.take_turns) {
        pthread_mutex_unlock(&loaded.turn);
    }
}

/* A function of the library; false: it has none of that name. */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, size);
    return address != NULL;
}

/* It is never unloaded: its threads would be left without code. */
static void load(void)
{
    __typeof__(&cblas_sgemm) sgemm = NULL;
    __typeof__(&openblas_set_num_threads) set_num_threads = NULL;
    __typeof__(&openblas_get_parallel) get_parallel = NULL;
    __typeof__(&openblas_get_config) get_config = NULL;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(library, "cblas_sgemm", &sgemm, sizeof sgemm) ||
        !find(library, "openblas_set_num_threads", &set_num_threads,
              sizeof set_num_threads) ||
        !find(library, "openblas_get_parallel", &get_parallel, sizeof get_parallel) ||
        !find(library, "openblas_get_config", &get_config, sizeof get_config)) {
        return;
    }
    set_num_threads(1);
    loaded.take_turns = get_parallel() == OPENBLAS_SEQUENTIAL;
    loaded.sgemm = sgemm;
    loaded.blas = (struct attni_blas){get_config(), multiply};
}

const struct attni_blas *attni_blas(void)
{
    pthread_once(&loaded.once, load);
    return loaded.sgemm ? &loaded.blas : NULL;
}
