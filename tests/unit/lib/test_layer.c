/* test_layer.c - layers from weights: what is looked up, what is refused and how it is said, what a
 * client sees of a layer, and memory that runs out. */
#include "linear.h"
#include "unit/lib/failing_malloc.h"
#include "unit/lib/layers.h"

/* ---- files --------------------------------------------------------------------------------- */

/* A tensor of a file under construction; floats are zero unless data says otherwise. */
static struct attn_named_tensor tensor_of(const char *name, enum attn_dtype dtype,
                                          size_t rank, size_t rows, size_t columns)
{
    static const double zeros[64];
    return (struct attn_named_tensor){name, {dtype, rank, {rows, columns}, zeros}};
}

/* The weights of a causal layer of width 2, to be spoilt. */
enum { WEIGHTS, BIASES, GAMMA, BETA, MEAN, VARIANCE, N_TENSORS };
static void causal_tensors(struct attn_named_tensor tensors[N_TENSORS])
{
    tensors[WEIGHTS] = tensor_of("input_linear.weights", ATTN_F32, 2, 2, 6);
    tensors[BIASES] = tensor_of("input_linear.biases", ATTN_F32, 1, 6, 0);
    tensors[GAMMA] = tensor_of("normalisation.gamma", ATTN_F32, 2, 3, 2);
    tensors[BETA] = tensor_of("normalisation.beta", ATTN_F32, 2, 3, 2);
    tensors[MEAN] = tensor_of("normalisation.running_mean", ATTN_F32, 2, 3, 2);
    tensors[VARIANCE] = tensor_of("normalisation.running_var", ATTN_F32, 2, 3, 2);
}

static struct attn_spec causal_spec(void)
{
    return good_spec("causal_mha",
                     LIST(ints_option("output_shape", 2, 3, 2),
                          module_option("normalisation", "BatchNorm", NULL, 0)));
}

struct file {
    unsigned char *bytes;
    attn_weights *weights;
};

static struct file parse(const struct attn_named_tensor *tensors, size_t n)
{
    struct file file = {0};
    struct attn_error error = {0};
    size_t n_bytes;
    file.bytes = weights_file(tensors, n, &n_bytes);
    enum attn_status status =
        attn_weights_parse(file.bytes, n_bytes, &file.weights, &error);
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    return file;
}

static void file_free(struct file *file)
{
    attn_weights_free(file->weights);
    free(file->bytes);
}

static attn_layer *create(const struct attn_spec *spec, const attn_weights *weights)
{
    attn_layer *layer = NULL;
    struct attn_error error = {0};
    enum attn_status status = attn_layer_create(spec, weights, &layer, &error);
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    ck_assert(layer != NULL && error.status == ATTN_OK);
    return layer;
}

static void create_fails(const struct attn_spec *spec, const attn_weights *weights,
                         enum attn_status expected, const char *field, const char *part)
{
    attn_layer *layer = NULL;
    struct attn_error error = {0};
    enum attn_status status = attn_layer_create(spec, weights, &layer, &error);
    ck_assert_msg(status == expected, "%s: status %d, %s", field, status, error.message);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strstr(error.message, part) != NULL, "expected '%s' in: %s", part,
                  error.message);
    ck_assert(layer == NULL);
}

static void causal_fails(const struct attn_named_tensor *tensors, size_t n,
                         enum attn_status status, const char *field, const char *part)
{
    struct attn_spec spec = causal_spec();
    struct file file = parse(tensors, n);
    create_fails(&spec, file.weights, status, field, part);
    file_free(&file);
}

/* ---- what is refused ----------------------------------------------------------------------- */

START_TEST(missing_tensor)
{
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    causal_fails(tensors + 1, N_TENSORS - 1, ATTN_MISSING, "input_linear.weights",
                 "parameter 'input_linear.weights': expected tensor "
                 "'input_linear.weights' of shape [2, 6], found none");
    struct attn_spec spec = causal_spec();
    create_fails(&spec, NULL, ATTN_MISSING, "input_linear.weights", "found none");
    spec =
        good_spec("speech_mha", LIST(attn_int("num_heads", 2), attn_int("d_model", 4)));
    create_fails(&spec, NULL, ATTN_MISSING, "q_layer.weight",
                 "'q_layer.weight' of shape [4, 4], found none");
}
END_TEST

