/* test_plan.c - calls that do not fit the layer or the mode, by name, type and shape: each is refused
 * with the input's name, what was expected and what came. And modes that contradict themselves. */
#include "unit/lib/written_inputs.h"

struct bad {
    const char *inputs;
    enum attn_status status;
    const char *field;
    const char *part; /* of the message */
};

static void check_bad_mode(const attn_layer *layer, const struct attn_mode *mode,
                           const struct bad *cases, size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++) {
        struct written written;
        read_written(&written, cases[i].inputs);
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        enum attn_status status = attn_plan_create(layer, mode, written.inputs, written.n,
                                                   NULL, 0, &plan, &error);
        ck_assert_msg(status == cases[i].status && error.status == status,
                      "%s: status %d: %s", cases[i].inputs, status, error.message);
        ck_assert_msg(strcmp(error.field, cases[i].field) == 0, "%s: field %s",
                      cases[i].inputs, error.field);
        ck_assert_msg(strstr(error.message, cases[i].part) != NULL,
                      "%s: expected '%s' in: %s", cases[i].inputs, cases[i].part,
                      error.message);
        ck_assert(plan == NULL);
    }
}

static void check_bad(const attn_layer *layer, const struct bad *cases, size_t n_cases)
{
    check_bad_mode(layer, NULL, cases, n_cases);
}

/* ---- routing ------------------------------------------------------------------------------- */

#define QK "query F32 2 3 8; key F32 2 5 8"
#define QKV QK "; value F32 2 5 6"

START_TEST(routing_mha_names_and_types)
{
    static const struct bad cases[] = {
        {"", ATTN_MISSING, "query", "expected by routing_mha, and missing"},
        {QK, ATTN_MISSING, "value", "missing"},
        {QKV "; h F32 1", ATTN_UNKNOWN, "h",
         "unknown to routing_mha, which takes query, key, value, mask"},
        {QKV "; query F32 2 3 8", ATTN_INVALID, "query", "given twice"},
        {"query F64 2 3 8", ATTN_DTYPE, "query", "expected type F32, got F64"},
        {QKV "; mask U8 1", ATTN_DTYPE, "mask", "expected type BOOL, got U8"},
        {QKV "; mask none 1", ATTN_DTYPE, "mask", "expected type BOOL, got unknown"},
    };
    struct made made = make("routing_mha", MODEL_6_2);
    check_bad(made.layer, cases, COUNT(cases));
    made_free(&made);
}
END_TEST

START_TEST(routing_mha_shapes)
{
    static const struct bad cases[] = {
        {"query F32; key F32 2 5 8; value F32 2 5 6", ATTN_SHAPE, "query",
         "expected [batch, length, a multiple of 2 heads], got []"},
        {"query F32 3 8; key F32 2 5 8; value F32 2 5 6", ATTN_SHAPE, "query",
         "got [3, 8]"},
        {"query F32 2 3 8 1 1 1 1 1 1", ATTN_SHAPE, "query",
         "expected a rank of at most 8, got 9"},
        {"query F32 2 3 8 1 1 1 1 1; key F32 2 5 8; value F32 2 5 6", ATTN_SHAPE, "query",
         "got [2, 3, 8, 1, 1, 1, 1, 1]"},
        {"query F32 2 3 7; key F32 2 5 8; value F32 2 5 6", ATTN_SHAPE, "query",
         "a multiple of 2 heads], got [2, 3, 7]"},
        {"query F32 18446744073709551615 2 8", ATTN_SHAPE, "query", "is too large"},
        {"query F32 " HUGE_AXIS " 1 4", ATTN_SHAPE, "query", "is too large"},
        {"query F32 " HUGE_AXIS " 1 1", ATTN_SHAPE, "query",
         "shape [" HUGE_AXIS ", 1, 1] is too large"},
        {"query F32 2305843009213693952 1 1", ATTN_SHAPE, "query", "is too large"},
        {"query F32 2 3 8; key F32 2 5 6; value F32 2 5 6", ATTN_SHAPE, "key",
         "expected heads of width 4, as 'query' has, got 3"},
        {QK "; value F32 2 5 8", ATTN_SHAPE, "value",
         "expected [batch, length, 6], got [2, 5, 8]"},
        {QK "; value F32 2 4 6", ATTN_SHAPE, "value",
         "expected 5 rows, one for each key, got 4"},
        {"query F32 2 3 8; key F32 3 5 8; value F32 2 5 6", ATTN_SHAPE, "key",
         "expected a batch of 2, as 'query' has, got 3"},
        {"query F32 1 3 8; key F32 2 5 8; value F32 3 5 6", ATTN_SHAPE, "value",
         "expected a batch of 2, as 'key' has, got 3"},
        {"query F32 2 3 8; key F32 0 5 8; value F32 0 5 6", ATTN_SHAPE, "key",
         "expected a batch of 2, as 'query' has, got 0"},
    };
    struct made made = make("routing_mha", MODEL_6_2);
    check_bad(made.layer, cases, COUNT(cases));
    made_free(&made);
}
END_TEST

