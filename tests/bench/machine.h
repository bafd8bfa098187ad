/* machine.h - what this machine could do at best, measured. */
#ifndef TESTS_BENCH_MACHINE_H
#define TESTS_BENCH_MACHINE_H

#include "bench/pool.h"

/* Floating-point operations a second of multiply-adds that never leave the registers, with the
 * vectors that the library's chosen kernels use, on every worker of the pool at once: the best of
 * many runs that take about run_us each, measured for about so many seconds. A shared machine takes
 * its part of every long run, so runs of a length are what can be compared. */
double machine_flops(struct pool *pool, size_t n_workers, double run_us, double seconds);

/* Bytes a second that one thread reads from a buffer of this size, again and again. */
double machine_read_bandwidth(size_t n_bytes);

#endif
