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

static const char *const good[] = {
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
    {"{\"Layer\": {}}", "Layer: unknown key, expected one of layer, weights, empty_rows, "
                        "weights_dtype"},
    {"{" SPEECH ", \"\": 1}",
     "\"\": unknown key, expected one of layer, weights, empty_rows, "
     "weights_dtype"},
    {"{" SPEECH ", \"" A50 "\": 1}",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...: unknown key, expected one of "
     "layer, weights, empty_rows, weights_dtype"},
    {"{" SPEECH ", \"a\\n\xc2\x85\": 1}",
     "a???: unknown key, expected one of layer, weights, empty_rows, "
     "weights_dtype"},
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