/* The name that was looked up is the file's own, so the message has it as well. */
START_TEST(missing_under_a_prefix)
{
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    struct attn_spec spec = causal_spec();
    struct file file = parse(tensors, N_TENSORS);
    ck_assert_int_eq(attn_weights_set_prefix(file.weights, "block.0.", NULL), ATTN_OK);
    create_fails(&spec, file.weights, ATTN_MISSING, "input_linear.weights",
                 "expected tensor 'block.0.input_linear.weights' of shape");
    file_free(&file);
}
END_TEST

START_TEST(wrong_shapes)
{
    struct attn_named_tensor tensors[N_TENSORS];
    static const struct {
        size_t which;
        size_t rank, rows, columns;
        const char *part;
    } cases[] = {
        {WEIGHTS, 2, 6, 2, "'input_linear.weights' of shape [2, 6], found [6, 2]"},
        {WEIGHTS, 1, 12, 0, "[2, 6], found [12]"},
        {WEIGHTS, 2, 2, 7, "[2, 6], found [2, 7]"},
        {WEIGHTS, 2, 0, 6, "[2, 6], found [0, 6]"},
        {WEIGHTS, 0, 0, 0, "[2, 6], found []"},
        {BIASES, 2, 1, 6, "'input_linear.biases' of shape [6], found [1, 6]"},
        {BIASES, 1, 2, 0, "[6], found [2]"},
        {GAMMA, 1, 2, 0, "'normalisation.gamma' of shape [3, 2], found [2]"},
        {BETA, 2, 2, 3, "'normalisation.beta' of shape [3, 2], found [2, 3]"},
        {VARIANCE, 2, 3, 1, "[3, 2], found [3, 1]"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        causal_tensors(tensors);
        const char *name = tensors[cases[i].which].name;
        tensors[cases[i].which] =
            tensor_of(name, ATTN_F32, cases[i].rank, cases[i].rows, cases[i].columns);
        causal_fails(tensors, N_TENSORS, ATTN_SHAPE, name, cases[i].part);
    }
}
END_TEST

START_TEST(wrong_types)
{
    static const enum attn_dtype dtypes[] = {
        ATTN_BOOL, ATTN_I8,  ATTN_I16, ATTN_I32,     ATTN_I64,    ATTN_U8,
        ATTN_U16,  ATTN_U32, ATTN_U64, ATTN_F8_E4M3, ATTN_F8_E5M2};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        struct attn_named_tensor tensors[N_TENSORS];
        causal_tensors(tensors);
        tensors[MEAN].tensor.dtype = dtypes[i];
        char part[128];
        snprintf(part, sizeof part, "of type F32, F64, F16 or BF16, found %s",
                 attn_dtype_name(dtypes[i]));
        causal_fails(tensors, N_TENSORS, ATTN_DTYPE, "normalisation.running_mean", part);
    }
}
END_TEST

START_TEST(double_beyond_float)
{
    double values[6] = {0, 1, 2, 3, 1e300, 5};
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    tensors[BIASES].tensor.dtype = ATTN_F64;
    tensors[BIASES].tensor.data = values;
    causal_fails(tensors, N_TENSORS, ATTN_RANGE, "input_linear.biases",
                 "'input_linear.biases': element 4 is beyond the range of F32");
}
END_TEST

