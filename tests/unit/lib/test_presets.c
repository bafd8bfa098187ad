/* test_presets.c - each preset's defaults, what each option does to the spec, and every way in which
 * options can be wrong. */
#include "unit/lib/layers.h"

#include <float.h>

static struct attn_option null_option(const char *name)
{
    return (struct attn_option){.name = name, .type = ATTN_OPTION_NULL};
}

/* The preset under these options is refused: status, field, and a part of the message. */
static void refused(const char *kind, enum attn_status expected, const char *field,
                    const char *part, const struct attn_option *options, size_t n)
{
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {0};
    enum attn_status status = attn_spec_preset(&spec, kind, options, n, &error);
    ck_assert_msg(status == expected, "%s, %s: status %d, %s", kind, part, status,
                  error.message);
    ck_assert_int_eq(error.status, expected);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strstr(error.message, part) != NULL, "expected '%s' in: %s", part,
                  error.message);
    ck_assert(strchr(error.message, '\n') == NULL);
}

/* ---- routing ------------------------------------------------------------------------------- */

static void check_routing_mask(const struct attn_spec *spec)
{
    static const char *const axes[5] = {"", "K", "QK", "BQK", "HBQK"};
    ck_assert_str_eq(spec->mask.name, "mask");
    ck_assert(!spec->mask.true_keeps);
    for (size_t rank = 0; rank < 5; rank++) {
        ck_assert_str_eq(spec->mask.axes[rank], axes[rank]);
    }
    ck_assert(spec->batch_broadcast && !spec->causal && !spec->single_row);
    ck_assert_int_eq(spec->scale, ATTN_SCALE_HEAD);
    ck_assert_int_eq(spec->empty_rows, ATTN_EMPTY_ZERO);
}

START_TEST(routing_score_options)
{
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    ck_assert_str_eq(spec.kind, "routing_score");
    ck_assert(spec.scores_only && spec.layout == ATTN_LAYOUT_FREE);
    ck_assert_str_eq(spec.query, "query");
    ck_assert_str_eq(spec.key, "key");
    ck_assert_str_eq(spec.output, "logits");
    ck_assert_str_eq(spec.attention, "");
    ck_assert(!spec.clip);
    ck_assert_double_eq(spec.clip_value, 10);
    check_routing_mask(&spec);
    struct attni_parameter parameters[ATTNI_MAX_PARAMETERS];
    ck_assert_uint_eq(attni_spec_parameters(&spec, parameters), 0);

    spec = good_spec("routing_score", LIST(attn_bool("use_tanh", true)));
    ck_assert(spec.clip && spec.clip_value == 10);
    spec = good_spec("routing_score",
                     LIST(attn_bool("use_tanh", true), attn_real("C", -2.5)));
    ck_assert(spec.clip && spec.clip_value == -2.5);
    spec = good_spec("routing_score", LIST(attn_int("C", 0)));
    ck_assert(!spec.clip && spec.clip_value == 0);
}
END_TEST

START_TEST(routing_mha_options)
{
    struct attn_spec spec = good_spec("routing_mha", LIST(attn_int("embedding_dim", 24)));
    ck_assert(spec.layout == ATTN_LAYOUT_ROWS && !spec.scores_only);
    ck_assert_uint_eq(spec.n_heads, 8);
    ck_assert_uint_eq(spec.head_width, 0); /* queries and keys may have another width */
    ck_assert_uint_eq(spec.value_head_width, 3);
    ck_assert_str_eq(spec.query, "query");
    ck_assert_str_eq(spec.key, "key");
    ck_assert_str_eq(spec.value, "value");
    ck_assert_str_eq(spec.output, "out");
    ck_assert_str_eq(spec.attention, "attention");
    ck_assert_str_eq(spec.output_projection.weight, "project_out.weight");
    ck_assert_str_eq(spec.output_projection.bias, "");
    ck_assert(!spec.output_projection.in_out && !spec.key_optional && !spec.clip);
    check_routing_mask(&spec);
    spec = good_spec("routing_mha",
                     LIST(attn_int("embedding_dim", 24), attn_int("n_heads", 3),
                          attn_bool("use_tanh", true), attn_int("C", 4)));
    ck_assert_uint_eq(spec.n_heads, 3);
    ck_assert_uint_eq(spec.value_head_width, 8);
    ck_assert(spec.clip && spec.clip_value == 4);
}
END_TEST

