/* test_forward.c - random layers of every preset, random calls to them: sizes around a tile, each
 * optional input there or not, each form of mask, blocked rows; against formulas in double
 * precision. The same bits come out inline, over threads, and from odd addresses. */
#include "plan.h"
#include "unit/lib/oracle.h"
#include "unit/lib/run_call.h"

#define N_TRIALS 60 /* of each preset */

/* Inputs and weights are such that scores stay within about 20 and outputs near 1. A score is a float
 * sum of up to 33 products of sums of up to 165: wrong by up to about 1e-6 of its size, and a
 * probability by as much as its score, in proportion. 2e-5 of the largest output covers it; a
 * normalisation magnifies what it is given. */
#define TOLERANCE 2e-5

/* One random layer, one random call, and what should come out. */
struct trial {
    size_t seed;
    struct dice dice;
    struct pool pool;
    struct made made;
    struct call call;
    struct oracle oracle;
    size_t n_score_batch;
    unsigned char *blocked; /* owned; the oracle's */
    int64_t *types;         /* owned; the oracle's */
    double *expected;       /* the main output */
    double tolerance;
};

/* Around 5, from where on queries go together; vectors; blocks. */
static size_t any_queries(struct dice *dice)
{
    static const size_t lengths[] = {0, 1, 1, 2, 4, 5, 6, 15, 17, 33, 111, 112, 113, 225};
    return lengths[dice_below(dice, COUNT(lengths))];
}

static size_t any_keys(struct dice *dice)
{
    static const size_t lengths[] = {0, 1, 2, 5, 15, 16, 17, 33, 127, 128, 129, 257};
    return lengths[dice_below(dice, COUNT(lengths))];
}

static void set_sizes(struct trial *trial, size_t most_width)
{
    static const size_t widths[] = {1, 2, 3, 8, 15, 16, 17, 32, 33, 64};
    struct dice *dice = &trial->dice;
    struct oracle *o = &trial->oracle;
    o->n_queries = any_queries(dice);
    o->n_keys = any_keys(dice);
    bool whole = dice_below(dice, 4) == 0;
    if (whole && o->n_queries <= 33) {
        o->n_keys = 500 + dice_below(dice, 700); /* around two tiles of keys */
    }
    bool large = o->n_queries * o->n_keys > 3000;
    o->n_batch = 1 + dice_below(dice, large ? 2 : 3);
    o->n_heads = 1 + dice_below(dice, large ? 2 : 5);
    if (whole) {
        o->width = o->value_width = 32; /* whole panels, which may be projected by head */
    }
    while (!whole &&
           (o->width == 0 || o->width > most_width || o->value_width > most_width)) {
        o->width = widths[dice_below(dice, COUNT(widths))];
        o->value_width = widths[dice_below(dice, COUNT(widths))];
    }
    trial->tolerance = TOLERANCE;
}

/* Make the layer, with either rule for rows without open keys. */
static void make_trial(struct trial *trial, struct attn_spec spec)
{
    trial->oracle.empty_nan = dice_bool(&trial->dice);
    spec.empty_rows = trial->oracle.empty_nan ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
    trial->made = make_layer(&spec, &trial->dice);
}

/* [1 or batch, ...] as [batch, ...] */
static double *spread_batch(struct trial *trial, const double *x, size_t batch, size_t n)
{
    size_t n_batch = trial->oracle.n_batch;
    double *spread = pool_take(&trial->pool, n_batch * n);
    for (size_t i = 0; i < n_batch * n; i++) {
        spread[i] = x[batch == 1 ? i % n : i];
    }
    return spread;
}

/* An input of rows [batch, length, width] as doubles of every sample. */
static double *add_rows(struct trial *trial, const char *name, size_t batch,
                        size_t length, size_t width)
{
    const size_t shape[] = {batch, length, width};
    const float *data = call_add_reals(&trial->call, &trial->dice, name, 3, shape);
    return spread_batch(trial, pool_doubles(&trial->pool, data, batch * length * width),
                        batch, length * width);
}

