/* test_manifest.c - config.json: what is read from good ones, and what is said of bad ones. */
#include "model/manifest.h"

#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEECH "\"layer\": {\"kind\": \"speech_mha\", \"num_heads\": 2, \"d_model\": 8}"

static struct ad_manifest parse_good(const char *text)
{
    struct ad_manifest manifest;
    struct ad_error error = {0};
    ck_assert_msg(
        ad_manifest_parse(&manifest, text, strlen(text), "config.json", &error) == AD_OK,
        "%s: %s", text, error.message);
    return manifest;
}

START_TEST(test_defaults)
{
    struct ad_manifest manifest = parse_good("{" SPEECH "}");
    ck_assert_str_eq(manifest.spec.kind, "speech_mha");
    ck_assert_uint_eq(manifest.spec.n_heads, 2);
    ck_assert_int_eq(manifest.spec.empty_rows, ATTN_EMPTY_ZERO);
    ck_assert_int_eq(manifest.spec.weights_dtype, ATTN_STORE_F32);
    ck_assert_str_eq(manifest.file, "model.safetensors");
    ck_assert_str_eq(manifest.prefix, "");
    ck_assert_uint_eq(manifest.n_names, 0);
    ck_assert(!manifest.has_weights);
    ad_manifest_reset(&manifest);
    ck_assert_ptr_null(manifest.file);
    ad_manifest_reset(&manifest); /* harmless */
}
END_TEST

START_TEST(test_everything_given)
{
    struct ad_manifest manifest = parse_good(
        "{" SPEECH
        ", \"weights\": {\"file\": \"all.safetensors\", \"prefix\": \"enc.0.\","
        " \"names\": {\"q_layer.weight\": \"q\", \"k_layer.weight\": \"k\"}},"
        " \"empty_rows\": \"nan\", \"weights_dtype\": \"bf16\"}");
    ck_assert_int_eq(manifest.spec.empty_rows, ATTN_EMPTY_NAN);
    ck_assert_int_eq(manifest.spec.weights_dtype, ATTN_STORE_BF16);
    ck_assert_str_eq(manifest.file, "all.safetensors");
    ck_assert_str_eq(manifest.prefix, "enc.0.");
    ck_assert_uint_eq(manifest.n_names, 2);
    ck_assert_str_eq(manifest.names[0].parameter, "q_layer.weight");
    ck_assert_str_eq(manifest.names[0].file_name, "q");
    ck_assert_str_eq(manifest.names[1].parameter, "k_layer.weight");
    ck_assert_str_eq(manifest.names[1].file_name, "k");
    ck_assert(manifest.has_weights);
    ad_manifest_reset(&manifest);
}
END_TEST

/* One of each type of option reaches the library as what it is. */
START_TEST(test_option_types)
{
    struct ad_manifest manifest = parse_good(
        "{\"layer\": {\"output_shape\": [6, 8], \"n_heads\": 2, \"use_mask\": false,"
        " \"dropout\": 0.25, \"activation\": null,"
        " \"normalisation\": {\"num_groups\": 3, \"type\": \"GroupNorm\"},"
        " \"kind\": \"causal_mha\"}}");
    ck_assert_uint_eq(manifest.spec.length, 6);
    ck_assert_uint_eq(manifest.spec.n_heads, 2);
    ck_assert(!manifest.spec.causal);
    ck_assert(manifest.spec.dropout == 0.25);
    ck_assert_int_eq(manifest.spec.activation.kind, ATTN_POST_NONE);
    ck_assert_int_eq(manifest.spec.normalisation.kind, ATTN_POST_GROUP_NORM);
    ck_assert_uint_eq(manifest.spec.normalisation.n_groups, 3);
    ad_manifest_reset(&manifest);
}
END_TEST

#define WITH(members) "{" SPEECH ", " members "}"