START_TEST(routing_mha_masks)
{
    static const struct bad cases[] = {
        {QKV "; mask BOOL 4", ATTN_SHAPE, "mask",
         "expected [heads=2, batch=2, queries=3, keys=5] or [batch=2, queries=3, keys=5] "
         "or [queries=3, keys=5] or [keys=5] or [], each axis that size or 1, got [4]"},
        {QKV "; mask BOOL 2 5", ATTN_SHAPE, "mask",
         "got [2, 5]; for one row of keys a sample give [batch, 1, keys]"},
        {QKV "; mask BOOL 3 4", ATTN_SHAPE, "mask", "or 1, got [3, 4]"},
        {QKV "; mask BOOL 3 1 5", ATTN_SHAPE, "mask", "got [3, 1, 5]"},
        {QKV "; mask BOOL 2 2 1 6", ATTN_SHAPE, "mask", "got [2, 2, 1, 6]"},
        {QKV "; mask BOOL 1 1 1 1 1", ATTN_SHAPE, "mask", "got [1, 1, 1, 1, 1]"},
        {QKV "; mask BOOL 1 2 1 1 1 1 1 1", ATTN_SHAPE, "mask", "got [1, 2"},
        {QKV "; mask BOOL 0", ATTN_SHAPE, "mask", "got [0]"},
    };
    struct made made = make("routing_mha", MODEL_6_2);
    check_bad(made.layer, cases, COUNT(cases));
    made_free(&made);
}
END_TEST

