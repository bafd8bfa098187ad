/* test_spec.c - specs that are no preset: every member that can be wrong is, one at a time, and is named;
 * what lies just inside of each bound is taken. */
#include "unit/lib/layers.h"

#define LARGEST ((size_t)1 << 24)

/* ---- specs to be spoilt --------------------------------------------------------------------- */

static struct attn_spec causal_spec(void)
{
    return good_spec("causal_mha", LIST(ints_option("output_shape", 2, 6, 2)));
}

static struct attn_spec speech_spec(void)
{
    return good_spec("speech_mha",
                     LIST(attn_int("num_heads", 2), attn_int("d_model", 4)));
}

static struct attn_spec score_spec(void)
{
    return good_spec("routing_score", NULL, 0);
}

static struct attn_spec relational_spec(void)
{
    return good_spec("relational_mha",
                     LIST(attn_int("num_heads", 2), attn_int("num_edge_types", 3),
                          attn_int("key_query_dimension", 2),
                          attn_int("value_dimension", 2), attn_int("output_dimension", 4),
                          attn_int("dropout_rate", 0)));
}

/* Neither the check nor a layer takes the spec, and both name the member. */
static void refused(const struct attn_spec *spec, const char *field, const char *part)
{
    struct attn_error error = {0};
    attn_layer *layer = NULL;
    enum attn_status status = attn_layer_create(spec, NULL, &layer, &error);
    ck_assert_msg(status == ATTN_INVALID, "%s, %s: status %d, %s", field, part, status,
                  error.message);
    ck_assert(layer == NULL);
    ck_assert_int_eq(error.status, ATTN_INVALID);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strstr(error.message, part) != NULL, "expected '%s' in: %s", part,
                  error.message);
}

static void taken(const struct attn_spec *spec, const char *what)
{
    struct attn_error error = {0};
    enum attn_status status = attni_spec_check(spec, &error);
    ck_assert_msg(status == ATTN_OK, "%s: %s", what, error.message);
    ck_assert_int_eq(error.status, ATTN_OK);
}

#define REFUSED(good, spoil, field, part) \
    do {                                  \
        struct attn_spec spec = good();   \
        spoil;                            \
        refused(&spec, field, part);      \
    } while (0)