START_TEST(test_serving_defaults)
{
    struct ad_manifest manifest = parse_good("{" SPEECH "}");
    const struct ad_model_settings *settings = &manifest.settings;
    ck_assert_uint_eq(settings->max_batch_rows, 32);
    ck_assert_uint_eq(settings->max_batch_requests, 64);
    ck_assert_uint_eq(settings->max_queue_delay_us, 0);
    ck_assert_uint_eq(settings->max_queue_size, 0);
    ck_assert_uint_eq(settings->n_priorities, 1);
    ck_assert_uint_eq(settings->default_priority, 1);
    ck_assert_uint_eq(settings->default_timeout_us, 0);
    ck_assert_int_eq(manifest.policy.kind, AD_POLICY_ALL);
    ck_assert_uint_eq(manifest.n_warmups, 0);
    ad_manifest_reset(&manifest);
}
END_TEST

START_TEST(test_serving_given)
{
    struct ad_manifest manifest = parse_good(
        WITH("\"dynamic_batching\": {\"max_batch_rows\": 7, \"max_batch_requests\": 1,"
             " \"max_queue_delay_microseconds\": 300},"
             " \"queue_policy\": {\"max_queue_size\": 9, \"priority_levels\": 4,"
             " \"default_priority_level\": 2, \"default_timeout_microseconds\": 11},"
             " \"version_policy\": {\"specific\": {\"versions\": [3, 1, 3]}},"
             " \"warmup\": [{\"name\": \"first\", \"count\": 3, \"inputs\": {"
             "\"query\": {\"shape\": [1, 16], \"data\": \"random\"},"
             " \"key\": {\"shape\": [], \"data\": \"zero\"}}}]"));
    const struct ad_model_settings *settings = &manifest.settings;
    ck_assert_uint_eq(settings->max_batch_rows, 7);
    ck_assert_uint_eq(settings->max_batch_requests, 1);
    ck_assert_uint_eq(settings->max_queue_delay_us, 300);
    ck_assert_uint_eq(settings->max_queue_size, 9);
    ck_assert_uint_eq(settings->n_priorities, 4);
    ck_assert_uint_eq(settings->default_priority, 2);
    ck_assert_uint_eq(settings->default_timeout_us, 11);
    ck_assert_int_eq(manifest.policy.kind, AD_POLICY_SPECIFIC);
    ck_assert_uint_eq(manifest.policy.n_versions, 2);
    ck_assert_uint_eq(manifest.policy.versions[0], 1);
    ck_assert_uint_eq(manifest.policy.versions[1], 3);
    ck_assert_uint_eq(manifest.n_warmups, 1);
    const struct ad_warmup *warmup = &manifest.warmups[0];
    ck_assert_str_eq(warmup->name, "first");
    ck_assert_uint_eq(warmup->count, 3);
    ck_assert_uint_eq(warmup->n_inputs, 2);
    ck_assert_str_eq(warmup->inputs[0].name, "query");
    ck_assert_uint_eq(warmup->inputs[0].rank, 2);
    ck_assert_uint_eq(warmup->inputs[0].shape[1], 16);
    ck_assert(warmup->inputs[0].random);
    ck_assert_uint_eq(warmup->inputs[1].rank, 0);
    ck_assert(!warmup->inputs[1].random);
    const struct attn_port ports[] = {{.name = "query", .dtype = ATTN_F32},
                                      {.name = "key", .dtype = ATTN_I64}};
    char *shown = ad_manifest_show(&manifest, ports, 2);
    ck_assert_str_eq(shown,
                     "{\"version_policy\":{\"specific\":{\"versions\":[1,3]}},"
                     "\"model_warmup\":[{\"name\":\"first\",\"batch_size\":0,\"count\":3,"
                     "\"inputs\":{\"query\":{\"data_type\":\"TYPE_FP32\",\"dims\":[1,16],"
                     "\"random_data\":true},\"key\":{\"data_type\":\"TYPE_INT64\","
                     "\"dims\":[],\"zero_data\":true}}}]}");
    free(shown);
    ad_manifest_reset(&manifest);
    ad_manifest_reset(&manifest);
}
END_TEST

