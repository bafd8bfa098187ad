/* ours.c - says each case as a spec, writes its weights as a safetensors file in memory, and runs it.
 * One thread, but for the caller's. */
#include "bench/ours.h"

#include "unit/lib/weights_file.h"

#include <math.h>
#include <stdio.h>

#define MOST 8

struct ours {
    const struct problem *problem;
    const struct attn_parallel *parallel;
    struct attn_spec spec;
    struct attn_mode mode;
    attn_layer *layer;
    attn_plan *plan;
    size_t n_inputs, n_parameters;
    struct attn_named_tensor inputs[MOST], parameters[MOST];
    float *fused; /* weight of the causal layer, as it stores it */
    float *fused_bias;
    size_t scratch_bytes;
    void *scratch;

    /* Of gradients alone. */
    float *grad_output; /* [B, Q, D]: the last of the inputs */
    float *gradients[ATTN_MAX_PORTS];
};

static void need(enum attn_status status, const struct attn_error *error)
{
    if (status) {
        die("%s", error->message[0] ? error->message : attn_status_text(status));
    }
}

/* ---- tensors ------------------------------------------------------------------------------- */

static struct attn_named_tensor tensor(const char *name, enum attn_dtype dtype,
                                       const void *data, size_t rank, size_t a, size_t b,
                                       size_t c)
{
    return (struct attn_named_tensor){
        name, {.dtype = dtype, .rank = rank, .shape = {a, b, c}, .data = data}};
}

static void add_input(struct ours *ours, struct attn_named_tensor input)
{
    ours->inputs[ours->n_inputs++] = input;
}

static void add_parameter(struct ours *ours, struct attn_named_tensor parameter)
{
    ours->parameters[ours->n_parameters++] = parameter;
}

static void add_map(struct ours *ours, const struct attn_linear_spec *linear,
                    const struct map *map)
{
    if (linear->weight[0]) {
        add_parameter(ours, tensor(linear->weight, ATTN_F32, map->weight, 2,
                                   linear->n_out, linear->n_in, 0));
    }
    if (linear->weight[0] && linear->bias[0]) {
        add_parameter(ours,
                      tensor(linear->bias, ATTN_F32, map->bias, 1, linear->n_out, 0, 0));
    }
}

/* ---- layers -------------------------------------------------------------------------------- */

/* The general layer: the speech layer's shape under other names, less what the case has not. */
static void spec_plain(struct ours *ours)
{
    const struct bench_case *c = &ours->problem->c;
    struct attn_spec *spec = &ours->spec;
    const struct attn_option options[] = {attn_int("num_heads", (int64_t)c->n_heads),
                                          attn_int("d_model", (int64_t)c->width),
                                          attn_bool("scale_dp_by_head", true)};
    struct attn_error error = {0};
    need(attn_spec_preset(spec, "speech_mha", options, 3, &error), &error);
    const struct attn_linear_spec none = {.weight = ""};
    strcpy(spec->query, "query");
    strcpy(spec->key, c->mode == MODE_SELF ? "query" : "key");
    strcpy(spec->value, "value");
    if (case_projects_memory(c)) {
        strcpy(spec->value, spec->key);
    } else {
        spec->key_projection = none;
        spec->value_projection = none;
    }
    if (!case_projects_query(c)) {
        spec->query_projection = none;
        spec->output_projection = none;
    }
    spec->causal = c->mask == MASK_CAUSAL;
}

