/* attend.c - from inputs to the joined heads: project, attend, project, in rounds. Coordinates; every
 * loop over numbers is elsewhere. */
#include "kept.h"
#include "run.h"

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
                          .length = attni_plan_length(plan, which),
                          .width = attni_plan_width(plan, which),
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

static float *rows_memory(const struct attni_run *run, size_t which)
{
    enum attni_kept_kind kind = run->plan->kept.kind;
    if (which > 0 && (kind == ATTNI_KEPT_FILL || kind == ATTNI_KEPT_READ)) {
        return attni_kept_context(run->plan, which);
    }
    return attni_run_floats(run, run->plan->rows_at[which]);
}

/* Add the product that projects an input for the round, unless an earlier round has; its rows. */
static struct attni_rows project(const struct attni_run *run, const struct round *round,
                                 size_t which, struct attni_products *list)
{
    const attn_plan *plan = run->plan;
    struct input in = input_of(plan, which);
    const struct attni_linear *linear = in.linear;
    bool shared = in.batch == 1, fused = linear == &plan->layer->fused;
    size_t first = shared ? 0 : round->sample, n_samples = shared ? 1 : round->n_samples;
    size_t row = which == 0 ? 0 : round->key,
           length = which == 0 ? in.length : round->n_keys - plan->kept.first;
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
                (which == 0 && round->key > 0) || (fused && !by_block && which > 0) ||
                !attni_kept_brings(plan, which);
    if (!done) {
        list->which[list->n] = which;
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
 * came. */
static void take_inputs(struct attni_run *run, const struct round *round,
                        struct attni_products *list)
{
    const attn_plan *plan = run->plan;
    struct attni_rows *rows[] = {&run->core.query, &run->core.key, &run->core.value};
    *list = (struct attni_products){.run = run};
    for (size_t i = 0; i < 3; i++) {
        struct input in = input_of(plan, i);
        *rows[i] = in.linear->weight
                       ? project(run, round, i, list)
                       : rows_of(in.data, &in, plan->layer->spec.n_heads * in.width, 0);
    }
}

/* ---- heads --------------------------------------------------------------------------------- */

static void core_task(void *argument, size_t task, size_t worker)
{
    const struct attni_run *run = argument;
    attni_core_run(&run->core, task, attni_run_worker(run, worker));
}

/* A head of a sample under way. */
struct head_step {
    const struct attni_run *run;
    const struct round *round;
};

static void head_task(void *argument, size_t task, size_t worker)
{
    const struct head_step *step = argument;
    attni_core_head_run(&step->run->core, step->round->sample, step->round->head, task,
                        attni_run_worker(step->run, worker));
}

/* Where the heads leave what they give. */
static void place_context(struct attni_run *run, const struct round *round)
{
    const attn_plan *plan = run->plan;
    bool direct = !plan->layer->output.weight || plan->rounds.in_output;
    size_t row = plan->layer->spec.n_heads * plan->value_width;
    run->core.context.data = run->context ? run->context
                             : !run->out  ? NULL
                             : direct     ? run->out
                                          : attni_run_floats(run, plan->context_at);
    run->core.context.batch = plan->n_queries * row;
    run->core.context.row = row;
    run->core.context.head = plan->value_width;
    run->core.context.first = run->context || direct ? 0 : round->sample;
}

/* The product that projects what the heads of the round gave; false: there is none. */
static bool output_product(const struct attni_run *run, const struct round *round,
                           struct attni_product *product)
{
    const attn_plan *plan = run->plan;
    const struct attni_linear *linear = &plan->layer->output;
    if (!run->out || !linear->weight) {
        return false;
    }
    size_t offset = round->sample - run->core.context.first;
    const float *context = run->core.context.data + offset * run->core.context.batch;
    float *out = run->out + round->sample * plan->n_queries * linear->n_out;
    *product = attni_product_of(linear, round->n_samples * plan->n_queries, context, out);
    product->in_place = plan->rounds.in_output;
    return true;
}

/* Tell the core what the round is; the products that it needs. */
static void take_round(struct attni_run *run, const struct round *round,
                       struct attni_products *list)
{
    run->core.first = round->sample;
    run->core.n_samples = round->n_samples;
    run->core.first_key = round->key;
    run->core.n_keys = round->n_keys;
    take_inputs(run, round, list);
}

static void store_task(void *argument, size_t task, size_t worker)
{
    const struct attni_run *run = argument;
    (void)worker;
    attni_kept_store(run->plan, &run->core.key, &run->core.value, task);
}

void attni_run_read_kept(struct attni_run *run)
{
    run->core.key = attni_kept_rows(run->plan, 1);
    run->core.value = attni_kept_rows(run->plan, 2);
}

/* All heads, or the one, to so many keys at a time that no task is long. */
static void attend_to(struct attni_run *run, const struct round *round)
{
    struct head_step step = {run, round};
    size_t most = run->plan->rounds.n_seen, end = round->key + round->n_keys;
    size_t key = round->key;
    do {
        run->core.first_key = key;
        run->core.n_keys = end - key < most ? end - key : most;
        if (run->plan->rounds.by_head) {
            attni_run_spread(run->parallel, attni_core_head_n_tasks(&run->core),
                             head_task, &step);
        } else {
            attni_run_spread(run->parallel, attni_core_n_tasks(&run->core), core_task,
                             run);
        }
        key += run->core.n_keys;
    } while (key < end);
}

static void run_keys(struct attni_run *run, const struct round *round)
{
    struct attni_products list;
    take_round(run, round, &list);
    if (!run->projected) {
        attni_run_products(&list);
    }
    if (run->plan->kept.kind == ATTNI_KEPT_GROW) {
        attni_run_spread(run->parallel, run->plan->n_batch, store_task, run);
        attni_run_read_kept(run);
    }
    attend_to(run, round);
}

/* Head after head, and of each keys after keys. */
static void run_heads(struct attni_run *run, struct round round)
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

static void run_round(struct attni_run *run, const struct round *round)
{
    struct attni_products list = {.run = run, .n = 1};
    place_context(run, round);
    if (run->plan->rounds.by_head) {
        run_heads(run, *round);
    } else {
        run_keys(run, round);
    }
    if (output_product(run, round, &list.items[0])) {
        attni_run_products(&list);
    }
}

/* Samples that give results or probabilities. */
static size_t samples_of(const struct attni_run *run)
{
    return run->out || run->context ? run->plan->n_batch : run->plan->n_score_batch;
}

/* The round of samples from `sample` on. */
static struct round round_at(const struct attni_run *run, size_t sample)
{
    const attn_plan *plan = run->plan;
    size_t left = samples_of(run) - sample, most = plan->rounds.n_samples;
    return (struct round){.sample = sample,
                          .n_samples = left < most ? left : most,
                          .n_heads = plan->layer->spec.n_heads,
                          .n_keys = plan->n_keys};
}

static void start_core(struct attni_run *run)
{
    run->core.probabilities = run->attention;
    run->core.max = attni_run_floats(run, run->plan->state_at[0]);
    run->core.sum = attni_run_floats(run, run->plan->state_at[1]);
}

/* Round after round. */
void attni_run_attend(struct attni_run *run)
{
    size_t n = samples_of(run);
    start_core(run);
    for (size_t sample = 0; sample < n; sample += run->plan->rounds.n_samples) {
        struct round round = round_at(run, sample);
        run_round(run, &round);
    }
}

void attni_run_prepare(struct attni_run *run, struct attni_products *list)
{
    struct round round = round_at(run, 0);
    start_core(run);
    place_context(run, &round);
    take_round(run, &round, list);
}

bool attni_run_output(const struct attni_run *run, struct attni_product *product)
{
    struct round round = round_at(run, 0);
    return output_product(run, &round, product);
}