START_TEST(routing_mha_proj_options)
{
    struct attn_spec spec =
        good_spec("routing_mha_proj", LIST(attn_int("embedding_dim", 16)));
    ck_assert_uint_eq(spec.n_heads, 8);
    ck_assert_uint_eq(spec.head_width, 2);
    ck_assert_uint_eq(spec.value_head_width, 2);
    ck_assert_str_eq(spec.query, "q");
    ck_assert_str_eq(spec.key, "h");
    ck_assert_str_eq(spec.value, "h");
    ck_assert(spec.key_optional);
    ck_assert_str_eq(spec.query_projection.weight, "queryEncoder.weight");
    ck_assert_str_eq(spec.key_projection.weight, "keyEncoder.weight");
    ck_assert_str_eq(spec.value_projection.weight, "valueEncoder.weight");
    ck_assert_str_eq(spec.output_projection.weight, "MHA.project_out.weight");
    ck_assert_str_eq(spec.query_projection.bias, "");
    ck_assert_uint_eq(spec.query_projection.n_in, 16);
    ck_assert_uint_eq(spec.query_projection.n_out, 16);
    check_routing_mask(&spec);
}
END_TEST

START_TEST(routing_refusals)
{
    const struct attn_option width = attn_int("embedding_dim", 8);
    refused("routing_score", ATTN_UNKNOWN, "embedding_dim",
            "unknown to routing_score, which has use_tanh, C", LIST(width));
    refused("routing_score", ATTN_INVALID, "use_tanh", "expected a boolean, got null",
            LIST(null_option("use_tanh")));
    refused("routing_score", ATTN_INVALID, "C", "expected a number, got a boolean",
            LIST(attn_bool("C", true)));
    refused("routing_score", ATTN_INVALID, "C", "got nan",
            LIST(attn_real("C", (double)NAN)));
    refused("routing_score", ATTN_INVALID, "C", "got inf",
            LIST(attn_real("C", (double)INFINITY)));
    refused("routing_score", ATTN_INVALID, "C", "expected a number in [",
            LIST(attn_real("C", 2 * (double)FLT_MAX)));
    refused("routing_score", ATTN_INVALID, "C", "given twice",
            LIST(attn_int("C", 1), attn_int("C", 1)));
    refused("routing_mha", ATTN_MISSING, "embedding_dim", "routing_mha needs it",
            LIST(attn_int("n_heads", 2)));
    refused("routing_mha", ATTN_INVALID, "embedding_dim",
            "expected a multiple of the number of heads (8), got 12",
            LIST(attn_int("embedding_dim", 12)));
    refused("routing_mha", ATTN_INVALID, "n_heads",
            "expected an integer from 1 to 16777216, got 0",
            LIST(width, attn_int("n_heads", 0)));
    refused("routing_mha", ATTN_INVALID, "n_heads", "got -1",
            LIST(width, attn_int("n_heads", -1)));
    refused("routing_mha", ATTN_INVALID, "n_heads", "expected an integer, got a number",
            LIST(width, attn_real("n_heads", 2)));
    refused("routing_mha_proj", ATTN_INVALID, "embedding_dim", "got 16777217",
            LIST(attn_int("embedding_dim", 16777217)));
    refused("routing_mha_proj", ATTN_INVALID, "embedding_dim", "got 9223372036854775807",
            LIST(attn_int("embedding_dim", INT64_MAX)));
    refused("routing_mha_proj", ATTN_INVALID, "embedding_dim",
            "expected an integer, got a list of integers",
            LIST(ints_option("embedding_dim", 1, 8, 0)));
    refused("routing_mha_proj", ATTN_UNKNOWN, "dropout", "unknown to routing_mha_proj",
            LIST(width, attn_real("dropout", 0.5)));
}
END_TEST

/* ---- speech -------------------------------------------------------------------------------- */

