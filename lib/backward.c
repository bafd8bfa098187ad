/* backward.c - run a plan of gradients: forward, then back through the steps after the heads, the output
 * projection, attention and the projections before it. Coordinates; every loop over numbers is
 * elsewhere. The plan is read-only, so one may run on many threads at once. */
#include "back_core.h"
#include "back_edges.h"
#include "back_linear.h"
#include "back_scores.h"
#include "lay_out.h"
#include "post.h"
#include "run.h"
#include "status.h"

#include <string.h>

/* One backward under way. */
struct backward {
    struct attni_run run;
    float *const *outputs;
    struct attni_back back;
    float *steps
        [1 + ATTNI_N_POSTS]; /* what the heads' projection gave, and each step after it */
    const float *cotangent;  /* of the first of them */
    float factor;            /* of gradients of parameters */
    bool begun[ATTNI_N_ROLES]; /* something is in the gradient of that input */
};

static float *wanted(const struct backward *b, enum attni_result_kind kind, size_t index)
{
    return attni_plan_memory(b->run.plan, kind, index, b->outputs);
}

static float *gradient_of(const struct backward *b, enum attni_parameter_kind kind,
                          size_t owner)
{
    return attni_plan_gradient(b->run.plan, kind, owner, b->outputs);
}

/* Rows of results [batch, queries, width]. */
static size_t n_rows_of(const attn_plan *plan)
{
    return plan->n_batch * plan->n_queries;
}

static bool is_mean(const attn_plan *plan)
{
    return plan->mode.reduction == ATTN_REDUCTION_MEAN ||
           (plan->mode.reduction == ATTN_REDUCTION_DEFAULT &&
            plan->layer->spec.gradient_mean);
}

static void clear(float *memory, size_t n)
{
    if (memory) {
        memset(memory, 0, n * sizeof *memory);
    }
}

/* ---- forward ------------------------------------------------------------------------------- */

static void take_posts(struct backward *b)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_post *posts = plan->layer->posts;
    size_t n = n_rows_of(plan) * attni_spec_output_width(&plan->layer->spec);
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        b->steps[1 + i] = b->steps[i];
        if (posts[i].spec.kind != ATTN_POST_NONE) {
            b->steps[1 + i] = attni_run_floats(&b->run, plan->back.steps_at[1 + i]);
            memcpy(b->steps[1 + i], b->steps[i], n * sizeof(float));
            attni_run_post(&b->run, (enum attni_post_owner)i, b->steps[1 + i], 0,
                           b->outputs);
        }
    }
}

/* Compute what the backward starts from, and the outputs of a forward that are wanted. */
static void run_forward(struct backward *b)
{
    struct attni_run *run = &b->run;
    const attn_plan *plan = run->plan;
    const attn_layer *layer = plan->layer;
    float *out = wanted(b, ATTNI_MAIN, 0);
    bool posts = attni_plan_has_posts(plan);
    run->context = attni_run_floats(run, plan->back.context_at);
    if (layer->output.weight && (out || posts)) {
        run->out = attni_run_floats(run, plan->back.steps_at[0]);
    }
    run->attention = wanted(b, ATTNI_ATTENTION, 0);
    if (!run->attention && plan->given[ATTNI_GRAD_ATTENTION]) {
        run->attention = attni_run_floats(run, plan->back.attention_at);
    }
    run->core.row_max = attni_run_floats(run, plan->back.row_max_at);
    run->core.row_factor = attni_run_floats(run, plan->back.row_factor_at);
    if (plan->n_queries > 0) {
        attni_run_attend(run);
    }
    b->steps[0] = layer->output.weight ? run->out : run->context;
    if (out || posts) {
        take_posts(b);
    }
    if (out) {
        size_t n = n_rows_of(plan) * attni_spec_output_width(&layer->spec);
        memcpy(out, b->steps[ATTNI_N_POSTS], n * sizeof *out);
    }
}

/* ---- the steps after the heads ------------------------------------------------------------- */

struct post_step {
    const struct attni_post *post;
    struct attni_post_gradient gradient;
};

static void post_task(void *argument, size_t task, size_t worker)
{
    const struct post_step *step = argument;
    (void)worker;
    attni_post_back_run(step->post, &step->gradient, task);
}

