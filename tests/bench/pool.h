/* pool.h - threads that stay, as a caller of the library has them: its parallel_for. */
#ifndef TESTS_BENCH_POOL_H
#define TESTS_BENCH_POOL_H

#include "attention.h"

struct pool;

/* n_workers in all: the caller of a run is worker 0, the others are threads of the pool. */
struct pool *pool_create(size_t n_workers);
void pool_free(struct pool *pool);

/* For attn_forward; lives as long as the pool. One caller at a time. */
const struct attn_parallel *pool_parallel(struct pool *pool);

#endif