/* Project rows of every sample by parameters `layer`.weight and, where it exists, `layer`.bias. */
static double *project(struct trial *trial, const double *x, size_t length, size_t n_in,
                       size_t n_out, const char *layer)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", layer);
    snprintf(bias, sizeof bias, "%s.bias", layer);
    return oracle_linear(&trial->pool, x, trial->oracle.n_batch * length, n_in, n_out,
                         made_values(&trial->made, weight), false,
                         made_values(&trial->made, bias));
}

/* ---- masks --------------------------------------------------------------------------------- */

static size_t mask_axis(const struct trial *trial, char letter)
{
    const struct oracle *o = &trial->oracle;
    return letter == 'B'   ? trial->n_score_batch
           : letter == 'H' ? o->n_heads
           : letter == 'Q' ? o->n_queries
                           : o->n_keys;
}

/* Sometimes add a mask of one of these forms ("BQK": an axis of each, that size or 1). */
static void add_mask(struct trial *trial, const char *name, const char *const *forms,
                     size_t n_forms, bool true_keeps)
{
    struct oracle *o = &trial->oracle;
    size_t form_index = dice_below(&trial->dice, n_forms + 1), shape[4] = {0};
    if (form_index == n_forms) {
        return;
    }
    const char *form = forms[form_index];
    for (size_t i = 0; form[i]; i++) {
        shape[i] = dice_below(&trial->dice, 3) ? mask_axis(trial, form[i]) : 1;
    }
    unsigned char *mask = call_add(&trial->call, name, ATTN_BOOL, strlen(form), shape);
    size_t rare = 1 + dice_below(&trial->dice, 4);
    for (size_t i = 0; i < count_of(&trial->call.inputs[trial->call.n - 1].tensor); i++) {
        mask[i] = (dice_below(&trial->dice, rare + 1) == 0) != true_keeps;
    }
    trial->blocked = oracle_blocked(o, form, shape, mask, true_keeps);
    o->blocked = trial->blocked;
}

static const char *const routing_forms[] = {"", "K", "QK", "BQK", "HBQK"};
static const char *const speech_forms[] = {"Q", "HK", "BQK"};
static const char *const relational_forms[] = {"BK", "BQK"};

/* ---- what comes out ------------------------------------------------------------------------ */

static void check_near(const struct trial *trial, const char *what, const float *got,
                       const double *expected, size_t n, double tolerance)
{
    double largest = 1;
    for (size_t i = 0; i < n; i++) {
        largest = isfinite(expected[i]) ? fmax(largest, fabs(expected[i])) : largest;
    }
    for (size_t i = 0; i < n; i++) {
        double x = (double)got[i], y = expected[i];
        bool near = isnan(y) ? isnan(x) : x == y || fabs(x - y) <= tolerance * largest;
        if (!near) { /* an assertion that holds has its price too */
            ck_abort_msg("seed %zu: %s[%zu]: expected %.9g, got %.9g", trial->seed, what,
                         i, y, x);
        }
    }
}

static void check_trial(const struct trial *trial, const char *output)
{
    const struct oracle *o = &trial->oracle;
    const char *const names[] = {"attention", output};
    struct results results = run_call(trial->made.layer, &trial->call, names, 2, INLINE);
    ck_assert_uint_eq(count_of(&results.tensors[0]),
                      trial->n_score_batch * o->n_heads * o->n_queries * o->n_keys);
    check_near(trial, "attention", results.outputs[0], o->attention,
               count_of(&results.tensors[0]), TOLERANCE);
    check_near(trial, output, results.outputs[1], trial->expected,
               count_of(&results.tensors[1]), trial->tolerance);
    check_same_bits(trial->made.layer, &trial->call, names, 2, &results);
    /* one output alone is the same as both */
    for (size_t i = 0; i < 2; i++) {
        struct results one =
            run_call(trial->made.layer, &trial->call, &names[i], 1, INLINE);
        ck_assert_mem_eq(one.outputs[0], results.outputs[i],
                         count_of(&one.tensors[0]) * sizeof(float));
        results_free(&one);
    }
    results_free(&results);
}

static void trial_free(struct trial *trial)
{
    pool_free(&trial->pool);
    made_free(&trial->made);
    call_free(&trial->call);
    free(trial->blocked);
    free(trial->types);
}

/* ---- routing ------------------------------------------------------------------------------- */

