/* test_serve.c - whole requests: bytes in, bytes out, through real layers. */
#include "codec/serve.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <math.h>

static struct ad_version *relations, *scores;
static struct ad_scratch scratch;

static void setup(void)
{
    relations = fixture_relational();
    scores = fixture_scores();
    scratch = (struct ad_scratch){NULL, 0};
}

static void teardown(void)
{
    ad_version_release(relations);
    ad_version_release(scores);
    ad_scratch_reset(&scratch);
}

/* Serve; *request is freed by the caller. */
static struct ad_request *serve(struct ad_version *version, const char *json)
{
    struct ad_request *request = fixture_json(version, json);
    ad_serve_infer(request, &scratch);
    return request;
}

static void check_reply(struct ad_version *version, const char *json, const char *part)
{
    struct ad_request *request = serve(version, json);
    ck_assert_msg(request->error.status == AD_OK, "%s: %s", json, request->error.message);
    ck_assert_msg(strstr(request->reply.data, part) != NULL, "%s", request->reply.data);
    ck_assert_uint_eq(request->n_reply_json, request->reply.size);
    ad_request_free(request);
}

static void check_refused(struct ad_version *version, const char *json,
                          enum ad_status status, const char *part)
{
    struct ad_request *request = serve(version, json);
    ck_assert_msg(request->error.status == status, "%s: %d %s", json,
                  request->error.status, request->error.message);
    ck_assert_msg(strstr(request->error.message, part) != NULL, "%s: %s", json,
                  request->error.message);
    ck_assert_ptr_null(request->reply.data);
    ad_request_free(request);
}

#define KEY_AND_VALUE                                                                   \
    "{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,2,3,4]}," \
    "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[1,1,2,1],\"data\":[5,0.25]}"
#define QUERY                                                                            \
    "{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,2,3,4]" \
    "}"
#define EDGES(row)                                                                  \
    "{\"name\":\"edges\",\"datatype\":\"INT32\",\"shape\":[1,3],\"data\":" row "}," \
    "{\"name\":\"edge_types\",\"datatype\":\"INT64\",\"shape\":[1],\"data\":[1]}"

START_TEST(test_relational)
{
    check_reply(
        relations, "{\"inputs\":[" QUERY "," KEY_AND_VALUE "]}",
        "\"outputs\":[{\"name\":\"output\",\"datatype\":\"FP32\",\"shape\":[1,1,3],"
        "\"data\":[5,0.25,5.25]}]}");
    check_reply(relations,
                "{\"id\":\"x\",\"inputs\":[" QUERY "," KEY_AND_VALUE
                "," EDGES("[[0,0,0]]") "],\"outputs\":[{\"name\":\"attention\"}]}",
                "{\"id\":\"x\",\"model_name\":\"relations\",\"model_version\":\"7\","
                "\"outputs\":[{\"name\":\"attention\",\"datatype\":\"FP32\","
                "\"shape\":[1,2,1,1],\"data\":[1,1]}]}");
}
END_TEST

START_TEST(test_refusals)
{
    check_refused(relations, "{\"inputs\":[" QUERY "]}", AD_INVALID, "keys");
    check_refused(relations, "{\"inputs\":[]}", AD_INVALID, "queries");
    check_refused(relations, "[", AD_INVALID, "JSON object");
    check_refused(relations,
                  "{\"inputs\":[" QUERY "," KEY_AND_VALUE "," EDGES("[[0,0,1]]") "]}",
                  AD_INVALID, "edges");
    check_refused(
        relations,
        "{\"inputs\":[" QUERY "," KEY_AND_VALUE
        ",{\"name\":\"masked_elements\",\"datatype\":\"BOOL\",\"shape\":[3,3,3],"
        "\"data\":[[[true,true,true],[true,true,true],[true,true,true]],[[true,"
        "true,true],[true,true,true],[true,true,true]],[[true,true,true],[true,"
        "true,true],[true,true,true]]]}]}",
        AD_INVALID, "masked_elements");
    check_refused(relations, "{\"parameters\":{\"training\":true},\"inputs\":[]}",
                  AD_UNSUPPORTED, "training");
}
END_TEST

#define SCORE_INPUTS                                                             \
    "{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,1,1],\"data\":[2]}," \
    "{\"name\":\"key\",\"datatype\":\"FP32\",\"shape\":[1,2,1],\"data\":[3,4]}," \
    "{\"name\":\"mask\",\"datatype\":\"BOOL\",\"shape\":[1,1,2],\"data\":[false,true]}"

START_TEST(test_nonfinite)
{
    check_refused(scores, "{\"inputs\":[" SCORE_INPUTS "]}", AD_NONFINITE,
                  "output 'logits' holds -Infinity at [0,0,1]");
    check_reply(scores,
                "{\"inputs\":[" SCORE_INPUTS "],\"parameters\":{\"nonfinite\":\"null\"}}",
                "\"data\":[6,null]");
}
END_TEST

START_TEST(test_binary_output)
{
    struct ad_request *request =
        serve(scores, "{\"inputs\":[" SCORE_INPUTS
                      "],\"parameters\":{\"binary_data_output\":true}}");
    static const float expected[2] = {6, -INFINITY};
    ck_assert_int_eq(request->error.status, AD_OK);
    ck_assert_uint_eq(request->reply.size, request->n_reply_json + sizeof expected);
    ck_assert_mem_eq(request->reply.data + request->n_reply_json, expected,
                     sizeof expected);
    ad_request_free(request);
}
END_TEST

/* A few bytes of input can ask for any amount of output: refused before anything is computed. */
START_TEST(test_output_too_large)
{
    check_refused(
        scores,
        "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":"
        "[1,65536,0],\"data\":[]},{\"name\":\"key\",\"datatype\":\"FP32\",\"shape\":"
        "[1,65536,0],\"data\":[]}]}",
        AD_TOO_LARGE,
        "output 'logits' of shape [1,65536,65536] takes 17179869184 bytes; all "
        "outputs of a request together may take 1048576 (--http-max-output-size)");
    check_refused(scores,
                  "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":"
                  "[1,4611686018427387904,0],\"data\":[]},{\"name\":\"key\",\"datatype\":"
                  "\"FP32\",\"shape\":[1,4611686018427387904,0],\"data\":[]}]}",
                  AD_TOO_LARGE, "");
}
END_TEST

START_TEST(test_empty_output)
{
    check_reply(
        scores,
        "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,0,2],"
        "\"data\":[]},{\"name\":\"key\",\"datatype\":\"FP32\",\"shape\":[1,3,2],"
        "\"data\":[1,2,3,4,5,6]}]}",
        "\"shape\":[1,0,3],\"data\":[]");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("serve");
    TCase *tcase = tcase_create("serve");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_relational);
    tcase_add_test(tcase, test_refusals);
    tcase_add_test(tcase, test_nonfinite);
    tcase_add_test(tcase, test_binary_output);
    tcase_add_test(tcase, test_output_too_large);
    tcase_add_test(tcase, test_empty_output);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