/* A name that the layer does not have would otherwise change nothing, silently. */
START_TEST(renamed_but_unknown)
{
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    struct attn_spec spec = causal_spec();
    struct file file = parse(tensors, N_TENSORS);
    ck_assert_int_eq(attn_weights_rename(file.weights, "input_linear.weight",
                                         "input_linear.weights", NULL),
                     ATTN_OK);
    create_fails(&spec, file.weights, ATTN_UNKNOWN, "input_linear.weight",
                 "is not a parameter of causal_mha, which has input_linear.weights, ");
    spec = good_spec("routing_score", NULL, 0);
    create_fails(&spec, file.weights, ATTN_UNKNOWN, "input_linear.weight",
                 "routing_score, which has no parameters");
    file_free(&file);
}
END_TEST

/* ---- what a spec cannot be ------------------------------------------------------------------ */

START_TEST(impossible_specs)
{
    const struct attn_spec good = causal_spec();
    struct attn_spec spec = good;
    spec.size = 8;
    create_fails(&spec, NULL, ATTN_INVALID, "size", "expected");
    spec = good;
    spec.n_heads = 0;
    create_fails(&spec, NULL, ATTN_INVALID, "n_heads", "expected 1 to 2^24");
    spec = good;
    spec.n_heads = SIZE_MAX;
    create_fails(&spec, NULL, ATTN_INVALID, "n_heads", "expected 1 to 2^24");
    spec = good;
    spec.head_width = SIZE_MAX / 2;
    create_fails(&spec, NULL, ATTN_INVALID, "head_width", "wider than 2^24");
    spec = good;
    spec.fused.n_out = 5;
    create_fails(&spec, NULL, ATTN_INVALID, "fused", "the width of all heads");
    spec = good;
    snprintf(spec.key, sizeof spec.key, "other");
    create_fails(&spec, NULL, ATTN_INVALID, "fused", "needs one input");
    spec = good;
    spec.query_projection = spec.fused;
    spec.query_projection.n_out = 2;
    create_fails(&spec, NULL, ATTN_INVALID, "fused", "excludes single projections");
    spec = good;
    spec.normalisation.kind = ATTN_POST_GROUP_NORM;
    create_fails(&spec, NULL, ATTN_INVALID, "normalisation", "multiple of the groups");
    spec = good;
    spec.length = 0;
    create_fails(&spec, NULL, ATTN_INVALID, "normalisation", "need a length");
    spec = good;
    spec.activation = (struct attn_post_spec){.kind = ATTN_POST_SOFTMAX, .axis = 3};
    create_fails(&spec, NULL, ATTN_INVALID, "activation", "axis must be 0, 1 or 2");
    spec = good;
    spec.squeeze_output = true;
    create_fails(&spec, NULL, ATTN_INVALID, "squeeze_output", "width 1");
    spec = good;
    spec.clip = true;
    spec.clip_value = (double)NAN;
    create_fails(&spec, NULL, ATTN_INVALID, "clip_value", "finite");
    spec = good;
    spec.output[0] = '\0';
    create_fails(&spec, NULL, ATTN_INVALID, "query", "need names");
    spec = good;
    snprintf(spec.edge.edges, sizeof spec.edge.edges, "edges");
    create_fails(&spec, NULL, ATTN_INVALID, "edge", "types and a bias");
    spec = good_spec("routing_score", NULL, 0);
    snprintf(spec.attention, sizeof spec.attention, "attention");
    create_fails(&spec, NULL, ATTN_INVALID, "scores_only", "mask alone");
}
END_TEST

/* A name without an end must not be read past its array. */
START_TEST(endless_names)
{
    static const size_t offsets[] = {
        offsetof(struct attn_spec, kind),
        offsetof(struct attn_spec, query),
        offsetof(struct attn_spec, attention),
        offsetof(struct attn_spec, fused.weight),
        offsetof(struct attn_spec, fused.bias),
        offsetof(struct attn_spec, query_projection.weight),
        offsetof(struct attn_spec, key_projection.bias),
        offsetof(struct attn_spec, value_projection.weight),
        offsetof(struct attn_spec, output_projection.bias),
        offsetof(struct attn_spec, edge.value_bias),
        offsetof(struct attn_spec, normalisation.prefix),
        offsetof(struct attn_spec, activation.prefix),
        offsetof(struct attn_spec, mask.axes[4]),
    };
    static const size_t sizes[] = {32,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   ATTN_NAME_SIZE,
                                   32,
                                   32,
                                   5};
    for (size_t i = 0; i < COUNT(offsets); i++) {
        struct attn_spec spec = causal_spec();
        memset((char *)&spec + offsets[i], 'x', sizes[i]);
        create_fails(&spec, NULL, ATTN_INVALID, "names", "a name has no end");
    }
}
END_TEST