START_TEST(speech_options)
{
    const struct attn_option heads = attn_int("num_heads", 4),
                             width = attn_int("d_model", 12);
    struct attn_spec spec = good_spec("speech_mha", LIST(heads, width));
    static const char *const axes[5] = {"-", "Q", "HK", "BQK", "-"};
    ck_assert_uint_eq(spec.n_heads, 4);
    ck_assert_uint_eq(spec.head_width, 3);
    ck_assert_uint_eq(spec.value_head_width, 3);
    ck_assert_double_eq(spec.dropout, 0.1);
    ck_assert_int_eq(spec.scale, ATTN_SCALE_MODEL);
    ck_assert(spec.mask.true_keeps && spec.single_row && !spec.batch_broadcast);
    for (size_t rank = 0; rank < 5; rank++) {
        ck_assert_str_eq(spec.mask.axes[rank], axes[rank]);
    }
    ck_assert_str_eq(spec.key, "k");
    ck_assert_str_eq(spec.value, "v");
    ck_assert_str_eq(spec.query, "q");
    ck_assert_str_eq(spec.mask.name, "mask");
    ck_assert_str_eq(spec.output, "output");
    ck_assert_str_eq(spec.attention, "attention");
    ck_assert_str_eq(spec.key_projection.weight, "k_layer.weight");
    ck_assert_str_eq(spec.key_projection.bias, "k_layer.bias");
    ck_assert_str_eq(spec.value_projection.bias, "v_layer.bias");
    ck_assert_str_eq(spec.query_projection.bias, "q_layer.bias");
    ck_assert_str_eq(spec.output_projection.weight, "output_layer.weight");
    ck_assert_str_eq(spec.output_projection.bias, "output_layer.bias");
    ck_assert(!spec.output_projection.bias_optional);

    spec = good_spec("speech_mha", LIST(heads, width, attn_int("dropout", 1),
                                        attn_bool("scale_dp_by_head", true)));
    ck_assert_double_eq(spec.dropout, 1);
    ck_assert_int_eq(spec.scale, ATTN_SCALE_HEAD);
}
END_TEST

START_TEST(speech_refusals)
{
    const struct attn_option heads = attn_int("num_heads", 4),
                             width = attn_int("d_model", 12);
    refused("speech_mha", ATTN_MISSING, "num_heads", "speech_mha needs it", LIST(width));
    refused("speech_mha", ATTN_MISSING, "d_model", "speech_mha needs it", LIST(heads));
    refused("speech_mha", ATTN_MISSING, "num_heads", "needs it", NULL, 0);
    refused("speech_mha", ATTN_INVALID, "d_model",
            "a multiple of the number of heads (4), got 10",
            LIST(heads, attn_int("d_model", 10)));
    refused("speech_mha", ATTN_INVALID, "num_heads", "from 1 to 16777216, got 0",
            LIST(attn_int("num_heads", 0), width));
    refused("speech_mha", ATTN_INVALID, "d_model", "expected an integer, got null",
            LIST(heads, null_option("d_model")));
    refused("speech_mha", ATTN_INVALID, "dropout", "expected a number in [0, 1], got 1.5",
            LIST(heads, width, attn_real("dropout", 1.5)));
    refused("speech_mha", ATTN_INVALID, "dropout", "got -0.1",
            LIST(heads, width, attn_real("dropout", -0.1)));
    refused("speech_mha", ATTN_INVALID, "scale_dp_by_head",
            "expected a boolean, got an integer",
            LIST(heads, width, attn_int("scale_dp_by_head", 1)));
    refused("speech_mha", ATTN_UNKNOWN, "n_heads",
            "which has num_heads, d_model, dropout, scale_dp_by_head",
            LIST(heads, width, attn_int("n_heads", 4)));
    refused("speech_mha", ATTN_INVALID, "d_model", "given twice",
            LIST(heads, width, width));
}
END_TEST

/* ---- causal -------------------------------------------------------------------------------- */

