/* run_call.h - run a call inline, over threads, or from odd addresses, and see that nothing beside
 * its outputs and scratch was written. */
#ifndef TESTS_UNIT_LIB_RUN_CALL_H
#define TESTS_UNIT_LIB_RUN_CALL_H

#include "kernels/kernels.h"
#include "lay_out.h"
#include "unit/lib/layers.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

enum way {
    INLINE,  /* no threads, addresses as malloc gives them */
    THREADS, /* three of them */
    SHIFTED, /* inline, every address aligned for an element and no more */
    SPARING, /* over threads, with scratch for some samples at a time */
    NARROW   /* over threads, with the least scratch: head by head */
};

/* ---- threads ------------------------------------------------------------------------------- */

#define N_WORKERS 3

struct crew {
    size_t n_tasks;
    attn_task *task;
    void *argument;
    atomic_size_t next;
};

struct worker {
    pthread_t thread;
    struct crew *crew;
    size_t index;
};

static inline void *work(void *argument)
{
    const struct worker *worker = argument;
    struct crew *crew = worker->crew;
    for (size_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->n_tasks;) {
        crew->task(crew->argument, i, worker->index);
    }
    return NULL;
}

/* An attn_parallel's run; *context counts the calls. */
static inline void run_threads(void *context, size_t n_tasks, attn_task *task,
                               void *argument)
{
    struct crew crew = {.n_tasks = n_tasks, .task = task, .argument = argument};
    struct worker workers[N_WORKERS];
    ++*(size_t *)context;
    for (size_t i = 0; i < N_WORKERS; i++) {
        workers[i].crew = &crew;
        workers[i].index = i;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < N_WORKERS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
}

/* ---- memory -------------------------------------------------------------------------------- */

#define GUARD_BYTES 64

/* n_bytes between two zones whose bytes are known; as floats NaN until written. */
struct zone {
    unsigned char *base, *data;
    size_t n_bytes;
};

static inline struct zone make_zone(size_t n_bytes, size_t shift)
{
    struct zone zone = {.n_bytes = n_bytes};
    zone.base = need_memory(n_bytes + shift + 2 * GUARD_BYTES);
    zone.data = zone.base + GUARD_BYTES + shift;
    memset(zone.base, 0xff, n_bytes + shift + 2 * GUARD_BYTES);
    return zone;
}

static inline void close_zone(struct zone *zone)
{
    bool intact = true;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        intact = intact && zone->base[i] == 0xff && zone->data[zone->n_bytes + i] == 0xff;
    }
    ck_assert(intact);
    free(zone->base);
}

/* The inputs at addresses that are one element past an aligned one. */
static inline void shift_inputs(const struct call *call, struct attn_named_tensor *inputs,
                                struct zone *zones)
{
    for (size_t i = 0; i < call->n; i++) {
        size_t element = attn_dtype_size(call->inputs[i].tensor.dtype);
        size_t n_bytes = count_of(&call->inputs[i].tensor) * element;
        zones[i] = make_zone(n_bytes, element);
        if (n_bytes) {
            memcpy(zones[i].data, call->data[i], n_bytes);
        }
        inputs[i] = call->inputs[i];
        inputs[i].tensor.data = zones[i].data;
    }
}

/* ---- a call -------------------------------------------------------------------------------- */

struct results {
    size_t n;
    float *outputs[2];
    struct attn_tensor tensors[2]; /* their shapes */
};

static inline void results_free(struct results *results)
{
    for (size_t i = 0; i < results->n; i++) {
        free(results->outputs[i]);
    }
    results->n = 0;
}

/* Run a plan; results has its outputs' shapes on return, and their values on ATTN_OK. */
static inline enum attn_status run_plan(const attn_plan *plan, enum way way,
                                        struct results *results, struct attn_error *error)
{
    struct zone zones[2], scratch;
    float *memory[2];
    size_t n_bytes = 0, n_runs = 0;
    bool threads = way != INLINE && way != SHIFTED;
    const struct attn_parallel parallel = {N_WORKERS, run_threads, &n_runs};
    *results = (struct results){.n = attn_plan_n_outputs(plan)};
    for (size_t i = 0; i < results->n; i++) {
        results->tensors[i] = attn_plan_output(plan, i)->tensor;
        zones[i] = make_zone(count_of(&results->tensors[i]) * sizeof(float),
                             way == SHIFTED ? sizeof(float) : 0);
        memory[i] = (float *)(void *)zones[i].data;
    }
    ck_assert_int_eq(attn_plan_scratch(plan, threads ? N_WORKERS : 1, &n_bytes), ATTN_OK);
    scratch = make_zone(n_bytes, way == SHIFTED ? 16 : 0);
    enum attn_status status =
        attn_forward(plan, memory, scratch.data, threads ? &parallel : NULL, error);
    for (size_t i = 0; i < results->n; i++) {
        results->outputs[i] = need_memory(zones[i].n_bytes);
        memcpy(results->outputs[i], zones[i].data, zones[i].n_bytes);
        close_zone(&zones[i]);
    }
    close_zone(&scratch);
    return status;
}

/* Plan and run a call that must succeed. */
static inline struct results run_call(const attn_layer *layer, const struct call *call,
                                      const char *const *names, size_t n_names,
                                      enum way way)
{
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    struct zone zones[ATTN_MAX_PORTS];
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    struct results results = {0};
    memcpy(inputs, call->inputs, sizeof inputs);
    if (way == SHIFTED) {
        shift_inputs(call, inputs, zones);
    }
    enum attn_status status =
        attn_plan_create(layer, NULL, inputs, call->n, names, n_names, &plan, &error);
    if (status == ATTN_OK && way >= SPARING && !plan->layer->spec.scores_only) {
        status = attni_lay_out(plan, way == SPARING ? 2000 : 1, &error);
    }
    if (status == ATTN_OK) {
        status = run_plan(plan, way, &results, &error);
    }
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    attn_plan_free(plan);
    for (size_t i = 0; way == SHIFTED && i < call->n; i++) {
        close_zone(&zones[i]);
    }
    return results;
}

/* The same bits; or nearly so, where projections of other numbers of rows go through BLAS. */
static inline bool is_same(const float *a, const float *b, size_t n, bool exactly)
{
    bool same = memcmp(a, b, n * sizeof *a) == 0;
    for (size_t i = 0; !same && !exactly; i++) {
        if (i == n) {
            return true;
        }
        if (!(fabsf(a[i] - b[i]) <= 1e-4F * (1 + fabsf(b[i]))) &&
            !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return same;
}

/* The same call must give the same bits whoever runs it, and wherever its data are. */
static inline void check_same_bits(const attn_layer *layer, const struct call *call,
                                   const char *const *names, size_t n_names,
                                   const struct results *expected)
{
    static const enum way ways[] = {THREADS, SHIFTED, SPARING, NARROW};
    static const char *const texts[] = {"inline", "over threads", "from odd addresses",
                                        "some samples at a time", "head by head"};
    for (size_t w = 0; w < COUNT(ways); w++) {
        struct results results = run_call(layer, call, names, n_names, ways[w]);
        for (size_t i = 0; i < results.n; i++) {
            bool exactly = ways[w] < SPARING || attni_kernels()->packs;
            ck_assert_msg(is_same(results.outputs[i], expected->outputs[i],
                                  count_of(&results.tensors[i]), exactly),
                          "output %zu differs, run %s", i, texts[ways[w]]);
        }
        results_free(&results);
    }
}

#endif
