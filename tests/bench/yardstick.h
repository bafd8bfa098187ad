/* yardstick.h - a case computed as one would write it with a matrix library and a loop. */
#ifndef TESTS_BENCH_YARDSTICK_H
#define TESTS_BENCH_YARDSTICK_H

#include "bench/pool.h"
#include "bench/problem.h"

struct yardstick;

/* The problem and the pool must outlive it; workers of the pool: n_workers. */
struct yardstick *yardstick_create(const struct problem *problem, struct pool *pool,
                                   size_t n_workers);
void yardstick_free(struct yardstick *yardstick);

/* One forward into out, [B, Q, D]. */
void yardstick_run(struct yardstick *yardstick, float *out);

/* The kernels that the matrix library has chosen, as it calls them. Static. */
const char *yardstick_blas(void);

#endif