static void back_through_post(struct backward *b, enum attni_post_owner owner,
                              float *gradient)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_post *posts = plan->layer->posts;
    struct post_step step = {&posts[owner],
                             {.input = b->steps[owner],
                              .output = b->steps[1 + owner],
                              .gradient = gradient,
                              .gamma = gradient_of(b, ATTNI_GAMMA, owner),
                              .beta = gradient_of(b, ATTNI_BETA, owner),
                              .mean = is_mean(plan),
                              .n_samples = plan->n_batch,
                              .length = plan->n_queries,
                              .width = attni_spec_output_width(&plan->layer->spec),
                              .training = plan->mode.training,
                              .dropout = attni_run_post_draws(plan, owner, 0)}};
    attni_run_spread(b->run.parallel, attni_post_back_n_tasks(step.post, &step.gradient),
                     post_task, &step);
}

/* Find the cotangent of what the heads' projection gave. */
static void back_through_posts(struct backward *b)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_post *posts = plan->layer->posts;
    size_t n = n_rows_of(plan) * attni_spec_output_width(&plan->layer->spec);
    bool given = plan->given[ATTNI_GRAD_OUTPUT];
    float *gradient = attni_run_floats(&b->run, plan->back.cotangent_at);
    b->cotangent = given ? plan->inputs[ATTNI_GRAD_OUTPUT].data : gradient;
    if (!given) {
        clear(gradient, n);
    } else if (attni_plan_has_posts(plan)) {
        memcpy(gradient, b->cotangent, n * sizeof *gradient);
        b->cotangent = gradient;
    }
    for (size_t i = ATTNI_N_POSTS; i-- > 0;) {
        if (posts[i].spec.kind != ATTN_POST_NONE) {
            back_through_post(b, (enum attni_post_owner)i, gradient);
        }
    }
}

/* ---- projections --------------------------------------------------------------------------- */

struct linear_step {
    const struct attni_run *run;
    const struct attni_linear *linear;
    float *turned;
    struct attni_back_input input;
    struct attni_back_weight weight;
    struct attni_back_bias bias;
    size_t n_weight, n_bias;
};

static void turn_task(void *argument, size_t task, size_t worker)
{
    const struct linear_step *step = argument;
    (void)worker;
    attni_back_weight_turn(step->linear, step->turned, task);
}

static void input_task(void *argument, size_t task, size_t worker)
{
    const struct linear_step *step = argument;
    attni_back_input_run(&step->input, task, attni_run_worker(step->run, worker));
}

static void parameter_task(void *argument, size_t task, size_t worker)
{
    const struct linear_step *step = argument;
    if (task < step->n_weight) {
        attni_back_product_run(&step->weight, task, attni_run_worker(step->run, worker));
    } else {
        attni_back_bias_run(&step->bias, task - step->n_weight);
    }
}

/* One projection's backward: n_rows rows of x and of the gradient of y. */
struct projection {
    const struct attni_linear *linear;
    enum attni_linear_owner owner;
    size_t n_rows;
    const float *x, *dy;
    float *dx; /* NULL: not wanted */
    bool accumulate;
};

static void find_parameters(struct backward *b, const struct projection *p)
{
    const struct attni_linear *linear = p->linear;
    bool frozen = p->owner == ATTNI_FUSED && is_mean(b->run.plan) &&
                  b->run.plan->layer->spec.fused.bias_frozen;
    bool in_out = linear->in_out;
    struct linear_step step = {.run = &b->run,
                               .weight = {.n_rows = p->n_rows,
                                          .m = in_out ? linear->n_in : linear->n_out,
                                          .n = in_out ? linear->n_out : linear->n_in,
                                          .a = in_out ? p->x : p->dy,
                                          .b = in_out ? p->dy : p->x,
                                          .factor = b->factor,
                                          .out = gradient_of(b, ATTNI_WEIGHT, p->owner)},
                               .bias = {.n_rows = frozen ? 0 : p->n_rows,
                                        .n = linear->n_out,
                                        .dy = p->dy,
                                        .factor = b->factor,
                                        .out = gradient_of(b, ATTNI_BIAS, p->owner)}};
    step.n_weight = step.weight.out ? attni_back_product_n_tasks(&step.weight) : 0;
    step.n_bias = step.bias.out ? attni_back_bias_n_tasks(&step.bias) : 0;
    attni_run_spread(b->run.parallel, step.n_weight + step.n_bias, parameter_task, &step);
}