/* A preset as a user of it would ask for it. */
static void spec_preset(struct ours *ours)
{
    const struct bench_case *c = &ours->problem->c;
    int64_t heads = (int64_t)c->n_heads, width = (int64_t)c->width;
    struct attn_option shape = {.name = "output_shape",
                                .type = ATTN_OPTION_INTS,
                                .n_integers = 2,
                                .integers = {(int64_t)c->n_queries, width}};
    const struct attn_option routing[] = {attn_int("embedding_dim", width),
                                          attn_int("n_heads", heads)};
    const struct attn_option speech[] = {attn_int("d_model", width),
                                         attn_int("num_heads", heads)};
    const struct attn_option causal[] = {shape, attn_int("n_heads", heads)};
    const struct attn_option relational[] = {
        attn_int("num_heads", heads),
        attn_int("num_edge_types", EDGE_TYPES),
        attn_int("key_query_dimension", width / heads),
        attn_int("value_dimension", width / heads),
        attn_int("output_dimension", width),
        attn_real("dropout_rate", 0),
        attn_bool("use_edge_value_biases", true)};
    const struct attn_option *options =
        strcmp(c->layer, "routing_mha_proj") == 0 ? routing
        : strcmp(c->layer, "speech_mha") == 0     ? speech
        : strcmp(c->layer, "causal_mha") == 0     ? causal
                                                  : relational;
    struct attn_error error = {0};
    need(attn_spec_preset(&ours->spec, c->layer, options, options == relational ? 7 : 2,
                          &error),
         &error);
}

/* The causal layer stores one map for all three, [in, out], queries first. */
static void add_fused(struct ours *ours)
{
    const struct problem *p = ours->problem;
    size_t width = p->c.width;
    const struct map *maps[] = {&p->query_map, &p->key_map, &p->value_map};
    ours->fused = bench_memory(3 * width * width * sizeof *ours->fused);
    ours->fused_bias = bench_memory(3 * width * sizeof *ours->fused_bias);
    for (size_t i = 0; i < 3 * width; i++) {
        const struct map *map = maps[i / width];
        size_t out = i % width;
        ours->fused_bias[i] = map->bias[out];
        for (size_t in = 0; in < width; in++) {
            ours->fused[in * 3 * width + i] = map->weight[out * width + in];
        }
    }
    add_parameter(ours, tensor(ours->spec.fused.weight, ATTN_F32, ours->fused, 2, width,
                               3 * width, 0));
    add_parameter(ours, tensor(ours->spec.fused.bias, ATTN_F32, ours->fused_bias, 1,
                               3 * width, 0, 0));
}

static void add_parameters(struct ours *ours)
{
    const struct problem *p = ours->problem;
    const struct attn_spec *spec = &ours->spec;
    if (spec->fused.weight[0]) {
        add_fused(ours);
    }
    add_map(ours, &spec->query_projection, &p->query_map);
    add_map(ours, &spec->key_projection, &p->key_map);
    add_map(ours, &spec->value_projection, &p->value_map);
    add_map(ours, &spec->output_projection, &p->output_map);
    if (p->n_edges) {
        add_parameter(ours, tensor(spec->edge.bias, ATTN_F32, p->edge_bias, 2, EDGE_TYPES,
                                   p->c.width, 0));
        add_parameter(ours, tensor(spec->edge.value_bias, ATTN_F32, p->edge_value_bias, 2,
                                   EDGE_TYPES, p->c.width, 0));
    }
}

static void make_layer(struct ours *ours)
{
    struct attn_error error = {0};
    attn_weights *weights;
    size_t n_bytes;
    unsigned char *file = weights_file(ours->parameters, ours->n_parameters, &n_bytes);
    need(attn_weights_parse(file, n_bytes, &weights, &error), &error);
    need(attn_layer_create(&ours->spec, weights, &ours->layer, &error), &error);
    attn_weights_free(weights);
    free(file);
}

/* ---- inputs -------------------------------------------------------------------------------- */

/* Rows as the layer takes them: with an axis of heads, or without. */
static void add_rows(struct ours *ours, const char *name, const float *data,
                     size_t length)
{
    const struct bench_case *c = &ours->problem->c;
    bool by_head = ours->spec.layout == ATTN_LAYOUT_HEADS;
    struct attn_named_tensor rows =
        tensor(name, ATTN_F32, data, 3, c->n_batch, length, c->width);
    if (by_head) {
        rows.tensor.rank = 4;
        rows.tensor.shape[2] = c->n_heads;
        rows.tensor.shape[3] = c->width / c->n_heads;
    }
    add_input(ours, rows);
}