/* ---- what is taken ------------------------------------------------------------------------- */

START_TEST(optional_parameters)
{
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    struct attn_spec spec = causal_spec();
    struct file file = parse(tensors, 1);
    attn_layer *layer = create(&spec, file.weights);
    size_t packed = 0; /* the weight [2, 6] as the kernels read it */
    ck_assert(attni_linear_floats(2, 6, false, &packed));
    packed = (packed * sizeof(float) + 63) / 64 * 64;
    ck_assert_uint_eq(attn_layer_bytes(layer), packed); /* what is absent takes nothing */
    attn_layer_free(layer);
    file_free(&file);

    file = parse(tensors, N_TENSORS);
    layer = create(&spec, file.weights);
    ck_assert_uint_eq(attn_layer_bytes(layer), packed + 5 * 64);
    ck_assert_str_eq(attn_layer_spec(layer)->kind, "causal_mha");
    attn_layer_free(layer);
    file_free(&file);

    /* with no types of edges there is nothing to store */
    spec =
        good_spec("relational_mha",
                  LIST(attn_int("num_heads", 2), attn_int("num_edge_types", 0),
                       attn_int("key_query_dimension", 1), attn_int("value_dimension", 1),
                       attn_int("output_dimension", 1), attn_int("dropout_rate", 0),
                       attn_bool("use_edge_value_biases", true)));
    tensors[0] = tensor_of("_out_proj.weight", ATTN_F32, 2, 1, 2);
    tensors[1] = tensor_of("_edge_value_biases.weight", ATTN_F32, 2, 0, 2);
    file = parse(tensors, 2);
    attn_layer_free(create(&spec, file.weights));
    file_free(&file);
}
END_TEST

START_TEST(no_parameters)
{
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    attn_layer *layer = create(&spec, NULL);
    ck_assert_uint_eq(attn_layer_bytes(layer), 0);
    attn_layer_free(layer);
    attn_layer_free(NULL);
}
END_TEST

/* Output of a causal layer of length and width 1: its value, x * weight. */
static float value_of(const struct file *file)
{
    struct attn_spec spec =
        good_spec("causal_mha", LIST(ints_option("output_shape", 1, 1, 0)));
    attn_layer *layer = create(&spec, file->weights);
    float x = 2, y = 0;
    const struct attn_named_tensor input = {"input", {ATTN_F32, 3, {1, 1, 1}, &x}};
    attn_plan *plan = NULL;
    ck_assert_int_eq(attn_plan_create(layer, NULL, &input, 1, NULL, 0, &plan, NULL),
                     ATTN_OK);
    size_t n_bytes = 0;
    ck_assert_int_eq(attn_plan_scratch(plan, 1, &n_bytes), ATTN_OK);
    void *scratch = need_memory(n_bytes);
    ck_assert_int_eq(attn_forward(plan, &(float *){&y}, scratch, NULL, NULL), ATTN_OK);
    free(scratch);
    attn_plan_free(plan);
    attn_layer_free(layer);
    return y;
}

START_TEST(every_float_type)
{
    static const float f32[3] = {0, 0, 1.5f};
    static const double f64[3] = {0, 0, 1.5};
    static const uint16_t f16[3] = {0, 0, 0x3e00}, bf16[3] = {0, 0, 0x3fc0};
    static const struct attn_tensor values[] = {{ATTN_F32, 2, {1, 3}, f32},
                                                {ATTN_F64, 2, {1, 3}, f64},
                                                {ATTN_F16, 2, {1, 3}, f16},
                                                {ATTN_BF16, 2, {1, 3}, bf16}};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct attn_named_tensor tensor = {"input_linear.weights", values[i]};
        struct file file = parse(&tensor, 1);
        ck_assert_float_eq(value_of(&file), 3);
        file_free(&file);
    }
}
END_TEST