/* Most inputs have the whole batch; one sample serves them all. */
static size_t any_batch(struct trial *trial)
{
    return dice_below(&trial->dice, 4) ? trial->oracle.n_batch : 1;
}

static void clip_sometimes(struct trial *trial)
{
    trial->oracle.clips = dice_bool(&trial->dice);
    trial->oracle.clip = 4 * (double)dice_real(&trial->dice);
}

static void run_routing_mha(struct trial *trial)
{
    struct oracle *o = &trial->oracle;
    set_sizes(trial, 33);
    clip_sometimes(trial);
    size_t heads = o->n_heads, model = heads * o->value_width;
    struct attn_spec spec = good_spec(
        "routing_mha", LIST(attn_int("embedding_dim", (int64_t)model),
                            attn_int("n_heads", (int64_t)heads),
                            attn_bool("use_tanh", o->clips), attn_real("C", o->clip)));
    make_trial(trial, spec);
    size_t of_query = any_batch(trial), of_key = any_batch(trial),
           of_value = any_batch(trial);
    trial->n_score_batch = of_query > of_key ? of_query : of_key;
    o->n_batch = of_value > trial->n_score_batch ? of_value : trial->n_score_batch;
    o->query = add_rows(trial, "query", of_query, o->n_queries, heads * o->width);
    o->key = add_rows(trial, "key", of_key, o->n_keys, heads * o->width);
    o->value = add_rows(trial, "value", of_value, o->n_keys, model);
    o->scale = 1 / sqrt((double)o->width);
    add_mask(trial, "mask", routing_forms, COUNT(routing_forms), false);
    oracle_attend(&trial->pool, o);
    trial->expected =
        project(trial, o->context, o->n_queries, model, model, "project_out");
    check_trial(trial, "out");
}

static void run_routing_mha_proj(struct trial *trial)
{
    struct oracle *o = &trial->oracle;
    set_sizes(trial, 33);
    clip_sometimes(trial);
    o->value_width = o->width;
    size_t model = o->n_heads * o->width;
    struct attn_spec spec =
        good_spec("routing_mha_proj",
                  LIST(attn_int("embedding_dim", (int64_t)model),
                       attn_int("n_heads", (int64_t)o->n_heads),
                       attn_bool("use_tanh", o->clips), attn_real("C", o->clip)));
    make_trial(trial, spec);
    bool self = dice_below(&trial->dice, 4) == 0;
    size_t of_query = any_batch(trial), of_key = self ? of_query : any_batch(trial);
    trial->n_score_batch = o->n_batch = of_query > of_key ? of_query : of_key;
    o->n_keys = self ? o->n_queries : o->n_keys;
    double *q = add_rows(trial, "q", of_query, o->n_queries, model);
    double *h = self ? q : add_rows(trial, "h", of_key, o->n_keys, model);
    o->query = project(trial, q, o->n_queries, model, model, "queryEncoder");
    o->key = project(trial, h, o->n_keys, model, model, "keyEncoder");
    o->value = project(trial, h, o->n_keys, model, model, "valueEncoder");
    o->scale = 1 / sqrt((double)o->width);
    add_mask(trial, "mask", routing_forms, COUNT(routing_forms), false);
    oracle_attend(&trial->pool, o);
    trial->expected =
        project(trial, o->context, o->n_queries, model, model, "MHA.project_out");
    check_trial(trial, "out");
}

/* ---- speech -------------------------------------------------------------------------------- */