START_TEST(routing_mha_proj_calls)
{
    static const struct bad cases[] = {
        {"h F32 2 5 6", ATTN_MISSING, "q", "missing"},
        {"q F32 2 3 8", ATTN_SHAPE, "q", "expected [batch, length, 6], got [2, 3, 8]"},
        {"q F32 2 3 6; h F32 2 6", ATTN_SHAPE, "h",
         "expected [batch, length, 6], got [2, 6]"},
        {"q F32 2 3 6; h F32 3 5 6", ATTN_SHAPE, "h",
         "expected a batch of 2, as 'q' has, got 3"},
        {"q F32 2 3 6; value F32 1", ATTN_UNKNOWN, "value", "which takes q, h, mask"},
    };
    struct made made = make("routing_mha_proj", MODEL_6_2);
    check_bad(made.layer, cases, COUNT(cases));
    /* a batch of one serves any */
    attn_plan *plan = good_plan(made.layer, "q F32 1 3 6; h F32 4 5 6", NULL, 0);
    ck_assert_uint_eq(attn_plan_output(plan, 0)->tensor.shape[0], 4);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

START_TEST(routing_score_calls)
{
    static const struct bad cases[] = {
        {"query F32; key F32 2 3", ATTN_SHAPE, "query",
         "expected [..., queries, width] or [width], got []"},
        {"query F32 3; key F32 3", ATTN_SHAPE, "key",
         "expected [..., keys, width], got [3]"},
        {"query F32 2 3; key F32 5 4", ATTN_SHAPE, "key",
         "expected a width of 3, as 'query' has, got 4"},
        {"query F32 2 4 1 3; key F32 3 5 3", ATTN_SHAPE, "key",
         "leading axes [3, 5, 3] do not broadcast with those of 'query' [2, 4, 1, 3]"},
        {"query F32 2 4 3; key F32 2 5 3; mask BOOL 2 5", ATTN_SHAPE, "mask",
         "expected the scores' shape [2, 4, 5], right-aligned, each axis that size or 1, "
         "got [2, 5]; for one row of keys a sample give [batch, 1, keys]"},
        {"query F32 2 3; key F32 5 3; mask BOOL 1 2 5", ATTN_SHAPE, "mask",
         "the scores' shape [2, 5], right-aligned"},
        {"query F32 " HUGE_AXIS " 0; key F32 4 0", ATTN_TOO_LARGE, "logits",
         "is too large"},
    };
    static const size_t expected[8] = {2, 1, 1, 7, 1, 3, 4, 6};
    struct made made = make("routing_score", NULL, 0);
    check_bad(made.layer, cases, COUNT(cases));
    attn_plan *plan = good_plan(
        made.layer, "query F32 2 1 1 1 1 3 4 5; key F32 1 1 1 7 1 1 6 5", NULL, 0);
    ck_assert_uint_eq(attn_plan_output(plan, 0)->tensor.rank, 8);
    ck_assert_mem_eq(attn_plan_output(plan, 0)->tensor.shape, expected, sizeof expected);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

/* ---- speech -------------------------------------------------------------------------------- */

#define SPEECH "q F32 2 3 8; k F32 2 5 8; v F32 2 5 8"

START_TEST(speech_calls)
{
    static const struct bad cases[] = {
        {"q F32 2 3 8; k F32 2 5 8", ATTN_MISSING, "v", "expected by speech_mha"},
        {"q F32 2 3 7; k F32 2 5 8; v F32 2 5 8", ATTN_SHAPE, "q",
         "expected [batch, length, 8] or [batch, width], got [2, 3, 7]"},
        {"q F32 8; k F32 2 5 8; v F32 2 5 8", ATTN_SHAPE, "q", "got [8]"},
        {"q F32 2 3 8; k F32 2 5 8; v F32 2 4 8", ATTN_SHAPE, "v", "expected 5 rows"},
        {"q F32 2 3 8; k F32 2 5 8; v F32 2 8", ATTN_SHAPE, "v", "expected 5 rows"},
        {"q F32 1 3 8; k F32 2 5 8; v F32 2 5 8", ATTN_SHAPE, "k",
         "expected a batch of 1, as 'q' has, got 2"},
        {"q F32 2 3 8; k F32 2 5 8; v F32 1 5 8", ATTN_SHAPE, "v", "a batch of 2"},
        {SPEECH "; mask I64 2 1 5", ATTN_DTYPE, "mask", "got I64"},
        {SPEECH "; mask BOOL 2 5", ATTN_SHAPE, "mask",
         "expected [batch=2, queries=3, keys=5] or [heads=4, keys=5] or [queries=3], "
         "each "
         "axis that size or 1, got [2, 5]; for one row of keys a sample give [batch, 1, "
         "keys]"},
        {SPEECH "; mask BOOL 5", ATTN_SHAPE, "mask", "got [5]"},
        {SPEECH "; mask BOOL", ATTN_SHAPE, "mask", "got []"},
        {SPEECH "; mask BOOL 2 4 3 5", ATTN_SHAPE, "mask", "got [2, 4, 3, 5]"},
        {SPEECH "; mask BOOL 2 7 5", ATTN_SHAPE, "mask", "got [2, 7, 5]"},
    };
    struct made made = make("speech_mha", SPEECH_4_8);
    check_bad(made.layer, cases, COUNT(cases));
    attn_plan *plan = good_plan(made.layer, "q F32 2 8; k F32 2 8; v F32 2 1 8", NULL, 0);
    const struct attn_tensor *output = &attn_plan_output(plan, 0)->tensor;
    ck_assert(output->rank == 3 && output->shape[0] == 2 && output->shape[1] == 1);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

/* ---- causal -------------------------------------------------------------------------------- */

START_TEST(causal_calls)
{
    static const struct bad cases[] = {
        {"", ATTN_MISSING, "input", "missing"},
        {"input F32 6 4", ATTN_SHAPE, "input", "expected [batch, length, 4], got [6, 4]"},
        {"input F32 2 6 5", ATTN_SHAPE, "input", "got [2, 6, 5]"},
        {"input F32 2 7 4", ATTN_SHAPE, "input", "expected at most 6 positions, got 7"},
        {"input F32 2 6 4; mask BOOL 6 6", ATTN_UNKNOWN, "mask",
         "unknown to causal_mha, which takes input"},
    };
    static const struct bad exact[] = {
        {"input F32 2 5 4", ATTN_SHAPE, "input",
         "expected exactly 6 positions, for each of which the normalisation has "
         "parameters, got 5"},
        {"input F32 2 7 4", ATTN_SHAPE, "input", "got 7"},
        {"input F32 2 0 4", ATTN_SHAPE, "input", "got 0"},
    };
    const struct attn_option shape = ints_option("output_shape", 2, 6, 4);
    struct made made = make("causal_mha", LIST(shape, attn_bool("use_mask", false)));
    check_bad(made.layer, cases, COUNT(cases));
    attn_plan_free(good_plan(made.layer, "input F32 2 5 4", NULL, 0));
    made_free(&made);
    made = make("causal_mha",
                LIST(shape, module_option("activation", "BatchNorm", NULL, 0)));
    check_bad(made.layer, exact, COUNT(exact));
    made_free(&made);
    made = make("causal_mha", LIST(ints_option("output_shape", 1, 6, 0)));
    attn_plan *plan = good_plan(made.layer, "input F32 2 6 1", NULL, 0);
    const struct attn_tensor *output = &attn_plan_output(plan, 0)->tensor;
    ck_assert(output->rank == 2 && output->shape[0] == 2 && output->shape[1] == 6);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

/* ---- relational ---------------------------------------------------------------------------- */

#define ROWS "queries F32 2 4 3 5; keys F32 2 6 3 5; values F32 2 6 3 2"

START_TEST(relational_rows)
{
    static const struct bad cases[] = {
        {"queries F32 2 4 3 5; keys F32 2 6 3 5", ATTN_MISSING, "values",
         "expected by relational_mha"},
        {"queries F32 2 4 15; keys F32 2 6 3 5; values F32 2 6 3 2", ATTN_SHAPE,
         "queries", "expected [batch, length, heads=3, width=5], got [2, 4, 15]"},
        {"queries F32 2 4 3 4; keys F32 2 6 3 5; values F32 2 6 3 2", ATTN_SHAPE,
         "queries", "got [2, 4, 3, 4]"},
        {"queries F32 2 4 3 5; keys F32 2 6 1 5; values F32 2 6 3 2", ATTN_SHAPE, "keys",
         "got [2, 6, 1, 5]"},
        {"queries F32 2 4 3 5; keys F32 2 6 3 5; values F32 2 6 3 5", ATTN_SHAPE,
         "values", "width=2], got [2, 6, 3, 5]"},
        {"queries F32 2 4 3 5; keys F32 2 6 3 5; values F32 2 1 3 2", ATTN_SHAPE,
         "values", "expected 6 rows"},
        {"queries F32 2 4 3 5; keys F32 1 6 3 5; values F32 2 6 3 2", ATTN_SHAPE, "keys",
         "expected a batch of 2, as 'queries' has, got 1"},
        {"queries F32 2 4 3 5; keys F32 2 6 3 5; values F32 1 6 3 2", ATTN_SHAPE,
         "values", "expected a batch of 2"},
        {ROWS "; masked_elements BOOL 6", ATTN_SHAPE, "masked_elements",
         "expected [batch=2, queries=4, keys=6] or [batch=2, keys=6], each axis"},
        {ROWS "; masked_elements BOOL", ATTN_SHAPE, "masked_elements", "got []"},
        {ROWS "; masked_elements BOOL 4 6", ATTN_SHAPE, "masked_elements", "got [4, 6]"},
        {ROWS "; masked_elements BOOL 2 4 6 3", ATTN_SHAPE, "masked_elements",
         "got [2, 4, 6, 3]"},
        {ROWS "; masked_elements F32 2 6", ATTN_DTYPE, "masked_elements",
         "expected type BOOL, got F32"},
    };
    struct made made = make("relational_mha", RELATIONAL_3_5_2_7);
    check_bad(made.layer, cases, COUNT(cases));
    made_free(&made);
}
END_TEST

START_TEST(relational_terms)
{
    static const struct bad cases[] = {
        {ROWS "; edges I64 4 3", ATTN_MISSING, "edge_types", "together with 'edges'"},
        {ROWS "; edge_types I64 4", ATTN_MISSING, "edges", "together with 'edge_types'"},
        {ROWS "; edges I64 4 2; edge_types I64 4", ATTN_SHAPE, "edges",
         "expected [edges, 3] of (sample, query, key), got [4, 2]"},
        {ROWS "; edges I64 4 4; edge_types I64 4", ATTN_SHAPE, "edges", "got [4, 4]"},
        {ROWS "; edges I64 0; edge_types I64 0", ATTN_SHAPE, "edges", "got [0]"},
        {ROWS "; edges I32 3 4 3; edge_types I32 4", ATTN_SHAPE, "edges",
         "got [3, 4, 3]"},
        {ROWS "; edges I64 4 3; edge_types I64 1", ATTN_SHAPE, "edge_types",
         "expected [4], one type for each edge, got [1]"},
        {ROWS "; edges I64 0 3; edge_types I64 1", ATTN_SHAPE, "edge_types",
         "expected [0]"},
        {ROWS "; edges I64 4 3; edge_types I32 4 1", ATTN_SHAPE, "edge_types",
         "got [4, 1]"},
        {ROWS "; edges F32 4 3; edge_types I32 4", ATTN_DTYPE, "edges",
         "expected type I64 or I32, got F32"},
        {ROWS "; edges I64 4 3; edge_types U32 4", ATTN_DTYPE, "edge_types",
         "expected type I64 or I32, got U32"},
        {ROWS "; dense_relations_kq F32 2 4 6", ATTN_SHAPE, "dense_relations_kq",
         "expected [batch=2, queries=4, keys=6, heads=3], each axis that size or 1, got "
         "[2, 4, 6]"},
        {ROWS "; dense_relations_kq F32 2 4 6 2", ATTN_SHAPE, "dense_relations_kq",
         "got [2, 4, 6, 2]"},
        {ROWS "; dense_relations_kq F32 3 4 6 3", ATTN_SHAPE, "dense_relations_kq",
         "got [3, 4, 6, 3]"},
        {ROWS "; dense_relations_kq F32 0 1 1 1", ATTN_SHAPE, "dense_relations_kq",
         "got [0, 1, 1, 1]"},
        {ROWS "; dense_relations_kv F32 2 4 6 3", ATTN_SHAPE, "dense_relations_kv",
         "keys=6, heads=3, width=2], each axis that size or 1, got [2, 4, 6, 3]"},
        {ROWS "; dense_relations_kv F32 2 4 6 3 5", ATTN_SHAPE, "dense_relations_kv",
         "got [2, 4, 6, 3, 5]"},
        {ROWS "; dense_relations_kv F16 1 1 1 1 1", ATTN_DTYPE, "dense_relations_kv",
         "got F16"},
    };
    struct made made = make("relational_mha", RELATIONAL_3_5_2_7);
    check_bad(made.layer, cases, COUNT(cases));
    made_free(&made);
}
END_TEST

/* ---- modes --------------------------------------------------------------------------------- */

#define MODE(...) \
    (&(const struct attn_mode){.size = sizeof(struct attn_mode), __VA_ARGS__})

START_TEST(modes_that_contradict)
{
    static const struct {
        struct attn_mode mode;
        const char *field, *part;
    } cases[] = {
        {{.size = 1}, "size", ", got 1"},
        {{.size = sizeof(struct attn_mode), .n_draws = 2}, "n_draws", "without training"},
        {{.size = sizeof(struct attn_mode),
          .training = true,
          .gradient = true,
          .n_draws = 1},
         "n_draws",
         "gradients are those of one draw"},
        {{.size = sizeof(struct attn_mode), .training = true, .n_draws = 1025},
         "n_draws",
         "expected at most 1024, got 1025"},
        {{.size = sizeof(struct attn_mode), .training = true, .n_draws = SIZE_MAX},
         "n_draws",
         "at most 1024"},
        {{.size = sizeof(struct attn_mode),
          .gradient = true,
          .reduction = (enum attn_reduction)3},
         "reduction",
         "none of enum attn_reduction"},
    };
    struct made made = make("speech_mha", SPEECH_4_8);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct bad bad = {SPEECH, ATTN_INVALID, cases[i].field, cases[i].part};
        check_bad_mode(made.layer, &cases[i].mode, &bad, 1);
    }
    made_free(&made);
}
END_TEST

START_TEST(training_calls)
{
    static const struct bad draws[] = {
        {SPEECH "; dropout_uniform F32 2 4 3 6", ATTN_SHAPE, "dropout_uniform",
         "expected [2, 4, 3, 5], got [2, 4, 3, 6]"},
        {SPEECH "; dropout_uniform F32 1 4 3 5", ATTN_SHAPE, "dropout_uniform",
         "got [1, 4, 3, 5]"},
        {SPEECH "; dropout_uniform F32 24 5", ATTN_SHAPE, "dropout_uniform",
         "got [24, 5]"},
        {SPEECH "; dropout_uniform F64 2 4 3 5", ATTN_DTYPE, "dropout_uniform",
         "expected type F32, got F64"},
        {SPEECH "; normalisation_uniform F32 2 3 8", ATTN_UNKNOWN,
         "normalisation_uniform", "which takes q, k, v, mask, dropout_uniform"},
        {SPEECH "; grad_output F32 2 3 8", ATTN_UNKNOWN, "grad_output", "unknown to"},
    };
    static const struct bad one_at_a_time[] = {
        {SPEECH "; dropout_uniform F32 2 4 3 5", ATTN_UNKNOWN, "dropout_uniform",
         "unknown to speech_mha"},
    };
    static const struct bad modules[] = {
        {"input F32 2 6 4; activation_uniform F32 2 5 4", ATTN_SHAPE,
         "activation_uniform", "expected [2, 6, 4], got [2, 5, 4]"},
        {"input F32 2 6 4; activation_uniform F32 12 4", ATTN_SHAPE, "activation_uniform",
         "got [12, 4]"},
        {"input F32 1 6 4", ATTN_SHAPE, "input",
         "expected at least 2 samples, of whose variance BatchNorm makes use in "
         "training, got 1"},
        {"input F32 0 6 4", ATTN_SHAPE, "input", "got 0"},
    };
    struct made made = make("speech_mha", SPEECH_4_8);
    check_bad_mode(made.layer, MODE(.training = true), draws, COUNT(draws));
    check_bad_mode(made.layer, MODE(.training = true, .n_draws = 2), one_at_a_time, 1);
    check_bad(made.layer, one_at_a_time, 1); /* nor at inference */
    made_free(&made);
    made = make("causal_mha", LIST(ints_option("output_shape", 2, 6, 4),
                                   module_option("normalisation", "BatchNorm", NULL, 0),
                                   module_option("activation", "Dropout", NULL, 0)));
    check_bad_mode(made.layer, MODE(.training = true), modules, COUNT(modules));
    made_free(&made);
}
END_TEST

START_TEST(gradient_calls)
{
    static const struct bad cases[] = {
        {SPEECH, ATTN_MISSING, "grad_output", "expected the cotangent of 'output'"},
        {SPEECH "; grad_output F32 2 3 7", ATTN_SHAPE, "grad_output",
         "expected [2, 3, 8], got [2, 3, 7]"},
        {SPEECH "; grad_output F32 6 8", ATTN_SHAPE, "grad_output", "got [6, 8]"},
        {SPEECH "; grad_output F32 1 3 8", ATTN_SHAPE, "grad_output", "got [1, 3, 8]"},
        {SPEECH "; grad_attention F32 2 4 3 4", ATTN_SHAPE, "grad_attention",
         "expected [2, 4, 3, 5], got [2, 4, 3, 4]"},
        {SPEECH "; grad_output F32 2 3 8; grad_attention F32 4 2 3 5", ATTN_SHAPE,
         "grad_attention", "got [4, 2, 3, 5]"},
        {SPEECH "; grad_output F16 2 3 8", ATTN_DTYPE, "grad_output", "got F16"},
        {SPEECH "; grad_output F32 2 3 8; grad_output F32 2 3 8", ATTN_INVALID,
         "grad_output", "given twice"},
        {SPEECH "; grad_output F32 2 3 8; dropout_uniform F32 2 4 3 5", ATTN_UNKNOWN,
         "dropout_uniform", "grad_output, grad_attention"},
    };
    static const struct bad scores[] = {
        {"query F32 2 3; key F32 5 3", ATTN_MISSING, "grad_output", "missing"},
        {"query F32 3; key F32 5 3; grad_output F32 1 5", ATTN_SHAPE, "grad_output",
         "expected [5], got [1, 5]"},
    };
    static const struct bad squeezed[] = {
        {"input F32 2 6 1; grad_output F32 2 6 1", ATTN_SHAPE, "grad_output",
         "expected [2, 6], got [2, 6, 1]"},
    };
    static const struct bad values[] = {
        {"query F32 1 3 8; key F32 1 5 8; value F32 0 5 6; grad_attention F32 1 2 3 5",
         ATTN_SHAPE, "value", "expected a sample or more"},
    };
    struct made made = make("speech_mha", SPEECH_4_8);
    check_bad_mode(made.layer, MODE(.gradient = true), cases, COUNT(cases));
    made_free(&made);
    made =
        make("routing_mha", LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2)));
    check_bad_mode(made.layer, MODE(.gradient = true), values, COUNT(values));
    made_free(&made);
    made = make("routing_score", NULL, 0);
    check_bad_mode(made.layer, MODE(.gradient = true), scores, COUNT(scores));
    made_free(&made);
    made = make("causal_mha", LIST(ints_option("output_shape", 1, 6, 0)));
    check_bad_mode(made.layer, MODE(.gradient = true), squeezed, 1);
    made_free(&made);
}
END_TEST

/* What comes unasked has no gradient of an input that was not given; asked for, it is missed. */
START_TEST(gradients_of_absent_inputs)
{
    static const char *const names[] = {"grad_h"};
    struct made made = make("routing_mha_proj", MODEL_6_2);
    struct written written;
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    read_written(&written, "q F32 2 3 6; grad_output F32 2 3 6");
    ck_assert_int_eq(attn_plan_create(made.layer, MODE(.gradient = true), written.inputs,
                                      written.n, NULL, 0, &plan, &error),
                     ATTN_OK);
    ck_assert_uint_eq(attn_plan_n_outputs(plan), 5);
    ck_assert_str_eq(attn_plan_output(plan, 0)->name, "grad_q");
    ck_assert_str_eq(attn_plan_output(plan, 1)->name, "grad.queryEncoder.weight");
    attn_plan_free(plan);
    plan = NULL;
    ck_assert_int_eq(attn_plan_create(made.layer, MODE(.gradient = true), written.inputs,
                                      written.n, names, 1, &plan, &error),
                     ATTN_MISSING);
    ck_assert_str_eq(error.field, "grad_h");
    ck_assert_ptr_null(plan);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tcase = tcase_create("plan");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, routing_mha_names_and_types);
    tcase_add_test(tcase, routing_mha_shapes);
    tcase_add_test(tcase, routing_mha_masks);
    tcase_add_test(tcase, routing_mha_proj_calls);
    tcase_add_test(tcase, routing_score_calls);
    tcase_add_test(tcase, speech_calls);
    tcase_add_test(tcase, causal_calls);
    tcase_add_test(tcase, relational_rows);
    tcase_add_test(tcase, relational_terms);
    tcase_add_test(tcase, modes_that_contradict);
    tcase_add_test(tcase, training_calls);
    tcase_add_test(tcase, gradient_calls);
    tcase_add_test(tcase, gradients_of_absent_inputs);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