START_TEST(prefix_and_names)
{
    static const float right[3] = {0, 0, 1.5f}, wrong[3] = {0, 0, 7}, bias[3] = {0, 0, 1};
    const struct attn_named_tensor tensors[] = {
        {"input_linear.weights", {ATTN_F32, 2, {1, 3}, wrong}},
        {"a.input_linear.weights", {ATTN_F32, 2, {1, 3}, right}},
        {"elsewhere", {ATTN_F32, 1, {3}, bias}},
        {"unrelated", {ATTN_BOOL, 0, {0}, bias}}};
    struct file file = parse(tensors, COUNT(tensors));
    ck_assert_int_eq(attn_weights_set_prefix(file.weights, "a.", NULL), ATTN_OK);
    ck_assert_float_eq(value_of(&file), 3);
    ck_assert_int_eq(
        attn_weights_rename(file.weights, "input_linear.biases", "elsewhere", NULL),
        ATTN_OK);
    ck_assert_float_eq(value_of(&file), 4);
    file_free(&file);
}
END_TEST

/* ---- memory that runs out ------------------------------------------------------------------- */

START_TEST(allocations_fail)
{
    struct attn_named_tensor tensors[N_TENSORS];
    causal_tensors(tensors);
    struct attn_spec spec = causal_spec();
    struct file file = parse(tensors, N_TENSORS);
    attn_layer_free(create(&spec, file.weights)); /* whatever is made once only */
    for (size_t n = 0; FAILING_MALLOC; n++) {
        attn_layer *layer = NULL;
        struct attn_error error = {0};
        long n_live;
        failing_malloc_begin(n);
        enum attn_status status = attn_layer_create(&spec, file.weights, &layer, &error);
        attn_layer_free(layer);
        bool failed = failing_malloc_end(&n_live);
        ck_assert_int_eq(n_live, 0);
        ck_assert_int_eq(status, failed ? ATTN_NO_MEMORY : ATTN_OK);
        ck_assert_int_eq(error.status, status);
        ck_assert((layer != NULL) == !failed);
        if (!failed) {
            ck_assert_uint_ge(n, 2);
            break;
        }
    }
    file_free(&file);
}
END_TEST

START_TEST(plan_allocation_fails)
{
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    attn_layer *layer = create(&spec, NULL);
    const struct attn_named_tensor inputs[] = {{"query", {ATTN_F32, 2, {1, 0}, NULL}},
                                               {"key", {ATTN_F32, 2, {1, 0}, NULL}}};
    if (FAILING_MALLOC) {
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        long n_live;
        failing_malloc_begin(0);
        ck_assert_int_eq(attn_plan_create(layer, NULL, inputs, 2, NULL, 0, &plan, &error),
                         ATTN_NO_MEMORY);
        ck_assert(failing_malloc_end(&n_live) && n_live == 0 && plan == NULL);
        ck_assert_str_eq(error.message, "out of memory");
    }
    attn_layer_free(layer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layer");
    TCase *tcase = tcase_create("layer");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, missing_tensor);
    tcase_add_test(tcase, missing_under_a_prefix);
    tcase_add_test(tcase, wrong_shapes);
    tcase_add_test(tcase, wrong_types);
    tcase_add_test(tcase, double_beyond_float);
    tcase_add_test(tcase, renamed_but_unknown);
    tcase_add_test(tcase, impossible_specs);
    tcase_add_test(tcase, endless_names);
    tcase_add_test(tcase, optional_parameters);
    tcase_add_test(tcase, no_parameters);
    tcase_add_test(tcase, every_float_type);
    tcase_add_test(tcase, prefix_and_names);
    tcase_add_test(tcase, allocations_fail);
    tcase_add_test(tcase, plan_allocation_fails);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