static void add_mask(struct ours *ours)
{
    const struct problem *p = ours->problem;
    const struct attn_mask_spec *mask = &ours->spec.mask;
    const unsigned char *data = mask->true_keeps ? p->keeps : p->blocks;
    /* a relational layer's form for keys has no axis of queries */
    if (strcmp(mask->axes[2], "BK") == 0) {
        add_input(ours,
                  tensor(mask->name, ATTN_BOOL, data, 2, p->c.n_batch, p->c.n_keys, 0));
    } else {
        add_input(ours,
                  tensor(mask->name, ATTN_BOOL, data, 3, p->c.n_batch, 1, p->c.n_keys));
    }
}

static void add_inputs(struct ours *ours)
{
    const struct problem *p = ours->problem;
    const struct attn_spec *spec = &ours->spec;
    add_rows(ours, spec->query, p->query, p->c.n_queries);
    if (strcmp(spec->key, spec->query) != 0) {
        add_rows(ours, spec->key, p->key, p->c.n_keys);
    }
    if (strcmp(spec->value, spec->key) != 0) {
        add_rows(ours, spec->value, p->value, p->c.n_keys);
    }
    if (p->blocks) {
        add_mask(ours);
    }
    if (p->n_edges) {
        add_input(ours,
                  tensor(spec->edge.edges, ATTN_I64, p->edges, 2, p->n_edges, 3, 0));
        add_input(ours,
                  tensor(spec->edge.types, ATTN_I64, p->types, 1, p->n_edges, 0, 0));
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

void ours_plan_again(void *argument)
{
    struct ours *ours = argument;
    struct attn_error error = {0};
    attn_plan_free(ours->plan);
    need(attn_plan_create(ours->layer, &ours->mode, ours->inputs, ours->n_inputs, NULL, 0,
                          &ours->plan, &error),
         &error);
    need(attn_plan_scratch(ours->plan, ours->parallel ? ours->parallel->n_workers : 1,
                           &ours->scratch_bytes),
         &error);
}

/* A layer and its inputs; no plan yet. */
static struct ours *create(const struct problem *problem, enum attn_store weights_dtype,
                           const struct attn_parallel *parallel)
{
    struct ours *ours = bench_memory(sizeof *ours);
    ours->problem = problem;
    ours->parallel = parallel;
    ours->spec.size = sizeof ours->spec;
    ours->mode.size = sizeof ours->mode;
    if (strcmp(problem->c.layer, "plain") == 0) {
        spec_plain(ours);
    } else {
        spec_preset(ours);
    }
    ours->spec.weights_dtype = weights_dtype;
    add_parameters(ours);
    make_layer(ours);
    add_inputs(ours);
    return ours;
}

struct ours *ours_create(const struct problem *problem, enum attn_store weights_dtype,
                         const struct attn_parallel *parallel)
{
    struct ours *ours = create(problem, weights_dtype, parallel);
    ours_plan_again(ours);
    return ours;
}

struct ours *ours_create_gradients(const struct problem *problem,
                                   const struct attn_parallel *parallel)
{
    struct ours *ours = create(problem, ATTN_STORE_F32, parallel);
    const struct bench_case *c = &problem->c;
    struct dice dice = {2};
    size_t n = c->n_batch * c->n_queries * c->width;
    ours->mode.gradient = true;
    ours->mode.reduction = ATTN_REDUCTION_SUM;
    ours->grad_output = bench_memory(n * sizeof *ours->grad_output);
    dice_fill(&dice, ours->grad_output, n, 1);
    add_input(ours, tensor("grad_output", ATTN_F32, ours->grad_output, 3, c->n_batch,
                           c->n_queries, c->width));
    ours_plan_again(ours);
    for (size_t i = 0; i < attn_plan_n_outputs(ours->plan); i++) {
        size_t n_bytes;
        need(attn_tensor_bytes(&attn_plan_output(ours->plan, i)->tensor, &n_bytes),
             &(struct attn_error){0});
        ours->gradients[i] = bench_memory(n_bytes);
    }
    return ours;
}

void ours_free(struct ours *ours)
{
    if (!ours) {
        return;
    }
    attn_plan_free(ours->plan);
    attn_layer_free(ours->layer);
    attn_free(ours->fused);
    attn_free(ours->fused_bias);
    attn_free(ours->scratch);
    attn_free(ours->grad_output);
    for (size_t i = 0; i < ATTN_MAX_PORTS; i++) {
        attn_free(ours->gradients[i]);
    }
    attn_free(ours);
}

size_t ours_scratch_bytes(const struct ours *ours)
{
    return ours->scratch_bytes;
}

void ours_take_scratch(struct ours *ours, bool touch)
{
    ours->scratch = attn_alloc(ours->scratch_bytes);
    if (!ours->scratch) {
        die("out of memory");
    }
    if (touch) {
        memset(ours->scratch, 0, ours->scratch_bytes);
    }
}

void ours_run(struct ours *ours, float *out)
{
    struct attn_error error = {0};
    float *outputs[] = {out};
    need(attn_forward(ours->plan, outputs, ours->scratch, ours->parallel, &error),
         &error);
}

void ours_run_gradients(struct ours *ours)
{
    struct attn_error error = {0};
    need(
        attn_backward(ours->plan, ours->gradients, ours->scratch, ours->parallel, &error),
        &error);
}

/* ---- are they right? ----------------------------------------------------------------------- */

/* The gradient of a tensor that the layer calls so; NULL for what has none, an edge or a mask. */
static const float *gradient_of(const struct ours *ours, const char *prefix,
                                const char *name)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < attn_plan_n_outputs(ours->plan); i++) {
        const char *found = attn_plan_output(ours->plan, i)->name;
        if (strncmp(found, prefix, n) == 0 && strcmp(found + n, name) == 0) {
            return ours->gradients[i];
        }
    }
    return NULL;
}