static void run_speech_mha(struct trial *trial)
{
    struct oracle *o = &trial->oracle;
    set_sizes(trial, 33);
    o->value_width = o->width;
    size_t model = o->n_heads * o->width;
    bool by_head = dice_bool(&trial->dice);
    struct attn_spec spec =
        good_spec("speech_mha", LIST(attn_int("num_heads", (int64_t)o->n_heads),
                                     attn_int("d_model", (int64_t)model),
                                     attn_bool("scale_dp_by_head", by_head)));
    make_trial(trial, spec);
    trial->n_score_batch = o->n_batch;
    double *k = add_rows(trial, "k", o->n_batch, o->n_keys, model);
    double *v = add_rows(trial, "v", o->n_batch, o->n_keys, model);
    double *q = add_rows(trial, "q", o->n_batch, o->n_queries, model);
    if (o->n_queries == 1 && dice_bool(&trial->dice)) {
        /* [batch, width]: a length of one is understood */
        struct attn_tensor *rows = &trial->call.inputs[2].tensor;
        rows->rank = 2;
        rows->shape[1] = model;
    }
    o->query = project(trial, q, o->n_queries, model, model, "q_layer");
    o->key = project(trial, k, o->n_keys, model, model, "k_layer");
    o->value = project(trial, v, o->n_keys, model, model, "v_layer");
    o->scale = 1 / sqrt((double)(by_head ? o->width : model));
    add_mask(trial, "mask", speech_forms, COUNT(speech_forms), true);
    oracle_attend(&trial->pool, o);
    trial->expected =
        project(trial, o->context, o->n_queries, model, model, "output_layer");
    check_trial(trial, "output");
}

/* ---- causal -------------------------------------------------------------------------------- */

enum module {
    NO_MODULE,
    BATCH_NORM,
    DROPOUT,
    GROUP_NORM,
    INSTANCE_NORM,
    LAYER_NORM,
    N_NORMS,
    RELU = N_NORMS,
    SIGMOID,
    SOFTMAX,
    TANH,
    N_MODULES
};

/* A module's option: a GroupNorm has two groups, a SoftMax runs along `axis`. */
static struct attn_option module_of(const char *role, enum module module,
                                    struct attn_option *own, int64_t axis)
{
    static const char *const types[] = {
        NULL,        "BatchNorm", "Dropout", "GroupNorm", "InstanceNorm",
        "LayerNorm", "ReLU",      "Sigmoid", "SoftMax",   "Tanh"};
    if (module == NO_MODULE) {
        return (struct attn_option){.name = role, .type = ATTN_OPTION_NULL};
    }
    *own = module == GROUP_NORM ? attn_int("num_groups", 2) : attn_int("dim", axis);
    return module_option(role, types[module], own,
                         module == GROUP_NORM || module == SOFTMAX);
}

static void apply_module(struct trial *trial, const char *role, enum module module,
                         const size_t shape[3], int axis)
{
    double *x = trial->expected;
    const float *parameters[4];
    static const char *const names[] = {"gamma", "beta", "running_mean", "running_var"};
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", role, names[i]);
        parameters[i] = made_values(&trial->made, name);
    }
    const struct oracle_post post = {parameters[0], parameters[1], parameters[2],
                                     parameters[3]};
    size_t n = shape[0] * shape[1] * shape[2];
    if (module == GROUP_NORM || module == INSTANCE_NORM || module == LAYER_NORM) {
        size_t n_groups = module == GROUP_NORM ? 2 : module == LAYER_NORM ? 1 : shape[1];
        trial->tolerance *=
            oracle_group_norm(x, shape[0], shape[1], shape[2], n_groups, &post);
    } else if (module == BATCH_NORM) {
        oracle_batch_norm(x, shape[0], shape[1], shape[2], &post);
        trial->tolerance *= 2; /* variances are at least 1/4 */
    } else if (module == SOFTMAX) {
        oracle_softmax_axis(x, shape, axis);
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = module == RELU      ? fmax(x[i], 0)
               : module == SIGMOID ? 1 / (1 + exp(-x[i]))
               : module == TANH    ? tanh(x[i])
                                   : x[i];
    }
}

/* Queries, keys and values are columns of one product. */
static void cut_fused(struct trial *trial, const double *fused, size_t model)
{
    struct oracle *o = &trial->oracle;
    size_t n_rows = o->n_batch * o->n_queries;
    double *parts[3];
    for (size_t part = 0; part < 3; part++) {
        parts[part] = pool_take(&trial->pool, n_rows * model);
        for (size_t i = 0; i < n_rows * model; i++) {
            parts[part][i] = fused[i / model * 3 * model + part * model + i % model];
        }
    }
    o->query = parts[0];
    o->key = parts[1];
    o->value = parts[2];
}

static enum module any_module(struct dice *dice, enum module from, enum module below)
{
    return (enum module)(from + dice_below(dice, (size_t)(below - from)));
}

static bool per_position(enum module module)
{
    return module == BATCH_NORM || module == GROUP_NORM || module == INSTANCE_NORM ||
           module == LAYER_NORM;
}

