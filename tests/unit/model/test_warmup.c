/* test_warmup.c - what runs before a version is ready: with which data, how often, and what becomes of
 * a version whose warm-up fails. */
#include "model/repository.h"
#include "model/warmup.h"

#include "unit/model/scratch.h"
#include "unit/support.h"

static struct scratch scratch;

static void set_up(void)
{
    scratch_make(&scratch);
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

#define HEADS "{\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 2}"
#define Q4 "\"query\": {\"shape\": [2, 3, 4], \"data\": \"random\"}"
#define K4 "\"key\": {\"shape\": [2, 5, 4], \"data\": \"random\"}"
#define V4 "\"value\": {\"shape\": [2, 5, 4]}"
#define MASK "\"mask\": {\"shape\": [2, 2, 3, 5], \"data\": \"random\"}"
#define CONFIG(layer, warmups) "{\"layer\": " layer ", \"warmup\": [" warmups "]}"

/* What a config's warm-ups say of its layer, which has weights of zeros. */
static enum ad_status run(const char *config, struct ad_error *error)
{
    struct ad_manifest manifest;
    ck_assert_msg(ad_manifest_parse(&manifest, config, strlen(config), "config.json",
                                    error) == AD_OK,
                  "%s", error->message);
    scratch_version(&scratch, "m/1");
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    struct attn_error why = {0};
    if (attn_weights_read(scratch_path(&scratch, "m/1/model.safetensors"), &weights,
                          &why) != ATTN_OK ||
        attn_layer_create(&manifest.spec, weights, &layer, &why) != ATTN_OK) {
        ck_abort_msg("%s", why.message);
    }
    enum ad_status status = ad_warmup_run(&manifest, layer, error);
    attn_layer_free(layer);
    attn_weights_free(weights);
    ad_manifest_reset(&manifest);
    return status;
}

static const char *const good[] = {
    CONFIG(HEADS, ""),
    CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {" Q4 ", " K4 ", " V4 "}}"),
    CONFIG(HEADS,
           "{\"name\": \"one\", \"count\": 3, \"inputs\": {" Q4 ", " K4 ", " V4 ", " MASK
           "}},"
           "{\"name\": \"two\", \"inputs\": {\"query\": {\"shape\": [1, 0, 4]},"
           " \"key\": {\"shape\": [1, 1, 4]}, \"value\": {\"shape\": [1, 1, 4]}}}"),
};

START_TEST(test_good)
{
    struct ad_error error = {0};
    ck_assert_msg(run(good[_i], &error) == AD_OK, "%s", error.message);
}
END_TEST

static const struct {
    const char *config;
    const char *message; /* its beginning */
} bad[] = {
    {CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {\"q\": {\"shape\": []}}}"),
     "warm-up 'one': input 'q': the layer has no such input"},
    {CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {" Q4 ", " K4 "}}"),
     "warm-up 'one': input 'value'"},
    {CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {" K4 ", " V4
                   ", \"query\": {\"shape\": [2, 3, 5]}}}"),
     "warm-up 'one': input 'query'"},
    {CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {" K4 ", " V4
                   ", \"query\": {\"shape\": [65536, 65536, 65536, 65536]}}}"),
     "warm-up 'one': input 'query': expected at most 268435456 bytes of inputs"},
    {CONFIG(HEADS, "{\"name\": \"one\", \"inputs\": {" K4 ", " V4
                   ", \"query\": {\"shape\": [2, 10000000, 4]}}}"),
     "warm-up 'one': input 'query': expected at most 268435456 bytes of inputs"},
    {CONFIG("{\"kind\": \"routing_score\"}",
            "{\"name\": \"big\", \"inputs\": {\"query\": {\"shape\": [1, 16384, 1]},"
            " \"key\": {\"shape\": [1, 16384, 1]}}}"),
     "warm-up 'big': expected at most 268435456 bytes of outputs"},
};

