/* many_calls.h - calls to one layer, run one by one and in one pass, and what they give. */
#ifndef TESTS_UNIT_LIB_MANY_CALLS_H
#define TESTS_UNIT_LIB_MANY_CALLS_H

#include "unit/lib/layers.h"

#define MOST_CALLS 12

/* An attn_parallel's run: every task, from the last to the first, by workers in turn. */
static inline void run_backwards(void *context, size_t n_tasks, attn_task *task,
                                 void *argument)
{
    size_t n_workers = *(const size_t *)context;
    while (n_tasks-- > 0) {
        task(argument, n_tasks, n_tasks % n_workers);
    }
}

/* Memory of the outputs of each plan, NaN until written. */
struct outputs {
    size_t n;
    float *memory[MOST_CALLS][ATTN_MAX_PORTS];
    float *const *of[MOST_CALLS];
};

static inline size_t output_count(const attn_plan *plan, size_t index)
{
    return count_of(&attn_plan_output(plan, index)->tensor);
}

static inline struct outputs *outputs_make(attn_plan *const *plans, size_t n)
{
    struct outputs *outputs = need_memory(sizeof *outputs);
    memset(outputs, 0, sizeof *outputs);
    outputs->n = n;
    for (size_t p = 0; p < n; p++) {
        for (size_t i = 0; i < attn_plan_n_outputs(plans[p]); i++) {
            size_t n_bytes = output_count(plans[p], i) * sizeof(float);
            outputs->memory[p][i] = need_memory(n_bytes);
            memset(outputs->memory[p][i], 0xff, n_bytes);
        }
        outputs->of[p] = outputs->memory[p];
    }
    return outputs;
}

static inline void outputs_free(struct outputs *outputs)
{
    for (size_t p = 0; p < outputs->n; p++) {
        for (size_t i = 0; i < ATTN_MAX_PORTS; i++) {
            free(outputs->memory[p][i]);
        }
    }
    free(outputs);
}

/* Each plan by itself. */
static inline struct outputs *run_alone(attn_plan *const *plans, size_t n,
                                        struct attn_error *errors)
{
    struct outputs *outputs = outputs_make(plans, n);
    for (size_t p = 0; p < n; p++) {
        size_t n_bytes = 0;
        ck_assert(!attn_plan_scratch(plans[p], 1, &n_bytes));
        void *scratch = need_memory(n_bytes);
        enum attn_status status =
            attn_forward(plans[p], outputs->of[p], scratch, NULL, &errors[p]);
        ck_assert_int_eq(status, errors[p].status);
        free(scratch);
    }
    return outputs;
}

/* All in one pass; n_workers 0: inline. */
static inline struct outputs *run_joined(attn_plan *const *plans, size_t n,
                                         size_t n_workers, struct attn_error *errors)
{
    struct outputs *outputs = outputs_make(plans, n);
    const attn_plan *list[MOST_CALLS];
    size_t n_bytes = 0;
    const struct attn_parallel parallel = {n_workers, run_backwards, &n_workers};
    memcpy(list, plans, n * sizeof *list);
    ck_assert(!attn_many_scratch(list, n, n_workers ? n_workers : 1, &n_bytes));
    void *scratch = need_memory(n_bytes);
    memset(scratch, 0xff, n_bytes);
    attn_forward_many(list, n, outputs->of, scratch, n_workers ? &parallel : NULL,
                      errors);
    free(scratch);
    return outputs;
}

static inline void check_same_outputs(attn_plan *const *plans, const struct outputs *a,
                                      const struct outputs *b,
                                      const struct attn_error *errors, const char *what)
{
    for (size_t p = 0; p < a->n; p++) {
        for (size_t i = 0; !errors[p].status && i < attn_plan_n_outputs(plans[p]); i++) {
            size_t n_bytes = output_count(plans[p], i) * sizeof(float);
            ck_assert_msg(memcmp(a->memory[p][i], b->memory[p][i], n_bytes) == 0,
                          "%s: output %s of call %zu differs", what,
                          attn_plan_output(plans[p], i)->name, p);
        }
    }
}

/* The plans give the same bits, and the same errors, in any company. */
static inline void check_joined(attn_plan *const *plans, size_t n)
{
    static const size_t workers[] = {0, 1, 3};
    struct attn_error alone_errors[MOST_CALLS] = {{0}};
    struct outputs *alone = run_alone(plans, n, alone_errors);
    for (size_t w = 0; w < COUNT(workers); w++) {
        char what[32];
        struct attn_error errors[MOST_CALLS] = {{0}};
        struct outputs *joined = run_joined(plans, n, workers[w], errors);
        snprintf(what, sizeof what, "%zu workers", workers[w]);
        for (size_t p = 0; p < n; p++) {
            ck_assert_int_eq(errors[p].status, alone_errors[p].status);
            ck_assert_str_eq(errors[p].message, alone_errors[p].message);
        }
        check_same_outputs(plans, joined, alone, errors, what);
        outputs_free(joined);
    }
    outputs_free(alone);
}

#endif