static void run_causal_mha(struct trial *trial)
{
    struct oracle *o = &trial->oracle;
    struct attn_option own[2];
    set_sizes(trial, 33);
    bool single = dice_below(&trial->dice, 6) == 0;
    o->n_heads = single ? 1 : o->n_heads;
    o->value_width = o->width = single ? 1 : o->width;
    static const size_t long_ones[] = {112, 114, 128, 130, 226, 258};
    size_t model = o->n_heads * o->width,
           length = dice_below(&trial->dice, 4)
                        ? 2 + 2 * dice_below(&trial->dice, 17)
                        : long_ones[dice_below(&trial->dice, COUNT(long_ones))];
    enum module first = single ? NO_MODULE : any_module(&trial->dice, NO_MODULE, N_NORMS);
    enum module second = any_module(&trial->dice, single ? RELU : NO_MODULE, N_MODULES);
    int axis = (int)dice_below(&trial->dice, 3);
    o->causal = dice_bool(&trial->dice);
    struct attn_spec spec = good_spec(
        "causal_mha",
        LIST(ints_option("output_shape", single ? 1 : 2, (int64_t)length, (int64_t)model),
             attn_int("n_heads", (int64_t)o->n_heads), attn_bool("use_mask", o->causal),
             module_of("normalisation", first, &own[0], axis),
             module_of("activation", second, &own[1], axis)));
    make_trial(trial, spec);
    bool exact = per_position(first) || per_position(second);
    o->n_queries = o->n_keys = exact ? length : 1 + dice_below(&trial->dice, length);
    trial->n_score_batch = o->n_batch;
    double *input = add_rows(trial, "input", o->n_batch, o->n_queries, model);
    cut_fused(trial,
              oracle_linear(&trial->pool, input, o->n_batch * o->n_queries, model,
                            3 * model, made_values(&trial->made, "input_linear.weights"),
                            true, made_values(&trial->made, "input_linear.biases")),
              model);
    o->scale = 1 / sqrt((double)model);
    oracle_attend(&trial->pool, o);
    trial->expected = o->context;
    const size_t shape[] = {o->n_batch, o->n_queries, model};
    apply_module(trial, "normalisation", first, shape, axis);
    apply_module(trial, "activation", second, shape, axis);
    check_trial(trial, "output");
}

/* ---- relational ---------------------------------------------------------------------------- */

/* Sometimes add a dense relation, each axis full or 1; the result has every axis at full length. */
static double *add_relation(struct trial *trial, const char *name, size_t rank,
                            const size_t *full, bool blocks)
{
    struct dice *dice = &trial->dice;
    size_t shape[5], n = 1;
    if (dice_bool(dice)) {
        return NULL;
    }
    for (size_t i = 0; i < rank; i++) {
        shape[i] = dice_below(dice, 3) ? full[i] : 1;
        n *= full[i];
    }
    float *data = call_add_reals(&trial->call, dice, name, rank, shape);
    size_t n_data = count_of(&trial->call.inputs[trial->call.n - 1].tensor);
    for (size_t i = 0; blocks && i < n_data; i++) {
        data[i] = dice_below(dice, 6) ? data[i] : -INFINITY;
    }
    double *relation = pool_take(&trial->pool, n);
    for (size_t at = 0; at < n; at++) {
        size_t place = 0, stride = 1, rest = at;
        for (size_t i = rank; i-- > 0; rest /= full[i]) {
            place += shape[i] == 1 ? 0 : rest % full[i] * stride;
            stride *= shape[i];
        }
        relation[at] = (double)data[place];
    }
    return relation;
}

