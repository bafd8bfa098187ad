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

/* Products under way, cut into tasks one after the other. */
struct products {
    const struct forward *run;
    struct attni_product items[3];
    size_t n_tasks[3];
    size_t n;
};

static unsigned char *worker_scratch(const struct forward *run, size_t worker)
{
    return run->scratch + run->plan->shared_bytes + worker * run->plan->worker_bytes;
}

static void product_task(void *argument, size_t task, size_t worker)
{
    const struct products *list = argument;
    size_t i = 0;
    while (task >= list->n_tasks[i]) {
        task -= list->n_tasks[i++];
    }
    attni_linear_run(&list->items[i], task,
                     worker_scratch(list->run, worker) + list->run->plan->linear_at);
}

static void run_products(struct products *list)
{
    size_t n_tasks = 0;
    for (size_t i = 0; i < list->n; i++) {
        list->n_tasks[i] = attni_linear_n_tasks(&list->items[i]);
        n_tasks += list->n_tasks[i];
    }
    spread(list->run->parallel, n_tasks, product_task, list);
}

/* ---- queries, keys and values -------------------------------------------------------------- */

/* What is projected at a time: samples [sample, sample + n_samples), of which one head or all, of
 * which keys [key, key + n_keys). */
struct round {
    size_t sample, n_samples, head, n_heads, key, n_keys;
};

/* One of the three, as a round has it. */
struct input {
    const struct attni_linear *linear;
    const float *data; /* rows as they came */
    size_t batch, length, width;
    size_t column; /* of the projection, where the first head begins */
};

static struct input input_of(const attn_plan *plan, size_t which)
{
    size_t n_heads = plan->layer->spec.n_heads;
    bool fused = plan->layer->fused.weight != NULL;
    return (struct input){.linear = attni_plan_projection(plan, which),
                          .data = plan->inputs[which].data,
                          .batch = plan->batch[which],
                          .length = which == 0 ? plan->n_queries : plan->n_keys,
                          .width = which == 2 ? plan->value_width : plan->head_width,
                          .column = fused ? which * n_heads * plan->head_width : 0};
}

/* Rows of heads side by side, [batch, length, row_floats]. */
static struct attni_rows rows_of(const float *data, const struct input *input,
                                 size_t row_floats, size_t first)
{
    bool shared = input->batch == 1;
    return (struct attni_rows){.data = data,
                               .batch = shared ? 0 : input->length * row_floats,
                               .row = row_floats,
                               .head = input->width,
                               .first = shared ? 0 : first};
}

static float *rows_memory(const struct forward *run, size_t which)
{
    return (float *)(void *)(run->scratch + run->plan->rows_at[which]);
}

/* Add the product that projects an input for the round, unless an earlier round has; its rows. */
static struct attni_rows project(const struct forward *run, const struct round *round,
                                 size_t which, struct products *list)
{
    const attn_plan *plan = run->plan;
    struct input in = input_of(plan, which);
    const struct attni_linear *linear = in.linear;
    bool shared = in.batch == 1, fused = linear == &plan->layer->fused;
    size_t first = shared ? 0 : round->sample, n_samples = shared ? 1 : round->n_samples;
    size_t row = which == 0 ? 0 : round->key,
           length = which == 0 ? in.length : round->n_keys;
    bool by_block = plan->rounds.by_block[which];
    float *memory = rows_memory(run, fused && !by_block ? 0 : which);
    struct attni_product product =
        attni_product_of(linear, n_samples * length,
                         in.data + (first * in.length + row) * linear->n_in, memory);
    if (by_block) {
        product.first = in.column + round->head * in.width;
        product.n_columns = round->n_heads * in.width;
        product.row = product.block = in.width;
        product.block_stride = product.n_rows * in.width;
    }
    bool done = (shared && round->sample > 0 && round->n_heads > 1) ||
                (fused && !by_block && which > 0);
    if (!done) {
        list->items[list->n++] = product;
    }
    if (!by_block) {
        return rows_of(memory + in.column, &in, linear->n_out, first);
    }
    return (struct attni_rows){.data = memory,
                               .batch = shared ? 0 : length * in.width,
                               .row = in.width,
                               .head = round->n_heads > 1 ? product.block_stride : 0,
                               .first = first,
                               .first_row = row};
}

/* Queries, keys and values of a round as the core reads them: projected into scratch, or as they
 * came. Of one head, queries are projected within tasks, unless they are few: then, before the first
 * head, all of them. */
