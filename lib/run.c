/* run.c - a call's memory and its spreading over workers. A run belongs to one thread; its tasks to
 * any. */
#include "run.h"

#include "edges.h"
#include "kept.h"
#include "post.h"
#include "scores.h"
#include "status.h"

#include <stdint.h>

void attni_run_spread(const struct attn_parallel *parallel, size_t n_tasks,
                      attn_task *task, void *argument)
{
    if (parallel && n_tasks > 1) {
        parallel->run(parallel->context, n_tasks, task, argument);
        return;
    }
    for (size_t i = 0; i < n_tasks; i++) {
        task(argument, i, 0);
    }
}

float *attni_run_floats(const struct attni_run *run, size_t at)
{
    return (float *)(void *)(run->scratch + at);
}

unsigned char *attni_run_worker(const struct attni_run *run, size_t worker)
{
    return run->workers + worker * run->worker_bytes;
}

/* ---- products ------------------------------------------------------------------------------ */

size_t attni_products_count(struct attni_products *list)
{
    size_t n_tasks = 0;
    for (size_t i = 0; i < list->n; i++) {
        list->n_tasks[i] = attni_linear_n_tasks(&list->items[i]);
        n_tasks += list->n_tasks[i];
    }
    return n_tasks;
}

void attni_products_task(const struct attni_products *list, size_t task, void *scratch)
{
    size_t i = 0;
    while (task >= list->n_tasks[i]) {
        task -= list->n_tasks[i++];
    }
    attni_linear_run(&list->items[i], task, scratch);
}

static void product_task(void *argument, size_t task, size_t worker)
{
    const struct attni_products *list = argument;
    attni_products_task(list, task,
                        attni_run_worker(list->run, worker) + list->run->plan->linear_at);
}

void attni_run_products(struct attni_products *list)
{
    attni_run_spread(list->run->parallel, attni_products_count(list), product_task, list);
}

/* ---- draws --------------------------------------------------------------------------------- */

static enum attn_status check_draws(const attn_plan *plan, enum attni_role role,
                                    const char *name, struct attn_error *error)
{
    const struct attn_tensor *draws = &plan->inputs[role];
    size_t n = 0, bad = 0;
    if (!plan->given[role]) {
        return ATTN_OK;
    }
    enum attn_status status = attn_tensor_count(draws, &n);
    if (status || attni_dropout_check(draws->data, n, &bad)) {
        return status;
    }
    return attni_fail(error, ATTN_RANGE, name,
                      "input '%s': element %zu: expected at least 0 and less than 1, got "
                      "%g",
                      name, bad, (double)((const float *)draws->data)[bad]);
}

static enum attn_status check_all_draws(const attn_plan *plan, struct attn_error *error)
{
    enum attn_status status =
        check_draws(plan, ATTNI_DROPOUT_UNIFORM, "dropout_uniform", error);
    for (size_t i = 0; status == ATTN_OK && i < ATTNI_N_POSTS; i++) {
        status = check_draws(plan, (enum attni_role)(ATTNI_POST_UNIFORM + i),
                             plan->layer->port_names.uniform[i], error);
    }
    return status;
}

struct attni_dropout attni_run_post_draws(const attn_plan *plan,
                                          enum attni_post_owner owner, size_t draw)
{
    const struct attni_post *posts = plan->layer->posts;
    size_t role = ATTNI_POST_UNIFORM + (size_t)owner;
    size_t width = attni_spec_output_width(&plan->layer->spec);
    return (struct attni_dropout){
        .probability = posts[owner].spec.probability,
        .seed = plan->mode.seed + draw,
        .stream = owner == ATTNI_NORMALISATION ? ATTNI_DRAW_NORMALISATION
                                               : ATTNI_DRAW_ACTIVATION,
        .uniform = plan->given[role] ? plan->inputs[role].data : NULL,
        .sample = plan->n_queries * width,
        .row = width};
}

/* The probabilities' own. One map of scores that serves many samples is drawn once. */
static struct attni_dropout draws_of_probabilities(const attn_plan *plan)
{
    const struct attn_tensor *given = &plan->inputs[ATTNI_DROPOUT_UNIFORM];
    size_t head = plan->n_queries * plan->n_keys;
    return (struct attni_dropout){
        .probability = plan->layer->spec.dropout,
        .seed = plan->mode.seed,
        .stream = ATTNI_DRAW_PROBABILITIES,
        .uniform = plan->given[ATTNI_DROPOUT_UNIFORM] ? given->data : NULL,
        .sample = plan->layer->spec.n_heads * head,
        .head = head,
        .row = plan->n_keys};
}