START_TEST(test_bad)
{
    struct ad_error error = {0};
    if (strstr(bad[_i].config, "routing_score")) {
        struct ad_manifest manifest;
        attn_layer *layer = NULL;
        ck_assert_int_eq(ad_manifest_parse(&manifest, bad[_i].config,
                                           strlen(bad[_i].config), "config.json", &error),
                         AD_OK);
        ck_assert_int_eq(attn_layer_create(&manifest.spec, NULL, &layer, NULL), ATTN_OK);
        ck_assert_int_eq(ad_warmup_run(&manifest, layer, &error), AD_INVALID);
        attn_layer_free(layer);
        ad_manifest_reset(&manifest);
    } else {
        ck_assert_int_eq(run(bad[_i].config, &error), AD_INVALID);
    }
    ck_assert_msg(strncmp(error.message, bad[_i].message, strlen(bad[_i].message)) == 0,
                  "%s", error.message);
}
END_TEST

/* Masks and indices are zeros, whatever is asked for: an index of 0 is in range. */
START_TEST(test_indices)
{
    static const char config[] =
        "{\"layer\": {\"kind\": \"relational_mha\", \"num_heads\": 1,"
        " \"num_edge_types\": 1, \"key_query_dimension\": 2, \"value_dimension\": 2,"
        " \"output_dimension\": 2, \"dropout_rate\": 0.0},"
        " \"warmup\": [{\"name\": \"edges\", \"inputs\": {"
        "\"queries\": {\"shape\": [1, 1, 1, 2], \"data\": \"random\"},"
        "\"keys\": {\"shape\": [1, 1, 1, 2], \"data\": \"random\"},"
        "\"values\": {\"shape\": [1, 1, 1, 2], \"data\": \"random\"},"
        "\"edges\": {\"shape\": [4, 3], \"data\": \"random\"},"
        "\"edge_types\": {\"shape\": [4], \"data\": \"random\"}}}]}";
    struct ad_manifest manifest;
    struct ad_error error = {0};
    ck_assert_msg(ad_manifest_parse(&manifest, config, sizeof config - 1, "config.json",
                                    &error) == AD_OK,
                  "%s", error.message);
    static const char header[] =
        "{\"_out_proj.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]"
        "},\"_edge_attention_biases.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],"
        "\"data_offsets\":[16,24]}}";
    uint8_t bytes[8 + sizeof header - 1 + 24] = {0};
    const uint64_t n_header = sizeof header - 1;
    memcpy(bytes, &n_header, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    struct attn_error why = {0};
    ck_assert_msg(attn_weights_parse(bytes, sizeof bytes, &weights, &why) == ATTN_OK,
                  "%s", why.message);
    ck_assert_msg(attn_layer_create(&manifest.spec, weights, &layer, &why) == ATTN_OK,
                  "%s", why.message);
    ck_assert_msg(ad_warmup_run(&manifest, layer, &error) == AD_OK, "%s", error.message);
    attn_layer_free(layer);
    attn_weights_free(weights);
    ad_manifest_reset(&manifest);
}
END_TEST

/* A warm-up that fails is its version's fault; one that does not is shown with the config. */
START_TEST(test_in_a_repository)
{
    scratch_text(&scratch, "good/config.json", good[1]);
    scratch_version(&scratch, "good/1");
    scratch_text(&scratch, "bad/config.json", bad[1].config);
    scratch_version(&scratch, "bad/1");
    struct ad_repository *repository = scratch_load(&scratch);
    struct ad_version *version;
    ck_assert_int_eq(scratch_acquire(repository, "good", NULL, &version, NULL), AD_OK);
    ck_assert_str_eq(
        version->config,
        "{\"version_policy\":{\"all\":{}},\"model_warmup\":[{\"name\":\"one\","
        "\"batch_size\":0,\"count\":1,\"inputs\":{"
        "\"query\":{\"data_type\":\"TYPE_FP32\",\"dims\":[2,3,4],\"random_data\":true},"
        "\"key\":{\"data_type\":\"TYPE_FP32\",\"dims\":[2,5,4],\"random_data\":true},"
        "\"value\":{\"data_type\":\"TYPE_FP32\",\"dims\":[2,5,4],\"zero_data\":true}}}]"
        "}");
    ad_version_release(version);
    const char *reason = scratch_reason(repository, "bad", "1");
    ck_assert_msg(strncmp(reason, bad[1].message, strlen(bad[1].message)) == 0, "%s",
                  reason);
    ad_repository_free(repository);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("warm-up");
    TCase *tests = tcase_create("warm-up");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_good, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(tests, test_bad, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, test_indices);
    tcase_add_test(tests, test_in_a_repository);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