static void take_inputs(struct forward *run, const struct round *round)
{
    const attn_plan *plan = run->plan;
    struct attni_rows *rows[] = {&run->core.query, &run->core.key, &run->core.value};
    struct products list = {.run = run};
    run->core.query_projection = NULL;
    for (size_t i = 0; i < 3; i++) {
        struct input in = input_of(plan, i);
        if (!in.linear->weight) {
            *rows[i] = rows_of(in.data, &in, plan->layer->spec.n_heads * in.width, 0);
        } else if (i > 0 || !plan->rounds.by_head) {
            *rows[i] = project(run, round, i, &list);
        } else if (plan->tiles.few) {
            struct round all = *round;
            size_t n = list.n;
            all.head = 0;
            all.n_heads = plan->layer->spec.n_heads;
            *rows[i] = project(run, &all, i, &list);
            list.n = round->head == 0 && round->key == 0 ? list.n : n;
        } else {
            *rows[i] = rows_of(in.data, &in, in.linear->n_in, 0);
            run->core.query_projection = in.linear;
            run->core.query_column = in.column;
        }
    }
    run_products(&list);
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
    attni_core_run(&run->core, task, worker_scratch(run, worker));
}

/* A head of a sample under way. */
struct head_step {
    const struct forward *run;
    const struct round *round;
};

static void head_task(void *argument, size_t task, size_t worker)
{
    const struct head_step *step = argument;
    attni_core_head_run(&step->run->core, step->round->sample, step->round->head, task,
                        worker_scratch(step->run, worker));
}

/* Where the heads leave what they give. */
static void place_context(struct forward *run, const struct round *round)
{
    const attn_plan *plan = run->plan;
    bool direct = !plan->layer->output.weight || plan->rounds.in_output;
    size_t row = plan->layer->spec.n_heads * plan->value_width;
    float *scratch = (float *)(void *)(run->scratch + plan->context_at);
    run->core.context.data = !run->out ? NULL : direct ? run->out : scratch;
    run->core.context.batch = plan->n_queries * row;
    run->core.context.row = row;
    run->core.context.head = plan->value_width;
    run->core.context.first = direct ? 0 : round->sample;
}

/* Project what the heads of the round gave. */
static void project_output(const struct forward *run, const struct round *round)
{
    const attn_plan *plan = run->plan;
    const struct attni_linear *linear = &plan->layer->output;
    size_t offset = round->sample - run->core.context.first;
    const float *context = run->core.context.data + offset * run->core.context.batch;
    float *out = run->out + round->sample * plan->n_queries * linear->n_out;
    struct products list = {.run = run, .n = 1};
    list.items[0] =
        attni_product_of(linear, round->n_samples * plan->n_queries, context, out);
    list.items[0].in_place = plan->rounds.in_output;
    run_products(&list);
}

static void run_keys(struct forward *run, const struct round *round)
{
    run->core.first = round->sample;
    run->core.n_samples = round->n_samples;
    run->core.first_key = round->key;
    run->core.n_keys = round->n_keys;
    take_inputs(run, round);
    if (run->plan->rounds.by_head) {
        struct head_step step = {run, round};
        spread(run->parallel, attni_core_head_n_tasks(&run->core), head_task, &step);
    } else {
        spread(run->parallel, attni_core_n_tasks(&run->core), core_task, run);
    }
}

/* Head after head, and of each keys after keys. */
static void run_heads(struct forward *run, struct round round)
{
    const attn_plan *plan = run->plan;
    size_t n_heads = plan->layer->spec.n_heads, most = plan->rounds.n_keys;
    round.n_heads = 1;
    for (round.head = 0; round.head < n_heads; round.head++) {
        round.key = 0;
        do {
            size_t left = plan->n_keys - round.key;
            round.n_keys = left < most ? left : most;
            run_keys(run, &round);
            round.key += round.n_keys;
        } while (round.key < plan->n_keys);
    }
}

static void run_round(struct forward *run, const struct round *round)
{
    const attn_plan *plan = run->plan;
    place_context(run, round);
    if (plan->rounds.by_head) {
        run_heads(run, *round);
    } else {
        run_keys(run, round);
    }
    if (run->out && plan->layer->output.weight) {
        project_output(run, round);
    }
}

/* Round after round of samples that give results or probabilities. */
static void attend(struct forward *run)
{
    const attn_plan *plan = run->plan;
    size_t n = run->out ? plan->n_batch : plan->n_score_batch;
    run->core.plan = plan;
    run->core.probabilities = run->attention;
    run->core.max = (float *)(void *)(run->scratch + plan->state_at[0]);
    run->core.sum = (float *)(void *)(run->scratch + plan->state_at[1]);
    for (size_t sample = 0; sample < n; sample += plan->rounds.n_samples) {
        size_t left = n - sample;
        struct round round = {
            .sample = sample,
            .n_samples = left < plan->rounds.n_samples ? left : plan->rounds.n_samples,
            .n_heads = plan->layer->spec.n_heads,
            .n_keys = plan->n_keys};
        run_round(run, &round);
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
    attend(&run);
    finish(&run);
    return ATTN_OK;
}
