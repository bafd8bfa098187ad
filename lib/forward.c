/* forward.c - run a plan of outputs, once or draw after draw. Coordinates; every loop over numbers is
 * elsewhere. The plan is read-only, so one may run on many threads at once. */
#include "kept.h"
#include "lay_out.h"
#include "moments.h"
#include "run.h"
#include "status.h"

/* One forward under way. */
struct forward {
    struct attni_run run;
    float *const *outputs;
    size_t draw;
};

/* ---- one draw ------------------------------------------------------------------------------ */

static void compute(struct forward *forward)
{
    struct attni_run *run = &forward->run;
    const attn_plan *plan = run->plan;
    run->out = attni_run_memory(run, 0, forward->draw, forward->outputs);
    run->attention = attni_run_memory(run, 1, forward->draw, forward->outputs);
    if (plan->layer->spec.scores_only) {
        attni_run_scores(run);
        return;
    }
    if (!run->out && !run->attention) {
        return;
    }
    run->core.dropout.seed = plan->mode.seed + forward->draw;
    attni_run_attend(run);
    for (size_t i = 0; run->out && i < ATTNI_N_POSTS; i++) {
        attni_run_post(run, (enum attni_post_owner)i, run->out, forward->draw,
                       forward->outputs);
    }
}

/* ---- draw after draw ----------------------------------------------------------------------- */

struct moments_step {
    struct attni_moments moments;
    size_t draw;
    const float *values;
    float *mean, *variance;
};

static void add_task(void *argument, size_t task, size_t worker)
{
    const struct moments_step *step = argument;
    (void)worker;
    attni_moments_add(&step->moments, step->draw, step->values, task);
}

static void finish_task(void *argument, size_t task, size_t worker)
{
    const struct moments_step *step = argument;
    (void)worker;
    attni_moments_finish(&step->moments, step->draw, step->mean, step->variance, task);
}

/* What is gathered of an output, main (0) or probabilities (1); n = 0: nothing is asked for. */
static struct moments_step moments_of(const struct forward *forward, size_t which)
{
    const attn_plan *plan = forward->run.plan;
    enum attni_result_kind kind = which ? ATTNI_ATTENTION_MOMENT : ATTNI_MAIN_MOMENT;
    float *memory[ATTNI_N_MOMENTS];
    for (size_t i = 0; i < ATTNI_N_MOMENTS; i++) {
        memory[i] = attni_plan_memory(plan, kind, i, forward->outputs);
    }
    struct moments_step step = {.draw = forward->draw,
                                .mean = memory[ATTNI_DRAWS_MEAN],
                                .variance = memory[ATTNI_DRAWS_VARIANCE]};
    if (step.mean || step.variance) {
        double *doubles =
            (double *)(void *)(forward->run.scratch + plan->moments_at[which]);
        step.moments.n = plan->n_values[which];
        step.moments.mean = doubles;
        step.moments.squares = doubles + step.moments.n;
    }
    return step;
}

static void gather(const struct forward *forward)
{
    const float *values[] = {forward->run.out, forward->run.attention};
    for (size_t which = 0; which < 2; which++) {
        struct moments_step step = moments_of(forward, which);
        step.values = values[which];
        attni_run_spread(forward->run.parallel, attni_moments_n_tasks(&step.moments),
                         add_task, &step);
    }
}

static void run_draws(struct forward *forward)
{
    const attn_plan *plan = forward->run.plan;
    for (forward->draw = 0; forward->draw < plan->mode.n_draws; forward->draw++) {
        compute(forward);
        gather(forward);
        /* another draw needs no other queries, keys and values */
        forward->run.projected = attni_lay_out_is_one_round(plan);
    }
    for (size_t which = 0; which < 2; which++) {
        struct moments_step step = moments_of(forward, which);
        attni_run_spread(forward->run.parallel, attni_moments_n_tasks(&step.moments),
                         finish_task, &step);
    }
}

enum attn_status attn_forward(const attn_plan *plan, float *const *outputs, void *scratch,
                              const struct attn_parallel *parallel,
                              struct attn_error *error)
{
    struct forward forward = {.outputs = outputs};
    if (plan->mode.gradient) {
        return attni_fail(error, ATTN_INVALID, "plan",
                          "a plan of gradients is for attn_backward");
    }
    enum attn_status status =
        attni_run_start(&forward.run, plan, parallel, scratch, error);
    if (status) {
        return status;
    }
    if (plan->mode.n_draws > 0) {
        run_draws(&forward);
    } else {
        compute(&forward);
    }
    attni_kept_commit(plan);
    return ATTN_OK;
}