/* Levels without a default: the lowest is. */
START_TEST(test_default_priority)
{
    struct ad_manifest manifest =
        parse_good(WITH("\"queue_policy\": {\"priority_levels\": 16}"));
    ck_assert_uint_eq(manifest.settings.n_priorities, 16);
    ck_assert_uint_eq(manifest.settings.default_priority, 16);
    ad_manifest_reset(&manifest);
}
END_TEST

static const char *const good[] = {
    WITH("\"dynamic_batching\": {}, \"queue_policy\": {}, \"warmup\": []"),
    WITH("\"version_policy\": {\"all\": {}}"),
    WITH("\"version_policy\": {\"latest\": {}}"),
    WITH("\"version_policy\": {\"latest\": {\"num_versions\": 3}}"),
    WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": []}}}]"),
    "{\"layer\": {\"kind\": \"routing_score\"}}",
    "{\"layer\": {\"kind\": \"routing_score\", \"use_tanh\": true, \"C\": 2.5}}",
    "{\"layer\": {\"kind\": \"routing_score\", \"C\": -3}}",
    "{\"layer\": {\"kind\": \"causal_mha\", \"output_shape\": [6]}}",
    "\n{ \"empty_rows\" : \"zero\" , " SPEECH ", \"weights\": {} }\n",
    "{" SPEECH ", \"weights\": {\"names\": {}}}",
    "{" SPEECH ", \"weights\": {\"file\": \"..a\", \"prefix\": \"\"}}",
    "{" SPEECH ", \"weights\": {\"file\": \"\xc3\xa4.safetensors\"}}",
};

START_TEST(test_good)
{
    struct ad_manifest manifest = parse_good(good[_i]);
    ad_manifest_reset(&manifest);
}
END_TEST

struct bad {
    const char *text;
    const char
        *message; /* after "config.json: ", in full or, with "...", its beginning */
};

#define KEYS                                                                      \
    "layer, weights, empty_rows, weights_dtype, dynamic_batching, queue_policy, " \
    "version_policy, warmup"
#define CAUSAL(options) \
    "{\"layer\": {\"kind\": \"causal_mha\", \"output_shape\": [6, 8], " options "}}"
#define WEIGHTS(members) "{" SPEECH ", \"weights\": {" members "}}"
#define A50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define FILE_EXPECTED \
    "weights.file: expected the name of a file in the version's folder, got "
#define OPTION_EXPECTED                                                             \
    "expected null, a boolean, a number, an array of integers or an object with a " \
    "\"type\", got "