static double length(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sqrt(sum);
}

/* Put a copy in place of the tensor, moved along its gradient by a share of its own length. Returns
 * the copy; adds to the slope how fast the loss should grow with the share. */
static float *move(struct attn_named_tensor *named, const float *gradient, double share,
                   double *slope)
{
    size_t n;
    if (!gradient || attn_tensor_count(&named->tensor, &n)) {
        return NULL;
    }
    const float *from = named->tensor.data;
    double own = length(from, n), steep = length(gradient, n);
    double step = steep > 0 ? share * own / steep : 0;
    float *to = bench_memory(n * sizeof *to);
    for (size_t i = 0; i < n; i++) {
        to[i] = (float)((double)from[i] + step * (double)gradient[i]);
    }
    named->tensor.data = to;
    *slope += own * steep;
    return to;
}

/* sum(grad_output * result) where everything is moved. */
static double moved_loss(const struct ours *ours, double share, double *slope)
{
    const struct bench_case *c = &ours->problem->c;
    size_t n = c->n_batch * c->n_queries * c->width, n_copies = 0;
    struct ours moved = *ours;
    float *copies[2 * MOST];
    *slope = 0;
    for (size_t i = 0; i < moved.n_parameters; i++) {
        struct attn_named_tensor *parameter = &moved.parameters[i];
        copies[n_copies++] =
            move(parameter, gradient_of(ours, "grad.", parameter->name), share, slope);
    }
    moved.n_inputs--; /* grad_output */
    for (size_t i = 0; i < moved.n_inputs; i++) {
        struct attn_named_tensor *input = &moved.inputs[i];
        copies[n_copies++] =
            move(input, gradient_of(ours, "grad_", input->name), share, slope);
    }
    moved.mode.gradient = false;
    moved.plan = NULL;
    make_layer(&moved);
    ours_plan_again(&moved);
    ours_take_scratch(&moved, false);
    float *out = bench_memory(n * sizeof *out);
    ours_run(&moved, out);
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        loss += (double)ours->grad_output[i] * (double)out[i];
    }
    attn_free(out);
    attn_free(moved.scratch);
    attn_plan_free(moved.plan);
    attn_layer_free(moved.layer);
    for (size_t i = 0; i < n_copies; i++) {
        attn_free(copies[i]);
    }
    return loss;
}

double ours_gradients_error(const struct ours *ours)
{
    const double share = 0.001;
    double slope, growth = moved_loss(ours, share, &slope);
    growth -= moved_loss(ours, -share, &slope);
    return fabs(growth / (2 * share) - slope) / slope;
}