START_TEST(causal_options)
{
    const struct attn_option shape = ints_option("output_shape", 2, 6, 4);
    struct attn_spec spec = good_spec("causal_mha", LIST(shape));
    ck_assert_uint_eq(spec.length, 6);
    ck_assert_uint_eq(spec.n_heads, 1);
    ck_assert_uint_eq(spec.head_width, 4);
    ck_assert(spec.causal && !spec.squeeze_output);
    ck_assert_double_eq(spec.dropout, 0);
    ck_assert_int_eq(spec.scale, ATTN_SCALE_MODEL);
    ck_assert_int_eq(spec.activation.kind, ATTN_POST_NONE);
    ck_assert_int_eq(spec.normalisation.kind, ATTN_POST_NONE);
    ck_assert_str_eq(spec.mask.name, "");
    ck_assert_str_eq(spec.query, "input");
    ck_assert_str_eq(spec.key, "input");
    ck_assert_str_eq(spec.value, "input");
    ck_assert_str_eq(spec.output, "output");
    ck_assert_str_eq(spec.fused.weight, "input_linear.weights");
    ck_assert_str_eq(spec.fused.bias, "input_linear.biases");
    ck_assert_str_eq(spec.output_projection.weight, "");
    ck_assert(spec.fused.in_out && spec.fused.bias_optional);
    ck_assert_uint_eq(spec.fused.n_in, 4);
    ck_assert_uint_eq(spec.fused.n_out, 12);

    spec = good_spec("causal_mha",
                     LIST(shape, attn_int("n_heads", 2), attn_bool("use_mask", false),
                          attn_real("dropout", 0.25), ints_option("input_shape", 2, 6, 4),
                          null_option("activation"), null_option("normalisation")));
    ck_assert_uint_eq(spec.head_width, 2);
    ck_assert(!spec.causal);
    ck_assert_double_eq(spec.dropout, 0.25);

    spec = good_spec("causal_mha", LIST(ints_option("output_shape", 1, 5, 0),
                                        null_option("input_shape"),
                                        module_option("activation", "Tanh", NULL, 0)));
    ck_assert(spec.squeeze_output && spec.length == 5 && spec.head_width == 1);
    ck_assert_int_eq(spec.activation.kind, ATTN_POST_TANH);
}
END_TEST

/* A causal layer of length 6 with this module as its normalisation or activation. */
static struct attn_post_spec module_of(const char *role, const char *type,
                                       const struct attn_option *options, size_t n)
{
    struct attn_spec spec =
        good_spec("causal_mha", LIST(ints_option("output_shape", 2, 6, 4),
                                     module_option(role, type, options, n)));
    bool first = strcmp(role, "normalisation") == 0;
    struct attn_post_spec post = first ? spec.normalisation : spec.activation;
    ck_assert_str_eq(post.prefix, role);
    ck_assert_int_eq((first ? spec.activation : spec.normalisation).kind, ATTN_POST_NONE);
    return post;
}

START_TEST(causal_modules)
{
    static const char *const roles[] = {"normalisation", "activation"};
    for (size_t i = 0; i < COUNT(roles); i++) {
        struct attn_post_spec post = module_of(roles[i], "LayerNorm", NULL, 0);
        ck_assert(post.kind == ATTN_POST_GROUP_NORM && post.n_groups == 1);
        post = module_of(roles[i], "InstanceNorm", NULL, 0);
        ck_assert(post.kind == ATTN_POST_GROUP_NORM && post.n_groups == 6);
        post = module_of(roles[i], "GroupNorm", LIST(attn_int("num_groups", 3)));
        ck_assert(post.kind == ATTN_POST_GROUP_NORM && post.n_groups == 3);
        post = module_of(roles[i], "BatchNorm", NULL, 0);
        ck_assert(post.kind == ATTN_POST_BATCH_NORM && post.patience == 0.9);
        post = module_of(roles[i], "BatchNorm", LIST(attn_real("patience", 0.5)));
        ck_assert(post.patience == 0.5);
        post = module_of(roles[i], "Dropout", NULL, 0);
        ck_assert(post.kind == ATTN_POST_DROPOUT && post.probability == 0.5);
        post = module_of(roles[i], "Dropout", LIST(attn_real("p", 0.125)));
        ck_assert(post.probability == 0.125);
    }
    ck_assert_int_eq(module_of("activation", "ReLU", NULL, 0).kind, ATTN_POST_RELU);
    ck_assert_int_eq(module_of("activation", "Sigmoid", NULL, 0).kind, ATTN_POST_SIGMOID);
    ck_assert_int_eq(module_of("activation", "SoftMax", NULL, 0).axis, 2);
    for (int dim = -3; dim < 3; dim++) {
        struct attn_post_spec post =
            module_of("activation", "SoftMax", LIST(attn_int("dim", dim)));
        ck_assert(post.kind == ATTN_POST_SOFTMAX && post.axis == (dim + 3) % 3);
    }
}
END_TEST