static void back_through_linear(struct backward *b, const struct projection *p)
{
    find_parameters(b, p);
    if (!p->dx) {
        return;
    }
    float *turned = attni_run_floats(&b->run, b->run.plan->back.weight_at);
    struct linear_step step = {.run = &b->run,
                               .linear = p->linear,
                               .turned = turned,
                               .input = {.linear = p->linear,
                                         .turned = turned,
                                         .n_rows = p->n_rows,
                                         .dy = p->dy,
                                         .dx = p->dx,
                                         .accumulate = p->accumulate}};
    attni_run_spread(b->run.parallel, attni_back_weight_n_tasks(p->linear), turn_task,
                     &step);
    attni_run_spread(b->run.parallel, attni_back_input_n_tasks(&step.input), input_task,
                     &step);
}

/* Back through the projection of the joined heads to what they gave. */
static void back_through_output(struct backward *b)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_linear *linear = &plan->layer->output;
    b->back.context = b->run.context;
    b->back.cotangent = b->cotangent;
    if (!linear->weight) {
        return;
    }
    float *dx = attni_run_floats(&b->run, plan->back.context_cotangent_at);
    const struct projection projection = {.linear = linear,
                                          .owner = ATTNI_OF_OUTPUT,
                                          .n_rows = n_rows_of(plan),
                                          .x = b->run.context,
                                          .dy = b->cotangent,
                                          .dx = plan->back.attends ? dx : NULL};
    back_through_linear(b, &projection);
    b->back.cotangent = dx;
}

/* ---- attention ----------------------------------------------------------------------------- */

static void core_task(void *argument, size_t task, size_t worker)
{
    const struct backward *b = argument;
    attni_back_run(&b->back, task, attni_run_worker(&b->run, worker));
}

static void gather_task(void *argument, size_t task, size_t worker)
{
    const struct backward *b = argument;
    (void)worker;
    attni_back_gather(&b->back, task);
}

/* Where the gradients of projected queries, keys or values (0, 1, 2) are. */
static struct attni_back_rows place_rows(const struct backward *b, size_t which)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_linear *fused = &plan->layer->fused;
    size_t n_heads = plan->layer->spec.n_heads;
    size_t length = attni_plan_length(plan, which), width = attni_plan_width(plan, which);
    size_t row = fused->weight ? fused->n_out : n_heads * width;
    if (!plan->back.wants[which]) {
        return (struct attni_back_rows){NULL, 0, 0, 0};
    }
    float *data =
        plan->back.direct[which]
            ? wanted(b, ATTNI_GRAD_INPUT, attni_plan_source(plan, which))
            : attni_run_floats(&b->run, plan->back.rows_at[fused->weight ? 0 : which]);
    return (struct attni_back_rows){
        .data = fused->weight ? data + which * n_heads * plan->head_width : data,
        .batch = length * row,
        .row = row,
        .head = width};
}

/* The gradient of a dense relation, from 0. */
static float *start_dense(const struct backward *b, enum attni_role role)
{
    float *memory = wanted(b, ATTNI_GRAD_INPUT, role);
    size_t n = 0;
    if (memory && attn_tensor_count(&b->run.plan->inputs[role], &n) == ATTN_OK) {
        clear(memory, n);
    }
    return memory;
}

static void start_edges(struct backward *b)
{
    const attn_plan *plan = b->run.plan;
    float **parts[] = {&b->back.edge_scores, &b->back.edge_weights};
    for (size_t i = 0; plan->n_edges && i < 2; i++) {
        *parts[i] = attni_run_floats(&b->run, plan->back.edges_at[i]);
        clear(*parts[i], plan->n_edges * plan->layer->spec.n_heads);
    }
}

static void back_through_attention(struct backward *b)
{
    const attn_plan *plan = b->run.plan;
    struct attni_back *back = &b->back;
    back->core = &b->run.core;
    back->results = plan->given[ATTNI_GRAD_OUTPUT];
    back->attention = b->run.attention;
    back->grad_attention = plan->given[ATTNI_GRAD_ATTENTION]
                               ? plan->inputs[ATTNI_GRAD_ATTENTION].data
                               : NULL;
    back->query = place_rows(b, 0);
    back->key = place_rows(b, 1);
    back->value = place_rows(b, 2);
    back->query_parts = attni_run_floats(&b->run, plan->back.query_parts_at);
    back->kq = start_dense(b, ATTNI_DENSE_KQ);
    back->kv = start_dense(b, ATTNI_DENSE_KV);
    start_edges(b);
    attni_run_spread(attni_back_in_turn(back) ? NULL : b->run.parallel,
                     attni_back_n_tasks(back), core_task, b);
    attni_run_spread(b->run.parallel, attni_back_gather_n_tasks(back), gather_task, b);
}