/* Edges, some of them several times over, and both lists in either type of integer. */
static void add_edges(struct trial *trial, size_t n_types)
{
    struct oracle *o = &trial->oracle;
    struct dice *dice = &trial->dice;
    bool possible = n_types && o->n_queries && o->n_keys;
    if (dice_below(dice, 4) == 0) {
        return;
    }
    o->n_edges = possible ? dice_below(dice, 3 * o->n_queries) : 0;
    const size_t shape[] = {o->n_edges, 3};
    int64_t *edges = call_add(&trial->call, "edges", ATTN_I64, 2, shape);
    int32_t *types = call_add(&trial->call, "edge_types", ATTN_I32, 1, shape);
    o->types = trial->types = need_memory(o->n_edges * sizeof *trial->types);
    o->edges = edges;
    for (size_t e = 0; e < o->n_edges; e++) {
        bool again = e > 0 && dice_below(dice, 3) == 0;
        edges[3 * e] = again ? edges[3 * e - 3] : (int64_t)dice_below(dice, o->n_batch);
        edges[3 * e + 1] =
            again ? edges[3 * e - 2] : (int64_t)dice_below(dice, o->n_queries);
        edges[3 * e + 2] =
            again ? edges[3 * e - 1] : (int64_t)dice_below(dice, o->n_keys);
        types[e] = (int32_t)dice_below(dice, n_types);
        trial->types[e] = types[e];
    }
}

static double *add_heads(struct trial *trial, const char *name, size_t length,
                         size_t width)
{
    const size_t shape[] = {trial->oracle.n_batch, length, trial->oracle.n_heads, width};
    const float *data = call_add_reals(&trial->call, &trial->dice, name, 4, shape);
    return pool_doubles(&trial->pool, data, shape[0] * length * shape[2] * width);
}

static void run_relational_mha(struct trial *trial)
{
    struct oracle *o = &trial->oracle;
    set_sizes(trial, 17); /* scores are not scaled */
    size_t n_types = dice_below(&trial->dice, 4), out = 1 + dice_below(&trial->dice, 40);
    bool value_biases = dice_bool(&trial->dice);
    o->scalar = dice_bool(&trial->dice);
    struct attn_spec spec = good_spec(
        "relational_mha",
        LIST(attn_int("num_heads", (int64_t)o->n_heads),
             attn_int("num_edge_types", (int64_t)n_types),
             attn_int("key_query_dimension", (int64_t)o->width),
             attn_int("value_dimension", (int64_t)o->value_width),
             attn_int("output_dimension", (int64_t)out), attn_real("dropout_rate", 0.5),
             attn_bool("use_edge_value_biases", value_biases),
             attn_bool("edge_attention_bias_is_scalar", o->scalar)));
    make_trial(trial, spec);
    trial->n_score_batch = o->n_batch;
    o->query = add_heads(trial, "queries", o->n_queries, o->width);
    o->key = add_heads(trial, "keys", o->n_keys, o->width);
    o->value = add_heads(trial, "values", o->n_keys, o->value_width);
    o->scale = 1;
    size_t per_type = o->n_heads * (o->scalar ? 1 : o->width);
    o->edge_bias = pool_doubles(
        &trial->pool, made_values(&trial->made, "_edge_attention_biases.weight"),
        n_types * per_type);
    o->edge_value_bias =
        pool_doubles(&trial->pool, made_values(&trial->made, "_edge_value_biases.weight"),
                     n_types * o->n_heads * o->value_width);
    add_edges(trial, n_types);
    const size_t full[] = {o->n_batch, o->n_queries, o->n_keys, o->n_heads,
                           o->value_width};
    o->kq = add_relation(trial, "dense_relations_kq", 4, full, true);
    o->kv = add_relation(trial, "dense_relations_kv", 5, full, false);
    add_mask(trial, "masked_elements", relational_forms, COUNT(relational_forms), false);
    oracle_attend(&trial->pool, o);
    trial->expected = project(trial, o->context, o->n_queries,
                              o->n_heads * o->value_width, out, "_out_proj");
    check_trial(trial, "output");
}

/* ---- all ----------------------------------------------------------------------------------- */

typedef void run_trial(struct trial *trial);
static run_trial *const presets[] = {run_routing_mha, run_routing_mha_proj,
                                     run_speech_mha, run_causal_mha, run_relational_mha};

START_TEST(random_calls)
{
    for (size_t seed = 0; seed < N_TRIALS; seed++) {
        struct trial trial = {.seed = seed, .dice = {seed * 8 + (size_t)_i}};
        presets[_i](&trial);
        trial_free(&trial);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forward");
    TCase *tcase = tcase_create("forward");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_loop_test(tcase, random_calls, 0, (int)COUNT(presets));
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