#define TAKEN(good, change)             \
    do {                                \
        struct attn_spec spec = good(); \
        change;                         \
        taken(&spec, #change);          \
    } while (0)

/* ---- sizes ---------------------------------------------------------------------------------- */

START_TEST(sizes)
{
    REFUSED(causal_spec, spec.size -= 1, "size", "expected ");
    REFUSED(causal_spec, spec.size += 1, "size", ", got ");
    REFUSED(relational_spec, spec.n_heads = 0, "n_heads", "expected 1 to 2^24");
    REFUSED(relational_spec, spec.n_heads = LARGEST + 1, "n_heads", "expected 1 to 2^24");
    REFUSED(relational_spec, spec.head_width = LARGEST / 2 + 1, "head_width",
            "wider than 2^24");
    REFUSED(relational_spec, spec.value_head_width = 0, "value_head_width", "at least 1");
    REFUSED(relational_spec, spec.value_head_width = LARGEST / 2 + 1, "value_head_width",
            "at most 2^24");
    REFUSED(speech_spec, spec.length = LARGEST + 1, "length", "at most 2^24");
    TAKEN(speech_spec, spec.length = LARGEST);
    TAKEN(score_spec, spec.n_heads = LARGEST);
    TAKEN(relational_spec, spec.head_width = LARGEST / 2);
    REFUSED(relational_spec, spec.edge.n_types = LARGEST + 1, "edge",
            "more than 2^24 types");
    TAKEN(relational_spec, spec.edge.n_types = LARGEST);
}
END_TEST

START_TEST(numbers)
{
    REFUSED(speech_spec, (spec.clip = true, spec.clip_value = (double)INFINITY),
            "clip_value", "finite");
    REFUSED(speech_spec, (spec.clip = true, spec.clip_value = (double)NAN), "clip_value",
            "finite");
    TAKEN(speech_spec, spec.clip_value = (double)NAN); /* of a clip that is not there */
    REFUSED(speech_spec, spec.dropout = -0.001, "dropout", "0 to 1");
    REFUSED(speech_spec, spec.dropout = 1.001, "dropout", "0 to 1");
    REFUSED(speech_spec, spec.dropout = (double)NAN, "dropout", "0 to 1");
    TAKEN(speech_spec, spec.dropout = 0);
    TAKEN(speech_spec, spec.dropout = 1);
}
END_TEST

/* ---- names ---------------------------------------------------------------------------------- */

START_TEST(names)
{
    REFUSED(speech_spec, spec.query[0] = '\0', "query", "need names");
    REFUSED(speech_spec, spec.key[0] = '\0', "query", "need names");
    REFUSED(speech_spec, spec.output[0] = '\0', "query", "need names");
    REFUSED(speech_spec, spec.value[0] = '\0', "value", "needs a name");
    TAKEN(score_spec, spec.value[0] = '\0');
    TAKEN(speech_spec, spec.attention[0] = '\0');
    TAKEN(speech_spec, spec.mask.name[0] = '\0');
}
END_TEST

/* ---- what belongs together ------------------------------------------------------------------ */

START_TEST(layouts)
{
    REFUSED(score_spec, spec.layout = ATTN_LAYOUT_ROWS, "layout",
            "free layout is for scores alone");
    REFUSED(relational_spec, spec.layout = ATTN_LAYOUT_FREE, "layout",
            "scores have no other");
    REFUSED(speech_spec, spec.layout = ATTN_LAYOUT_HEADS, "layout",
            "projections need rows");
    REFUSED(causal_spec, spec.layout = ATTN_LAYOUT_HEADS, "layout",
            "projections need rows");
}
END_TEST

START_TEST(scores_alone)
{
    REFUSED(score_spec, spec.causal = true, "scores_only", "a clip and a mask alone");
    REFUSED(score_spec, strcpy(spec.dense_kq, "x"), "scores_only", "mask alone");
    REFUSED(score_spec, strcpy(spec.dense_kv, "x"), "scores_only", "mask alone");
    REFUSED(score_spec, strcpy(spec.attention, "x"), "scores_only", "mask alone");
    TAKEN(score_spec, (spec.clip = true, spec.mask.name[0] = '\0'));
}
END_TEST

START_TEST(edges)
{
    REFUSED(relational_spec, spec.edge.types[0] = '\0', "edge", "types and a bias");
    REFUSED(relational_spec, spec.edge.bias[0] = '\0', "edge", "types and a bias");
    REFUSED(relational_spec, spec.head_width = 0, "edge", "needs a head width");
    TAKEN(relational_spec, (spec.edge.edges[0] = '\0', spec.head_width = 0));
    TAKEN(relational_spec, (spec.edge.edges[0] = '\0', spec.edge.types[0] = '\0'));
}
END_TEST

START_TEST(projections)
{
    REFUSED(speech_spec, spec.query_projection.n_in = 0, "query_projection",
            "sizes from 1 to 2^24");
    REFUSED(speech_spec, spec.key_projection.n_in = LARGEST + 1, "key_projection",
            "sizes from 1 to 2^24");
    REFUSED(speech_spec, spec.value_projection.n_out = 0, "value_projection",
            "sizes from 1 to 2^24");
    REFUSED(speech_spec, spec.value_projection.n_out = 6, "value_projection",
            "the width of all heads");
    REFUSED(speech_spec, spec.output_projection.n_out = LARGEST + 1, "output_projection",
            "sizes from 1 to 2^24");
    REFUSED(speech_spec, spec.output_projection.n_in = 6, "output_projection",
            "the width of all value heads");
    TAKEN(speech_spec, spec.output_projection.n_out = 9);
    TAKEN(speech_spec, spec.query_projection.n_in = LARGEST);
    /* a head width that the inputs tell is none that a projection could give */
    REFUSED(speech_spec,
            (spec.head_width = 0, spec.query_projection.weight[0] = '\0',
             spec.key_projection.n_out = 0),
            "key_projection", "sizes from 1 to 2^24");
    REFUSED(speech_spec,
            (spec.head_width = 0, spec.query_projection.weight[0] = '\0',
             spec.key_projection.weight[0] = '\0'),
            "head_width", "a projection needs it");
}
END_TEST

START_TEST(fused_projections)
{
    const struct attn_spec speech = speech_spec();
    REFUSED(causal_spec, spec.fused.n_out = 5, "fused", "the width of all heads");
    REFUSED(causal_spec, strcpy(spec.value, "other"), "fused", "needs one input");
    REFUSED(causal_spec, strcpy(spec.key, "other"), "fused", "needs one input");
    REFUSED(causal_spec,
            (spec.key_projection = speech.key_projection, spec.key_projection.n_out = 2),
            "fused", "excludes single projections");
    REFUSED(causal_spec,
            (spec.value_projection = speech.value_projection,
             spec.value_projection.n_out = 2),
            "fused", "excludes single projections");
}
END_TEST

/* ---- what follows ---------------------------------------------------------------------------- */

#define POST(...)                                \
    spec.normalisation = (struct attn_post_spec) \
    {                                            \
        __VA_ARGS__                              \
    }

START_TEST(posts)
{
    REFUSED(causal_spec, POST(.kind = ATTN_POST_GROUP_NORM), "normalisation",
            "a multiple of the groups");
    REFUSED(causal_spec, POST(.kind = ATTN_POST_GROUP_NORM, .n_groups = 4),
            "normalisation", "a multiple of the groups");
    REFUSED(causal_spec,
            (POST(.kind = ATTN_POST_GROUP_NORM, .n_groups = 1), spec.length = 0),
            "normalisation", "a multiple of the groups");
    TAKEN(causal_spec, POST(.kind = ATTN_POST_GROUP_NORM, .n_groups = 3));
    REFUSED(causal_spec, (POST(.kind = ATTN_POST_BATCH_NORM), spec.length = 0),
            "normalisation", "need a length");
    REFUSED(causal_spec, POST(.kind = ATTN_POST_DROPOUT, .probability = -0.1),
            "normalisation", "0 to 1");
    REFUSED(causal_spec, POST(.kind = ATTN_POST_DROPOUT, .probability = 1.1),
            "normalisation", "0 to 1");
    TAKEN(causal_spec, POST(.kind = ATTN_POST_DROPOUT, .probability = 1));
    REFUSED(causal_spec, POST(.kind = ATTN_POST_SOFTMAX, .axis = -1), "normalisation",
            "0, 1 or 2");
    REFUSED(causal_spec, POST(.kind = ATTN_POST_SOFTMAX, .axis = 3), "normalisation",
            "0, 1 or 2");
    TAKEN(causal_spec, POST(.kind = ATTN_POST_SOFTMAX, .axis = 0));
    REFUSED(score_spec, POST(.kind = ATTN_POST_RELU), "normalisation", "needs rows");
    REFUSED(relational_spec, spec.activation.kind = ATTN_POST_TANH, "activation",
            "needs rows");
    REFUSED(causal_spec, spec.squeeze_output = true, "squeeze_output", "of width 1");
}
END_TEST

/* Of several faults the first is told, whatever comes after it. */
START_TEST(first_fault)
{
    REFUSED(speech_spec, (spec.n_heads = 0, spec.dropout = 2, spec.fused.n_out = 1),
            "n_heads", "expected 1 to 2^24");
    REFUSED(speech_spec, (spec.dropout = 2, spec.query_projection.n_in = 0), "dropout",
            "0 to 1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tcase = tcase_create("spec");
    tcase_add_test(tcase, sizes);
    tcase_add_test(tcase, numbers);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, layouts);
    tcase_add_test(tcase, scores_alone);
    tcase_add_test(tcase, edges);
    tcase_add_test(tcase, projections);
    tcase_add_test(tcase, fused_projections);
    tcase_add_test(tcase, posts);
    tcase_add_test(tcase, first_fault);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
