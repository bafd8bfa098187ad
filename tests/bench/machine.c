/* machine.c - the limits that figures are held against. One thread, but for the pool's. */
#include "bench/machine.h"

#include "bench/cases.h"
#include "bench/timing.h"

#include <stdlib.h>
#include <string.h>

#define VECTOR_BYTES 16
#define TARGET
#define LOOP(name) plain_##name
#include "bench/machine_loops.h"
#undef VECTOR_BYTES
#undef TARGET
#undef LOOP

#if defined(__x86_64__)
#define VECTOR_BYTES 32
#define TARGET __attribute__((target("avx2,fma")))
#define LOOP(name) avx2_##name
#include "bench/machine_loops.h"
#undef VECTOR_BYTES
#undef TARGET
#undef LOOP

#define VECTOR_BYTES 64
#define TARGET __attribute__((target("avx512f")))
#define LOOP(name) avx512_##name
#include "bench/machine_loops.h"
#undef VECTOR_BYTES
#undef TARGET
#undef LOOP
#endif

struct loops {
    const char *prefix; /* of the name of the kernels */
    double (*multiply_add)(size_t n);
    void (*read)(const float *data, size_t n);
};

/* The loops with the vectors that the chosen kernels use; the last one fits all others. */
static const struct loops *loops(void)
{
    static const struct loops all[] = {
#if defined(__x86_64__)
        {"avx512", avx512_multiply_add, avx512_read},
        {"avx2", avx2_multiply_add, avx2_read},
#endif
        {"", plain_multiply_add, plain_read},
    };
    const struct loops *found = all;
    while (strncmp(attn_kernels_name(), found->prefix, strlen(found->prefix)) != 0) {
        found++;
    }
    return found;
}

/* Enough to tell how long a step takes. */
#define TRIAL_STEPS 20000

struct limit {
    const struct loops *loops;
    struct pool *pool;
    size_t n_workers, n_steps;
    double flop; /* of one worker */
    const float *data;
    size_t n;
};

static void multiply_add_task(void *argument, size_t task, size_t worker)
{
    struct limit *limit = argument;
    (void)worker;
    double flop = limit->loops->multiply_add(limit->n_steps);
    if (task == 0) {
        limit->flop = flop;
    }
}

static void multiply_add_run(void *argument)
{
    struct limit *limit = argument;
    const struct attn_parallel *parallel = pool_parallel(limit->pool);
    parallel->run(parallel->context, limit->n_workers, multiply_add_task, limit);
}

double machine_flops(struct pool *pool, size_t n_workers, double run_us, double seconds)
{
    struct limit limit = {
        .loops = loops(), .pool = pool, .n_workers = n_workers, .n_steps = TRIAL_STEPS};
    struct timing timing = time_it(0.01, multiply_add_run, &limit);
    limit.n_steps = (size_t)(TRIAL_STEPS * run_us / timing.min_us) + 1;
    timing = time_it(seconds, multiply_add_run, &limit);
    return limit.flop * (double)n_workers / (1e-6 * timing.min_us);
}

static void read_run(void *argument)
{
    const struct limit *limit = argument;
    limit->loops->read(limit->data, limit->n);
}

double machine_read_bandwidth(size_t n_bytes)
{
    size_t rounded = (n_bytes + 511) / 512 * 512;
    float *data = attn_alloc(rounded);
    if (!data) {
        die("out of memory");
    }
    memset(data, 0, rounded);
    struct limit limit = {.loops = loops(), .data = data, .n = rounded / sizeof(float)};
    struct timing timing = time_it(0.1, read_run, &limit);
    attn_free(data);
    return (double)rounded / (1e-6 * timing.min_us);
}