static const struct bad bad[] = {
    /* syntax */
    {"", "line 1, column 0: ..."},
    {"speech", "line 1, column 6: ..."},
    {"{\n  \"layer\": }", "line 2, column 12: ..."},
    {"{" SPEECH "} {}", "line 1, column 65: ..."},
    {"{" SPEECH, "line 1, column 62: ..."},
    {"{" SPEECH ", " SPEECH "}", "line 1, column 71: duplicate object key ..."},
    {"{\"layer\": {\"kind\": \"a\", \"kind\": \"b\"}}",
     "line 1, column 30: duplicate object key ..."},
    {"{\"layer\": \"\xff\"}", "line 1, column ..."},
    {"{\"layer\": \"\\u0000\"}", "line 1, column 18: \\u0000 is not allowed ..."},
    {"{\"layer\": NaN}", "line 1, column ..."},
    {"{\"layer\": 1e999}", "line 1, column 15: real number overflow ..."},
    {"{\"layer\": 9223372036854775808}", "line 1, column 29: too big integer ..."},
    {"{\"layer\": -9223372036854775809}",
     "line 1, column 30: too big negative integer ..."},
    /* the document */
    {"[]", "expected an object, got an array"},
    {"{}", "layer: expected an object, got nothing"},
    {"{\"Layer\": {}}", "Layer: unknown key, expected one of " KEYS},
    {"{" SPEECH ", \"\": 1}", "\"\": unknown key, expected one of " KEYS},
    {"{" SPEECH ", \"" A50 "\": 1}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
                                     ": unknown key, expected one of " KEYS},
    {"{" SPEECH ", \"a\\n\xc2\x85\": 1}", "a???: unknown key, expected one of " KEYS},
    {"{" SPEECH ", \"empty_rows\": \"none\"}",
     "empty_rows: expected \"zero\" or \"nan\", got \"none\""},
    {"{" SPEECH ", \"weights_dtype\": \"bf8\"}",
     "weights_dtype: expected \"f32\" or \"bf16\", got \"bf8\""},
    {"{" SPEECH ", \"empty_rows\": null}",
     "empty_rows: expected \"zero\" or \"nan\", got null"},
    /* the layer */
    {"{\"layer\": \"speech_mha\"}", "layer: expected an object, got \"speech_mha\""},
    {"{\"layer\": null}", "layer: expected an object, got null"},
    {"{\"layer\": {}}", "layer.kind: expected a string, got nothing"},
    {"{\"layer\": {\"kind\": 7}}", "layer.kind: expected a string, got 7"},
    {"{\"layer\": {\"kind\": \"mha\"}}", "layer.kind: expected one of routing_score, "
                                         "routing_mha, routing_mha_proj, speech_mha, "
                                         "causal_mha, relational_mha, got \"mha\""},
    {"{\"layer\": {\"kind\": \"" A50 "\"}}",
     "layer.kind: expected one of routing_score, routing_mha, routing_mha_proj, "
     "speech_mha, "
     "causal_mha, relational_mha, got "
     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\""},
    {"{\"layer\": {\"kind\": \"speech_mha\", \"d_model\": 8}}", "layer.num_heads: ..."},
    {"{\"layer\": {\"kind\": \"speech_mha\", \"num_heads\": 3, \"d_model\": 8}}",
     "layer.d_model: expected a multiple of the number of heads (3), got 8"},
    {"{\"layer\": {\"kind\": \"speech_mha\", \"num_heads\": \"2\", \"d_model\": 8}}",
     "layer.num_heads: " OPTION_EXPECTED "\"2\""},
    {"{\"layer\": {\"kind\": \"speech_mha\", \"num_heads\": 2.5, \"d_model\": 8}}",
     "layer.num_heads: expected an integer, got a number"},
    {"{\"layer\": {\"kind\": \"speech_mha\", \"num_heads\": 2, \"d_model\": 8, "
     "\"heads\": 1}}",
     "layer.heads: unknown to speech_mha, which has num_heads, d_model, ..."},
    {"{\"layer\": {\"kind\": \"routing_score\", \"\": 1}}",
     "layer: option '': unknown to routing_score, ..."},
    {CAUSAL("\"activation\": \"Tanh\""), "layer.activation: " OPTION_EXPECTED "\"Tanh\""},
    {CAUSAL("\"activation\": {}"),
     "layer.activation.type: expected a string, got nothing"},
    {CAUSAL("\"activation\": {\"type\": null}"),
     "layer.activation.type: expected a string, got null"},
    {CAUSAL("\"activation\": {\"type\": \"SoftMax\", \"dim\": [0]}"),
     "layer.activation.dim: expected null, a boolean or a number, got an array"},
    {CAUSAL("\"activation\": {\"type\": \"SoftMax\", \"dim\": {\"type\": \"x\"}}"),
     "layer.activation.dim: expected null, a boolean or a number, got an object"},
    {CAUSAL("\"normalisation\": {\"type\": \"GroupNorm\", \"num_groups\": 4}"),
     "layer.normalisation.num_groups: expected a divisor of the length (6), got 4"},
    {CAUSAL("\"normalisation\": {\"type\": \"LayerNorm\", \"eps\": 1e-5}"),
     "layer.normalisation.eps: unknown to LayerNorm, which has no options"},
    {CAUSAL("\"input_shape\": [6, 8.0]"),
     "layer.input_shape[1]: expected an integer, got 8"},
    {CAUSAL("\"input_shape\": [true]"),
     "layer.input_shape[0]: expected an integer, got true"},
    {CAUSAL("\"input_shape\": [1, 2, 3, 4, 5, 6, 7, 8, 9]"),
     "layer.input_shape: expected at most 8 integers, got 9"},
    {CAUSAL("\"input_shape\": []"), "layer.input_shape: ..."},
    /* weights */
    {"{" SPEECH ", \"weights\": \"model.safetensors\"}",
     "weights: expected an object, got \"model.safetensors\""},
    {WEIGHTS("\"fiel\": 1"),
     "weights.fiel: unknown key, expected one of file, prefix, names"},
    {WEIGHTS("\"file\": false"), FILE_EXPECTED "false"},
    {WEIGHTS("\"file\": \"\""), FILE_EXPECTED "\"\""},
    {WEIGHTS("\"file\": \".\""), FILE_EXPECTED "\".\""},
    {WEIGHTS("\"file\": \"..\""), FILE_EXPECTED "\"..\""},
    {WEIGHTS("\"file\": \"../x\""), FILE_EXPECTED "\"../x\""},
    {WEIGHTS("\"file\": \"/etc/passwd\""), FILE_EXPECTED "\"/etc/passwd\""},
    {WEIGHTS("\"file\": \"" A50 A50 A50 A50 A50 "123456\""),
     FILE_EXPECTED "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\""},
    {WEIGHTS("\"prefix\": null"),
     "weights.prefix: expected a string of less than 128 bytes, got null"},
    {WEIGHTS("\"prefix\": \"" A50 A50 "1234567890123456789012345678\""),
     "weights.prefix: expected a string of less than 128 bytes, got "
     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\""},
    {WEIGHTS("\"names\": []"),
     "weights.names: expected an object of tensor names by parameter, got an array"},
    {WEIGHTS("\"names\": {\"a\": \"b\", \"c\": \"\"}"),
     "weights.names.c: expected the name of a tensor in the file, got \"\""},
    {WEIGHTS("\"names\": {\"c\": 1.5}"),
     "weights.names.c: expected the name of a tensor in the file, got 1.5"},
    /* serving */
    {WITH("\"dynamic_batching\": []"),
     "dynamic_batching: expected an object, got an array"},
    {WITH("\"dynamic_batching\": {\"preferred_batch_size\": [1]}"),
     "dynamic_batching.preferred_batch_size: unknown key, expected one of "
     "max_batch_rows, max_batch_requests, max_queue_delay_microseconds"},
    {WITH("\"dynamic_batching\": {\"max_batch_rows\": 0}"),
     "dynamic_batching.max_batch_rows: expected an integer 1..1048576, got 0"},
    {WITH("\"dynamic_batching\": {\"max_batch_rows\": 1048577}"),
     "dynamic_batching.max_batch_rows: expected an integer 1..1048576, got 1048577"},
    {WITH("\"dynamic_batching\": {\"max_batch_requests\": 257}"),
     "dynamic_batching.max_batch_requests: expected an integer 1..256, got 257"},
    {WITH("\"dynamic_batching\": {\"max_queue_delay_microseconds\": -1}"),
     "dynamic_batching.max_queue_delay_microseconds: expected an integer 0..60000000, "
     "got -1"},
    {WITH("\"dynamic_batching\": {\"max_queue_delay_microseconds\": 1.0}"),
     "dynamic_batching.max_queue_delay_microseconds: expected an integer 0..60000000, "
     "got 1"},
    {WITH("\"queue_policy\": {\"priority_levels\": 17}"),
     "queue_policy.priority_levels: expected an integer 0..16, got 17"},
    {WITH("\"queue_policy\": {\"default_priority_level\": 1}"),
     "queue_policy.default_priority_level: expected an integer 0..0, got 1"},
    {WITH("\"queue_policy\": {\"priority_levels\": 2, \"default_priority_level\": 3}"),
     "queue_policy.default_priority_level: expected an integer 0..2, got 3"},
    {WITH("\"queue_policy\": {\"max_queue_size\": \"1\"}"),
     "queue_policy.max_queue_size: expected an integer 0..1000000, got \"1\""},
    {WITH("\"queue_policy\": {\"default_timeout_microseconds\": 86400000001}"),
     "queue_policy.default_timeout_microseconds: expected an integer 0..86400000000, "
     "got 86400000001"},
    {WITH("\"version_policy\": {}"),
     "version_policy: expected one of all, latest and specific, got 0"},
    {WITH("\"version_policy\": {\"all\": {}, \"latest\": {}}"),
     "version_policy: expected one of all, latest and specific, got 2"},
    {WITH("\"version_policy\": {\"newest\": {}}"),
     "version_policy.newest: unknown key, expected one of all, latest, specific"},
    {WITH("\"version_policy\": {\"all\": {\"n\": 1}}"),
     "version_policy.all.n: unknown key, expected none"},
    {WITH("\"version_policy\": {\"all\": true}"),
     "version_policy.all: expected an object, got true"},
    {WITH("\"version_policy\": {\"latest\": {\"num_versions\": 0}}"),
     "version_policy.latest.num_versions: expected an integer "
     "1..9223372036854775807, got 0"},
    {WITH("\"version_policy\": {\"specific\": {}}"),
     "version_policy.specific.versions: expected an array of 1 to 1024 versions"},
    {WITH("\"version_policy\": {\"specific\": {\"versions\": []}}"),
     "version_policy.specific.versions: expected an array of 1 to 1024 versions"},
    {WITH("\"version_policy\": {\"specific\": {\"versions\": [1, 0]}}"),
     "version_policy.specific.versions[1]: expected an integer "
     "1..9223372036854775807, got 0"},
    /* warm-ups */
    {WITH("\"warmup\": {}"), "warmup: expected an array, got an object"},
    {WITH("\"warmup\": [7]"), "warmup[0]: expected an object, got 7"},
    {WITH("\"warmup\": [{}]"),
     "warmup[0].name: expected a string of 1 to 127 bytes, got nothing"},
    {WITH("\"warmup\": [{\"name\": \"a\"}]"),
     "warmup[0].inputs: expected an object of inputs by name, got nothing"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {}}]"),
     "warmup[0].inputs: expected 1 to 32 inputs, got 0"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"count\": 1001, \"inputs\": {}}]"),
     "warmup[0].count: expected an integer 1..1000, got 1001"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"batch\": 1}]"),
     "warmup[0].batch: unknown key, expected one of name, count, inputs"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {}}}]"),
     "warmup[0].inputs.x.shape: expected an array of sizes, got nothing"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": [-1]}}}]"),
     "warmup[0].inputs.x.shape[0]: expected an integer 0..2147483647, got -1"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": "
          "[1, 2, 3, 4, 5, 6, 7, 8, 9]}}}]"),
     "warmup[0].inputs.x.shape: expected at most 8 sizes, got 9"},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": [1], "
          "\"data\": \"ones\"}}}]"),
     "warmup[0].inputs.x.data: expected \"zero\" or \"random\", got \"ones\""},
    {WITH("\"warmup\": [{\"name\": \"a\", \"inputs\": {\"\": {\"shape\": []}}}]"),
     "warmup[0].inputs.\"\": expected an input's name as the key"},
    {WEIGHTS("\"names\": {\"\": \"b\"}"),
     "weights.names.\"\": expected a parameter's name as the key"},
};