START_TEST(causal_refusals)
{
    const struct attn_option shape = ints_option("output_shape", 2, 6, 4);
    const char *form = "expected [length, width] or [length], each from 1 to 2^24";
    refused("causal_mha", ATTN_MISSING, "output_shape", "causal_mha needs it", NULL, 0);
    refused("causal_mha", ATTN_INVALID, "output_shape",
            "expected a list of integers, got an integer",
            LIST(attn_int("output_shape", 4)));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(null_option("output_shape")));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(ints_option("output_shape", 0, 0, 0)));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(ints_option("output_shape", 3, 6, 4)));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(ints_option("output_shape", 2, 6, 0)));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(ints_option("output_shape", 2, -6, 4)));
    refused("causal_mha", ATTN_INVALID, "output_shape", form,
            LIST(ints_option("output_shape", 2, INT64_MAX, 4)));
    refused("causal_mha", ATTN_INVALID, "output_shape", "number of heads (3), got 4",
            LIST(shape, attn_int("n_heads", 3)));
    refused("causal_mha", ATTN_INVALID, "output_shape", "number of heads (2), got 1",
            LIST(ints_option("output_shape", 1, 6, 0), attn_int("n_heads", 2)));
    refused("causal_mha", ATTN_INVALID, "input_shape",
            "expected [6, 4], which output_shape asks for",
            LIST(shape, ints_option("input_shape", 2, 6, 5)));
    refused("causal_mha", ATTN_INVALID, "input_shape", "expected [6, 4]",
            LIST(shape, ints_option("input_shape", 1, 6, 0)));
    refused(
        "causal_mha", ATTN_INVALID, "input_shape", "expected [6, 1]",
        LIST(ints_option("output_shape", 1, 6, 0), ints_option("input_shape", 1, 6, 0)));
    refused("causal_mha", ATTN_INVALID, "use_mask", "expected a boolean, got an integer",
            LIST(shape, attn_int("use_mask", 1)));
    refused("causal_mha", ATTN_INVALID, "dropout", "expected a number in [0, 1), got 1",
            LIST(shape, attn_int("dropout", 1)));
    refused("causal_mha", ATTN_UNKNOWN, "d_model", "unknown to causal_mha",
            LIST(shape, attn_int("d_model", 4)));
    refused("causal_mha", ATTN_INVALID, "n_heads", "given twice",
            LIST(shape, attn_int("n_heads", 2), attn_int("n_heads", 1)));
}
END_TEST

/* A layer of length 6 whose module is wrong. */
static void module_refused(const char *role, const char *type, enum attn_status status,
                           const char *field, const char *part,
                           const struct attn_option *options, size_t n)
{
    refused("causal_mha", status, field, part,
            LIST(ints_option("output_shape", 2, 6, 4),
                 module_option(role, type, options, n)));
}

