/* forward.c - run a plan: project, attend, join, normalise, activate. Coordinates; every loop over
 * numbers is elsewhere. The plan is read-only, so one may run on many threads at once. */
#include "core.h"
#include "edges.h"
#include "plan.h"
#include "post.h"
#include "scores.h"
#include "status.h"

#include <stdint.h>

/* One forward under way. */
struct forward {
    const attn_plan *plan;
    const struct attn_parallel *parallel;
    unsigned char *scratch;
    float *out;       /* the main output; NULL: not wanted */
    float *attention; /* NULL: not wanted */
    struct attni_core core;
};

static void spread(const struct attn_parallel *parallel, size_t n_tasks, attn_task *task,
                   void *argument)
{
    if (parallel && n_tasks > 1) {
        parallel->run(parallel->context, n_tasks, task, argument);
        return;
    }
    for (size_t i = 0; i < n_tasks; i++) {
        task(argument, i, 0);
    }
}

/* ---- projections --------------------------------------------------------------------------- */

/* A list of matrices whose rows are to be projected, cut into tasks one after the other. */
struct projections {
    struct {
        const struct attni_linear *linear;
        const float *x;
        float *y;
        size_t n_rows;
        size_t n_tasks;
    } items[3];
    size_t n;
};

static size_t add_projection(struct projections *list, const struct attni_linear *linear,
                             const float *x, float *y, size_t n_rows)
{
    size_t n_tasks = attni_linear_n_tasks(linear, n_rows);
    list->items[list->n].linear = linear;
    list->items[list->n].x = x;
    list->items[list->n].y = y;
    list->items[list->n].n_rows = n_rows;
    list->items[list->n++].n_tasks = n_tasks;
    return n_tasks;
}

static void projection_task(void *argument, size_t task, size_t worker)
{
    const struct projections *list = argument;
    (void)worker;
    size_t i = 0;
    while (task >= list->items[i].n_tasks) {
        task -= list->items[i++].n_tasks;
    }
    attni_linear_run(list->items[i].linear, list->items[i].n_rows, list->items[i].x,
                     list->items[i].y, task);
}

/* Rows of heads laid out [batch, length, heads * width] with row_floats a row. */
static struct attni_rows rows_of(const float *data, size_t batch, size_t length,
                                 size_t row_floats, size_t width)
{
    return (struct attni_rows){.data = data,
                               .batch = batch == 1 ? 0 : length * row_floats,
                               .row = row_floats,
                               .head = width};
}

/* Queries, keys and values as the core reads them: projected into scratch, or as they came. */
static void project_inputs(struct forward *run)
{
    const attn_plan *plan = run->plan;
    size_t n_heads = plan->layer->spec.n_heads;
    struct attni_rows *rows[] = {&run->core.query, &run->core.key, &run->core.value};
    const size_t lengths[] = {plan->n_queries, plan->n_keys, plan->n_keys};
    const size_t widths[] = {plan->head_width, plan->head_width, plan->value_width};
    const size_t places[] = {plan->query_at, plan->key_at, plan->value_at};
    struct projections list = {.n = 0};
    size_t n_tasks = 0, column = 0;
    for (size_t i = 0; i < 3; i++) {
        const struct attni_linear *linear = attni_plan_projection(plan, i);
        bool fused = linear == &plan->layer->fused;
        const float *data = plan->inputs[i].data;
        size_t row_floats = n_heads * widths[i];
        if (linear->weight) {
            float *y =
                (float *)(void *)(run->scratch + (fused ? plan->query_at : places[i]));
            if (!fused || i == 0) {
                n_tasks +=
                    add_projection(&list, linear, data, y, plan->batch[i] * lengths[i]);
            }
            data = fused ? y + column : y;
            column += row_floats;
            row_floats = linear->n_out;
        }
        *rows[i] = rows_of(data, plan->batch[i], lengths[i], row_floats, widths[i]);
    }
    spread(run->parallel, n_tasks, projection_task, &list);
}

/* ---- the stages ---------------------------------------------------------------------------- */

static enum attn_status sort_edges(struct forward *run, struct attn_error *error)
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

static void core_task(void *argument, size_t task, size_t worker)
{
    const struct forward *run = argument;
    const attn_plan *plan = run->plan;
    attni_core_run(&run->core, task,
                   run->scratch + plan->shared_bytes + worker * plan->worker_bytes);
}

static void attend(struct forward *run)
{
    const attn_plan *plan = run->plan;
    bool projected = plan->layer->output.weight != NULL;
    float *context =
        projected ? (float *)(void *)(run->scratch + plan->context_at) : run->out;
    run->core.plan = plan;
    size_t row = plan->layer->spec.n_heads * plan->value_width;
    run->core.context.data = run->out ? context : NULL;
    run->core.context.batch = plan->n_queries * row;
    run->core.context.row = row;
    run->core.context.head = plan->value_width;
    run->core.probabilities = run->attention;
    spread(run->parallel, attni_core_n_tasks(&run->core), core_task, run);
    if (run->out && projected) {
        struct projections list = {.n = 0};
        size_t n_tasks = add_projection(&list, &plan->layer->output, context, run->out,
                                        plan->n_batch * plan->n_queries);
        spread(run->parallel, n_tasks, projection_task, &list);
    }
}

struct post_step {
    const struct attni_post *post;
    struct attni_post_data data;
};

static void post_task(void *argument, size_t task, size_t worker)
{
    const struct post_step *step = argument;
    (void)worker;
    attni_post_run(step->post, &step->data, task);
}

static void finish(struct forward *run)
{
    const attn_plan *plan = run->plan;
    const struct attni_post *posts[] = {&plan->layer->normalisation,
                                        &plan->layer->activation};
    for (size_t i = 0; run->out && i < 2; i++) {
        struct post_step step = {posts[i],
                                 {run->out, plan->n_batch, plan->n_queries,
                                  attni_spec_output_width(&plan->layer->spec)}};
        spread(run->parallel, attni_post_n_tasks(posts[i], &step.data), post_task, &step);
    }
}

static void scores_task(void *argument, size_t task, size_t worker)
{
    const struct forward *run = argument;
    (void)worker;
    attni_scores_run(run->plan, run->out, task);
}

/* The memory of an output, or NULL where it is not wanted or has no elements: axes may then be as
 * large as they like, so nothing may walk over them. */
static float *wanted(const attn_plan *plan, size_t index, float *const *outputs)
{
    size_t n = 0;
    if (index >= plan->n_outputs || attn_tensor_count(&plan->outputs[index].tensor, &n) ||
        n == 0) {
        return NULL;
    }
    return outputs[index];
}

enum attn_status attn_forward(const attn_plan *plan, float *const *outputs, void *scratch,
                              const struct attn_parallel *parallel,
                              struct attn_error *error)
{
    uintptr_t misaligned = (uintptr_t)scratch % 64;
    struct forward run = {.plan = plan,
                          .parallel = parallel,
                          .scratch = (unsigned char *)scratch +
                                     (misaligned ? 64 - misaligned : 0),
                          .out = wanted(plan, plan->main_output, outputs),
                          .attention = wanted(plan, plan->attention_output, outputs)};
    if (plan->layer->spec.scores_only) {
        if (run.out) {
            spread(parallel, attni_scores_n_tasks(plan), scores_task, &run);
        }
        return ATTN_OK;
    }
    enum attn_status status = sort_edges(&run, error);
    if (status || (!run.out && !run.attention)) {
        return status;
    }
    project_inputs(&run);
    attend(&run);
    finish(&run);
    return ATTN_OK;
}