START_TEST(test_bad)
{
    const struct bad *row = &bad[_i];
    struct ad_manifest manifest;
    struct ad_error error = {0};
    ck_assert_msg(ad_manifest_parse(&manifest, row->text, strlen(row->text),
                                    "config.json", &error) == AD_INVALID,
                  "accepted: %s", row->text);
    ck_assert_int_eq(error.status, AD_INVALID);
    char expected[1024];
    snprintf(expected, sizeof expected, "config.json: %s", row->message);
    size_t n = strlen(expected);
    if (n > 3 && strcmp(expected + n - 3, "...") == 0) {
        expected[n - 3] = '\0';
        error.message[n - 3] = '\0';
    }
    ck_assert_str_eq(error.message, expected);
    ck_assert_ptr_null(manifest.file);
}
END_TEST

static void check_refused(const char *text, size_t n, const char *message)
{
    struct ad_manifest manifest;
    struct ad_error error = {0};
    ck_assert_int_eq(ad_manifest_parse(&manifest, text, n, "config.json", &error),
                     AD_INVALID);
    ck_assert_str_eq(error.message, message);
}

START_TEST(test_nul)
{
    static const char text[] = "{" SPEECH "}\0";
    check_refused(text, sizeof text,
                  "config.json: expected JSON text, got a NUL at byte 63");
}
END_TEST

