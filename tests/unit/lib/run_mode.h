/* run_mode.h - run a call in any mode, inline, over threads or from odd addresses, and see that
 * nothing beside its outputs and scratch was written: run_call.h for calls with many outputs. */
#ifndef TESTS_UNIT_LIB_RUN_MODE_H
#define TESTS_UNIT_LIB_RUN_MODE_H

#include "plan.h"
#include "unit/lib/run_call.h"

/* The outputs of one run. */
struct outcome {
    size_t n;
    char names[ATTN_MAX_PORTS][ATTN_NAME_SIZE];
    struct attn_tensor tensors[ATTN_MAX_PORTS]; /* their shapes */
    float *values[ATTN_MAX_PORTS];
};

static inline void outcome_free(struct outcome *outcome)
{
    for (size_t i = 0; i < outcome->n; i++) {
        free(outcome->values[i]);
    }
    outcome->n = 0;
}

static inline const float *outcome_find(const struct outcome *outcome, const char *name)
{
    for (size_t i = 0; i < outcome->n; i++) {
        if (strcmp(outcome->names[i], name) == 0) {
            return outcome->values[i];
        }
    }
    ck_abort_msg("no output %s", name);
    return NULL;
}

static inline enum attn_status run_outcome(const attn_plan *plan, enum way way,
                                           struct outcome *outcome,
                                           struct attn_error *error)
{
    struct zone zones[ATTN_MAX_PORTS], scratch;
    float *memory[ATTN_MAX_PORTS];
    size_t n_bytes = 0, n_runs = 0;
    bool threads = way != INLINE && way != SHIFTED;
    const struct attn_parallel parallel = {N_WORKERS, run_threads, &n_runs};
    *outcome = (struct outcome){.n = attn_plan_n_outputs(plan)};
    for (size_t i = 0; i < outcome->n; i++) {
        const struct attn_named_tensor *output = attn_plan_output(plan, i);
        snprintf(outcome->names[i], ATTN_NAME_SIZE, "%s", output->name);
        outcome->tensors[i] = output->tensor;
        zones[i] = make_zone(count_of(&output->tensor) * sizeof(float),
                             way == SHIFTED ? sizeof(float) : 0);
        memory[i] = (float *)(void *)zones[i].data;
    }
    ck_assert_int_eq(attn_plan_scratch(plan, threads ? N_WORKERS : 1, &n_bytes), ATTN_OK);
    scratch = make_zone(n_bytes, way == SHIFTED ? 16 : 0);
    enum attn_status status = (plan->mode.gradient ? attn_backward : attn_forward)(
        plan, memory, scratch.data, threads ? &parallel : NULL, error);
    for (size_t i = 0; i < outcome->n; i++) {
        outcome->values[i] = need_memory(zones[i].n_bytes);
        memcpy(outcome->values[i], zones[i].data, zones[i].n_bytes);
        close_zone(&zones[i]);
    }
    close_zone(&scratch);
    return status;
}

/* Plan and run a call that must succeed. mode NULL: inference; n_names 0: what is not optional. */
static inline struct outcome run_mode(const attn_layer *layer,
                                      const struct attn_mode *mode,
                                      const struct call *call, const char *const *names,
                                      size_t n_names, enum way way)
{
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    struct zone zones[ATTN_MAX_PORTS];
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    struct outcome outcome = {0};
    memcpy(inputs, call->inputs, sizeof inputs);
    if (way == SHIFTED) {
        shift_inputs(call, inputs, zones);
    }
    enum attn_status status =
        attn_plan_create(layer, mode, inputs, call->n, names, n_names, &plan, &error);
    if (status == ATTN_OK && way >= SPARING && !plan->mode.gradient &&
        !plan->layer->spec.scores_only) {
        status = attni_lay_out(plan, way == SPARING ? 2000 : 1, &error);
    }
    if (status == ATTN_OK) {
        status = run_outcome(plan, way, &outcome, &error);
    }
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    attn_plan_free(plan);
    for (size_t i = 0; way == SHIFTED && i < call->n; i++) {
        close_zone(&zones[i]);
    }
    return outcome;
}

static inline void check_same_outcomes(const struct outcome *a, const struct outcome *b,
                                       bool exactly, const char *what)
{
    ck_assert_uint_eq(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        ck_assert_msg(
            is_same(a->values[i], b->values[i], count_of(&a->tensors[i]), exactly),
            "%s differs, run %s", a->names[i], what);
    }
}

/* The same call must give the same bits whoever runs it, wherever its data are, and however much
 * scratch a forward has. */
static inline void check_ways(const attn_layer *layer, const struct attn_mode *mode,
                              const struct call *call, const char *const *names,
                              size_t n_names, const struct outcome *expected)
{
    static const enum way ways[] = {THREADS, SHIFTED, SPARING, NARROW};
    static const char *const texts[] = {"inline", "over threads", "from odd addresses",
                                        "some samples at a time", "head by head"};
    size_t n = mode && mode->gradient ? 2 : COUNT(ways);
    for (size_t k = 0; k < n; k++) {
        struct outcome outcome = run_mode(layer, mode, call, names, n_names, ways[k]);
        check_same_outcomes(&outcome, expected,
                            ways[k] < SPARING || attni_kernels()->packs, texts[ways[k]]);
        outcome_free(&outcome);
    }
}

/* Values within tolerance of the largest expected one (of `least` at least); NaN where NaN is expected
 * and nowhere else. `factor` is what the expected values are to be multiplied by. */
static inline void check_close(const char *what, const float *got, const double *expected,
                               size_t n, double factor, double tolerance, double least)
{
    double largest = least;
    for (size_t i = 0; i < n; i++) {
        double y = expected[i] * factor;
        largest = isfinite(y) ? fmax(largest, fabs(y)) : largest;
    }
    for (size_t i = 0; i < n; i++) {
        double x = (double)got[i], y = expected[i] * factor;
        bool near = isnan(y) ? isnan(x) : x == y || fabs(x - y) <= tolerance * largest;
        if (!near) {
            ck_abort_msg("%s[%zu of %zu]: expected %.9g, got %.9g (largest %.3g)", what,
                         i, n, y, x, largest);
        }
    }
}

#endif