START_TEST(module_refusals)
{
    const char *n = "normalisation", *a = "activation";
    module_refused(n, "ReLU", ATTN_INVALID, n,
                   "types BatchNorm, Dropout, GroupNorm, InstanceNorm, LayerNorm, got "
                   "'ReLU'",
                   NULL, 0);
    module_refused(a, "GELU", ATTN_INVALID, a, "ReLU, Sigmoid, SoftMax, Tanh, got 'GELU'",
                   NULL, 0);
    module_refused(a, "relu", ATTN_INVALID, a, "got 'relu'", NULL, 0);
    module_refused(n, "GroupNorm", ATTN_INVALID, "normalisation.num_groups",
                   "expected a divisor of the length (6), got 4",
                   LIST(attn_int("num_groups", 4)));
    module_refused(n, "GroupNorm", ATTN_INVALID, "normalisation.num_groups", "got 32",
                   NULL, 0);
    module_refused(a, "GroupNorm", ATTN_INVALID, "activation.num_groups", "got 0",
                   LIST(attn_int("num_groups", 0)));
    module_refused(n, "LayerNorm", ATTN_UNKNOWN, "normalisation.num_groups",
                   "unknown to LayerNorm, which has no options",
                   LIST(attn_int("num_groups", 1)));
    module_refused(n, "BatchNorm", ATTN_INVALID, "normalisation.patience",
                   "expected a number in (0, 1), got 1", LIST(attn_int("patience", 1)));
    module_refused(n, "BatchNorm", ATTN_INVALID, "normalisation.patience", "got 0",
                   LIST(attn_int("patience", 0)));
    module_refused(n, "Dropout", ATTN_INVALID, "normalisation.p", "got 0",
                   LIST(attn_real("p", 0)));
    module_refused(n, "Dropout", ATTN_UNKNOWN, "normalisation.q",
                   "unknown to Dropout, which has p", LIST(attn_real("q", 0.5)));
    module_refused(a, "SoftMax", ATTN_INVALID, "activation.dim", "from -3 to 2, got 3",
                   LIST(attn_int("dim", 3)));
    module_refused(a, "SoftMax", ATTN_INVALID, "activation.dim", "got -4",
                   LIST(attn_int("dim", -4)));
    module_refused(a, "Tanh", ATTN_UNKNOWN, "activation.dim",
                   "unknown to Tanh, which has no options", LIST(attn_int("dim", 0)));
    module_refused(a, "SoftMax", ATTN_INVALID, "activation.dim", "given twice",
                   LIST(attn_int("dim", 0), attn_int("dim", 0)));
    refused("causal_mha", ATTN_INVALID, a,
            "expected a module {\"type\": …}, got a boolean",
            LIST(ints_option("output_shape", 2, 6, 4), attn_bool(a, true)));
    refused("causal_mha", ATTN_INVALID, n,
            "not possible with an output_shape of one axis",
            LIST(ints_option("output_shape", 1, 6, 0),
                 module_option(n, "LayerNorm", NULL, 0)));
    refused("causal_mha", ATTN_INVALID, a,
            "not possible with an output_shape of one axis",
            LIST(ints_option("output_shape", 1, 6, 0),
                 module_option(a, "BatchNorm", NULL, 0)));
}
END_TEST

/* ---- relational ---------------------------------------------------------------------------- */

#define RELATIONAL                                           \
    attn_int("num_heads", 3), attn_int("num_edge_types", 2), \
        attn_int("key_query_dimension", 5), attn_int("value_dimension", 4)
#define REST attn_int("output_dimension", 7), attn_real("dropout_rate", 0.5)

START_TEST(relational_options)
{
    struct attn_spec spec = good_spec("relational_mha", LIST(RELATIONAL, REST));
    static const char *const axes[5] = {"-", "-", "BK", "BQK", "-"};
    ck_assert(spec.layout == ATTN_LAYOUT_HEADS && spec.scale == ATTN_SCALE_ONE);
    ck_assert_uint_eq(spec.n_heads, 3);
    ck_assert_uint_eq(spec.edge.n_types, 2);
    ck_assert_uint_eq(spec.head_width, 5);
    ck_assert_uint_eq(spec.value_head_width, 4);
    ck_assert_uint_eq(spec.output_projection.n_in, 12);
    ck_assert_uint_eq(spec.output_projection.n_out, 7);
    ck_assert_double_eq(spec.dropout, 0.5);
    ck_assert(!spec.edge.scalar && !spec.mask.true_keeps && !spec.batch_broadcast);
    for (size_t rank = 0; rank < 5; rank++) {
        ck_assert_str_eq(spec.mask.axes[rank], axes[rank]);
    }
    ck_assert_str_eq(spec.query, "queries");
    ck_assert_str_eq(spec.key, "keys");
    ck_assert_str_eq(spec.value, "values");
    ck_assert_str_eq(spec.mask.name, "masked_elements");
    ck_assert_str_eq(spec.edge.edges, "edges");
    ck_assert_str_eq(spec.edge.types, "edge_types");
    ck_assert_str_eq(spec.dense_kq, "dense_relations_kq");
    ck_assert_str_eq(spec.dense_kv, "dense_relations_kv");
    ck_assert_str_eq(spec.output_projection.weight, "_out_proj.weight");
    ck_assert_str_eq(spec.edge.bias, "_edge_attention_biases.weight");
    ck_assert_str_eq(spec.edge.value_bias, "");

    spec = good_spec("relational_mha",
                     LIST(RELATIONAL, REST, attn_bool("use_edge_value_biases", true),
                          attn_bool("edge_attention_bias_is_scalar", true)));
    ck_assert(spec.edge.scalar);
    ck_assert_str_eq(spec.edge.value_bias, "_edge_value_biases.weight");
}
END_TEST

