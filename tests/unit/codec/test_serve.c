/* test_serve.c - whole requests: bytes in, bytes out, through real layers. */
#include "codec/serve.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

static struct ad_version *relations, *scores;
static struct ad_worker worker;

static void setup(void)
{
    relations = fixture_relational();
    scores = fixture_scores();
    worker = (struct ad_worker){.team = {NULL, 0, 1}};
}

static void teardown(void)
{
    ad_version_release(relations);
    ad_version_release(scores);
    ad_scratch_reset(&worker.scratch);
}

/* Serve; *request is freed by the caller. */
static struct ad_request *serve(struct ad_version *version, const char *json)
{
    struct ad_request *request = fixture_json(version, json);
    ad_serve_infer(request, &worker);
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

/* ---- on several workers ------------------------------------------------------------------ */

/* Scores of n queries and keys, 64 wide, as a binary request. */
static struct ad_request *scores_request(size_t n)
{
    static float rows[512 * 64];
    char json[512];
    ck_assert_uint_le(n, 512);
    for (size_t i = 0; i < n * 64; i++) {
        rows[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    }
    int n_json = snprintf(
        json, sizeof json,
        "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,%zu,64],"
        "\"parameters\":{\"binary_data_size\":%zu}},{\"name\":\"key\",\"datatype\":"
        "\"FP32\",\"shape\":[1,%zu,64],\"parameters\":{\"binary_data_size\":%zu}}],"
        "\"parameters\":{\"binary_data_output\":true}}",
        n, n * 256, n, n * 256);
    struct ad_request *request =
        fixture_request(scores, json, (size_t)n_json, rows, n * 256);
    ck_assert(ad_buffer_append(&request->body, rows, n * 256));
    return request;
}

/* A worker of a test's own, which helps and counts how often it did. */
struct helper {
    struct ad_team team;
    atomic_int n_jobs;
};

static void *help(void *argument)
{
    struct helper *helper = argument;
    struct ad_job *job = NULL;
    while (ad_queue_pop(helper->team.queue, &job) || job) {
        ad_team_help(&helper->team, job);
        atomic_fetch_add(&helper->n_jobs, 1);
    }
    return NULL;
}

/* Serve a request of n rows over and over until a helper came, at most n_times; what it
 * answers is always what one worker answers alone. Whether a helper came. */
static bool is_helped(size_t n, int n_times)
{
    struct ad_queue *queue = ad_queue_create(1);
    struct helper helper = {.team = {queue, 1, 2}};
    struct ad_request *alone = scores_request(n);
    pthread_t thread;
    ad_serve_infer(alone, &worker);
    ck_assert_msg(alone->error.status == AD_OK, "%s", alone->error.message);
    ck_assert_int_eq(pthread_create(&thread, NULL, help, &helper), 0);
    worker.team = (struct ad_team){queue, 0, 2};
    for (int i = 0; i < n_times && atomic_load(&helper.n_jobs) == 0; i++) {
        struct ad_request *request = scores_request(n);
        ad_serve_infer(request, &worker);
        ck_assert_int_eq(request->error.status, AD_OK);
        ck_assert_uint_eq(request->reply.size, alone->reply.size);
        ck_assert(memcmp(request->reply.data, alone->reply.data, alone->reply.size) == 0);
        ad_request_free(request);
    }
    ad_queue_close(queue);
    pthread_join(thread, NULL);
    ad_queue_free(queue);
    ad_request_free(alone);
    return atomic_load(&helper.n_jobs) > 0;
}

START_TEST(test_large_is_spread)
{
    ck_assert(is_helped(512, 20000));
}
END_TEST

/* The hand-over would cost more than it could win. */
START_TEST(test_small_stays_alone)
{
    ck_assert(!is_helped(1, 1000));
    ck_assert(!is_helped(32, 1000));
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
    tcase_add_test(tcase, test_large_is_spread);
    tcase_add_test(tcase, test_small_stays_alone);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