START_TEST(test_too_large)
{
    const size_t n = AD_MANIFEST_MAX_BYTES + 1;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', n);
    check_refused(text, n, "config.json: expected at most 1048576 bytes, got 1048577");
    free(text);
}
END_TEST

/* A megabyte of brackets must neither overflow the stack nor take long. */
START_TEST(test_too_deep)
{
    const size_t n = AD_MANIFEST_MAX_BYTES;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    memset(text, '[', n);
    check_refused(
        text, n,
        "config.json: line 1, column 2049: maximum parsing depth reached near '['");
    free(text);
}
END_TEST

/* As many keys as fit: refused at the first that is unknown. */
START_TEST(test_many_options)
{
    char *text = malloc(AD_MANIFEST_MAX_BYTES);
    ck_assert_ptr_nonnull(text);
    size_t n = (size_t)sprintf(text, "{\"layer\": {\"kind\": \"routing_score\"");
    for (int i = 0; n < AD_MANIFEST_MAX_BYTES - 32; i++) {
        n += (size_t)sprintf(text + n, ",\"o%d\":0", i);
    }
    n += (size_t)sprintf(text + n, "}}");
    check_refused(
        text, n,
        "config.json: layer.o0: unknown to routing_score, which has use_tanh, C");
    free(text);
}
END_TEST

START_TEST(test_error_may_be_null)
{
    struct ad_manifest manifest;
    ck_assert_int_eq(ad_manifest_parse(&manifest, "{", 1, "config.json", NULL),
                     AD_INVALID);
    ck_assert_int_eq(ad_manifest_parse(&manifest, "{}", 2, "config.json", NULL),
                     AD_INVALID);
    ck_assert_int_eq(ad_manifest_parse(&manifest, NULL, 0, "config.json", NULL),
                     AD_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tests = tcase_create("config.json");
    tcase_add_test(tests, test_defaults);
    tcase_add_test(tests, test_everything_given);
    tcase_add_test(tests, test_option_types);
    tcase_add_test(tests, test_serving_defaults);
    tcase_add_test(tests, test_serving_given);
    tcase_add_test(tests, test_default_priority);
    tcase_add_loop_test(tests, test_good, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(tests, test_bad, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, test_nul);
    tcase_add_test(tests, test_too_large);
    tcase_add_test(tests, test_too_deep);
    tcase_add_test(tests, test_many_options);
    tcase_add_test(tests, test_error_may_be_null);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