START_TEST(relational_refusals)
{
    refused("relational_mha", ATTN_MISSING, "output_dimension", "needs it",
            LIST(RELATIONAL, attn_real("dropout_rate", 0)));
    refused("relational_mha", ATTN_MISSING, "dropout_rate", "relational_mha needs it",
            LIST(RELATIONAL, attn_int("output_dimension", 7)));
    refused("relational_mha", ATTN_MISSING, "num_heads", "needs it", LIST(REST));
    refused("relational_mha", ATTN_INVALID, "num_heads", "given twice",
            LIST(RELATIONAL, REST, attn_int("num_heads", 3)));
    refused(
        "relational_mha", ATTN_INVALID, "dropout_rate", "in [0, 1), got 1",
        LIST(RELATIONAL, attn_int("output_dimension", 7), attn_int("dropout_rate", 1)));
    refused(
        "relational_mha", ATTN_INVALID, "output_dimension", "got 0",
        LIST(RELATIONAL, attn_int("output_dimension", 0), attn_int("dropout_rate", 0)));
    refused("relational_mha", ATTN_INVALID, "use_edge_value_biases", "expected a boolean",
            LIST(RELATIONAL, REST, attn_real("use_edge_value_biases", 1)));
    refused("relational_mha", ATTN_UNKNOWN, "dropout", "unknown to relational_mha",
            LIST(RELATIONAL, REST, attn_real("dropout", 0)));
    refused("relational_mha", ATTN_INVALID, "num_edge_types", "got -1",
            LIST(attn_int("num_heads", 3), attn_int("num_edge_types", -1)));
    /* each size is possible, all heads together are not */
    refused("relational_mha", ATTN_INVALID, "head_width", "wider than 2^24",
            LIST(attn_int("num_heads", 1 << 13), attn_int("num_edge_types", 0),
                 attn_int("key_query_dimension", 1 << 12), attn_int("value_dimension", 1),
                 REST));
    refused("relational_mha", ATTN_INVALID, "value_head_width", "at most 2^24",
            LIST(attn_int("num_heads", 1 << 24), attn_int("num_edge_types", 0),
                 attn_int("key_query_dimension", 1), attn_int("value_dimension", 1 << 24),
                 REST));
}
END_TEST

/* ---- kinds --------------------------------------------------------------------------------- */

START_TEST(kinds)
{
    static const char *const names[] = {"routing_score",    "routing_mha",
                                        "routing_mha_proj", "speech_mha",
                                        "causal_mha",       "relational_mha"};
    for (size_t i = 0; i < COUNT(names); i++) {
        ck_assert_str_eq(attn_preset_name(i), names[i]);
    }
    ck_assert_ptr_null(attn_preset_name(COUNT(names)));
    ck_assert_ptr_null(attn_preset_name(SIZE_MAX));
    refused("speech", ATTN_UNKNOWN, "kind",
            "expected one of routing_score, routing_mha, routing_mha_proj, speech_mha, "
            "causal_mha, relational_mha, got 'speech'",
            NULL, 0);
    refused("", ATTN_UNKNOWN, "kind", "got ''", NULL, 0);
    struct attn_spec spec = {.size = 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_spec_preset(&spec, "routing_score", NULL, 0, &error),
                     ATTN_INVALID);
    ck_assert_str_eq(error.field, "size");
    /* nobody has to listen */
    spec.size = sizeof spec;
    ck_assert_int_eq(attn_spec_preset(&spec, "speech", NULL, 0, NULL), ATTN_UNKNOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("presets");
    TCase *tcase = tcase_create("presets");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, routing_score_options);
    tcase_add_test(tcase, routing_mha_options);
    tcase_add_test(tcase, routing_mha_proj_options);
    tcase_add_test(tcase, routing_refusals);
    tcase_add_test(tcase, speech_options);
    tcase_add_test(tcase, speech_refusals);
    tcase_add_test(tcase, causal_options);
    tcase_add_test(tcase, causal_modules);
    tcase_add_test(tcase, causal_refusals);
    tcase_add_test(tcase, module_refusals);
    tcase_add_test(tcase, relational_options);
    tcase_add_test(tcase, relational_refusals);
    tcase_add_test(tcase, kinds);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