/* ---- the steps after the heads ------------------------------------------------------------- */

static void post_task(void *argument, size_t task, size_t worker)
{
    const struct attni_post_step *step = argument;
    (void)worker;
    attni_post_run(step->post, &step->data, task);
}

struct attni_post_step attni_run_post_step(const attn_plan *plan,
                                           enum attni_post_owner owner, float *data,
                                           size_t draw, float *const *outputs)
{
    return (struct attni_post_step){
        &plan->layer->posts[owner],
        {.data = data,
         .n_samples = plan->n_batch,
         .length = plan->n_queries,
         .first = plan->kept.first,
         .whole = plan->layer->spec.length,
         .width = attni_spec_output_width(&plan->layer->spec),
         .training = plan->mode.training,
         .dropout = attni_run_post_draws(plan, owner, draw),
         .moved_mean = attni_plan_statistic(plan, owner, ATTNI_RUNNING_MEAN, outputs),
         .moved_variance =
             attni_plan_statistic(plan, owner, ATTNI_RUNNING_VARIANCE, outputs)}};
}

void attni_run_post(const struct attni_run *run, enum attni_post_owner owner, float *data,
                    size_t draw, float *const *outputs)
{
    if (run->plan->layer->posts[owner].spec.kind == ATTN_POST_NONE) {
        return;
    }
    struct attni_post_step step =
        attni_run_post_step(run->plan, owner, data, draw, outputs);
    attni_run_spread(run->parallel, attni_post_n_tasks(step.post, &step.data), post_task,
                     &step);
}

/* ---- scores alone -------------------------------------------------------------------------- */

static void scores_task(void *argument, size_t task, size_t worker)
{
    const struct attni_run *run = argument;
    (void)worker;
    attni_scores_run(run->plan, run->out, task);
}

void attni_run_scores(struct attni_run *run)
{
    attni_run_spread(run->parallel, run->out ? attni_scores_n_tasks(run->plan) : 0,
                     scores_task, run);
}

/* ---- start --------------------------------------------------------------------------------- */

static enum attn_status sort_edges(struct attni_run *run, struct attn_error *error)
{
    const attn_plan *plan = run->plan;
    if (plan->n_edges == 0) {
        return ATTN_OK;
    }
    void *parts[4];
    for (size_t i = 0; i < 4; i++) {
        parts[i] = run->scratch + plan->edges_at[i];
    }
    run->core.edges = (struct attni_edges){
        .starts = parts[0], .list = parts[1], .key_starts = parts[2], .by_key = parts[3]};
    return attni_edges_sort(plan, &run->core.edges, error);
}

float *attni_run_memory(const struct attni_run *run, size_t which, size_t draw,
                        float *const *outputs)
{
    const attn_plan *plan = run->plan;
    float *own =
        attni_plan_memory(plan, which ? ATTNI_ATTENTION : ATTNI_MAIN, 0, outputs);
    size_t n = plan->n_values[which];
    if (!plan->computes[which] || n == 0) {
        return NULL;
    }
    return own ? own + draw * n : attni_run_floats(run, plan->draw_at[which]);
}

enum attn_status attni_run_start(struct attni_run *run, const attn_plan *plan,
                                 const struct attn_parallel *parallel, void *scratch,
                                 struct attn_error *error)
{
    uintptr_t misaligned = (uintptr_t)scratch % 64;
    *run = (struct attni_run){.plan = plan,
                              .parallel = parallel,
                              .scratch = (unsigned char *)scratch +
                                         (misaligned ? 64 - misaligned : 0),
                              .worker_bytes = plan->worker_bytes};
    run->workers = run->scratch + plan->shared_bytes;
    run->core.plan = plan;
    run->core.drops = plan->mode.training && plan->layer->spec.dropout > 0;
    run->core.dropout = draws_of_probabilities(plan);
    enum attn_status status = attni_kept_check(plan, error);
    if (status == ATTN_OK) {
        status = check_all_draws(plan, error);
    }
    return status ? status : sort_edges(run, error);
}