static void tables_task(void *argument, size_t task, size_t worker)
{
    (void)worker;
    attni_back_tables_run(argument, task);
}

static void find_tables(struct backward *b)
{
    const struct attn_spec *spec = &b->run.plan->layer->spec;
    struct attni_back_tables tables = {.back = &b->back,
                                       .factor = b->factor,
                                       .bias = gradient_of(b, ATTNI_EDGE_BIAS, 0),
                                       .value_bias =
                                           gradient_of(b, ATTNI_EDGE_VALUE_BIAS, 0)};
    clear(tables.bias, spec->edge.n_types * spec->n_heads *
                           (spec->edge.scalar ? 1 : spec->head_width));
    clear(tables.value_bias, spec->edge.n_types * spec->n_heads * spec->value_head_width);
    attni_run_spread(b->run.parallel, attni_back_tables_n_tasks(&tables), tables_task,
                     &tables);
}

/* ---- inputs -------------------------------------------------------------------------------- */

/* One sample that served many has the sum of what they pass back. */
static void fold_samples(float *data, size_t n_samples, size_t n)
{
    for (size_t sample = 1; sample < n_samples; sample++) {
        for (size_t i = 0; i < n; i++) {
            data[i] += data[sample * n + i];
        }
    }
}

static void add_rows(const float *rows, size_t n, bool accumulate, float *out)
{
    if (!accumulate) {
        memcpy(out, rows, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] += rows[i];
    }
}

/* From the gradients of projected queries, keys or values (0, 1, 2; of all three where they are fused)
 * to that of the input that they were made of. */
static void back_to_input(struct backward *b, size_t which)
{
    const attn_plan *plan = b->run.plan;
    const struct attni_linear *linear = attni_plan_projection(plan, which);
    enum attni_role source = attni_plan_source(plan, which);
    struct attni_back_rows rows = place_rows(b, which);
    size_t length = attni_plan_length(plan, which);
    float *dx = wanted(b, ATTNI_GRAD_INPUT, source);
    if (!rows.data || plan->back.direct[which]) {
        return;
    }
    if (plan->batch[which] < plan->n_batch) {
        fold_samples(rows.data, plan->n_batch, rows.batch);
    }
    size_t n_rows = plan->batch[which] * length;
    if (linear->weight) {
        const struct projection projection = {
            .linear = linear,
            .owner = plan->layer->fused.weight
                         ? ATTNI_FUSED
                         : (enum attni_linear_owner)(ATTNI_OF_QUERY + which),
            .n_rows = n_rows,
            .x = plan->inputs[which].data,
            .dy = rows.data,
            .dx = dx,
            .accumulate = b->begun[source]};
        back_through_linear(b, &projection);
    } else if (dx) {
        add_rows(rows.data, n_rows * rows.row, b->begun[source], dx);
    }
    b->begun[source] = true;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Where there is nothing to sum, sums are 0. */
static void clear_all(const attn_plan *plan, float *const *outputs)
{
    for (size_t i = 0; i < plan->n_outputs; i++) {
        size_t n = 0;
        if (attn_tensor_count(&plan->outputs[i].tensor, &n) == ATTN_OK) {
            clear(outputs[i], n);
        }
    }
}

static void run_backward(struct backward *b)
{
    run_forward(b);
    back_through_posts(b);
    back_through_output(b);
    if (b->run.plan->back.attends) {
        back_through_attention(b);
        find_tables(b);
    }
    size_t n = b->run.plan->layer->fused.weight ? 1 : 3;
    for (size_t which = 0; which < n; which++) {
        back_to_input(b, which);
    }
}

enum attn_status attn_backward(const attn_plan *plan, float *const *outputs,
                               void *scratch, const struct attn_parallel *parallel,
                               struct attn_error *error)
{
    struct backward b = {.outputs = outputs};
    if (!plan->mode.gradient) {
        return attni_fail(error, ATTN_INVALID, "plan",
                          "attn_backward needs a plan of gradients");
    }
    enum attn_status status = attni_run_start(&b.run, plan, parallel, scratch, error);
    if (status) {
        return status;
    }
    b.factor = is_mean(plan) && plan->n_batch > 0 ? 1 / (float)plan->n_batch : 1;
    if (plan->layer->spec.scores_only) {
        attni_back_scores(&b.run, outputs);
    } else if (!attni_lay_out_back_works(plan)) {
        clear_all(plan, outputs);
    } else {
        run_backward(&b);
    }
    return ATTN_OK;
}
