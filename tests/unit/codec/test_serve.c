/* test_serve.c - whole requests, one by one: bytes in, bytes out, through real layers. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

static struct ad_version *relations, *tokens, *scores;
static struct ad_serving serving;
static struct ad_worker worker;

static void setup(void)
{
    relations = fixture_relational();
    tokens = fixture_causal();
    scores = fixture_scores();
    serving = serving_make(8, 1 << 20);
    worker = (struct ad_worker){.team = {.n_workers = 1}};
}

static void teardown(void)
{
    ad_version_release(relations);
    ad_version_release(tokens);
    ad_version_release(scores);
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
}

/* Serve; *request is freed by the caller. */
static struct ad_request *serve_mode(struct ad_version *version, bool gradient,
                                     const char *json)
{
    struct ad_request *request = fixture_json(version, json);
    request->mode.gradient = gradient;
    serving_serve(&serving, request, &worker);
    return request;
}

static struct ad_request *serve(struct ad_version *version, const char *json)
{
    return serve_mode(version, false, json);
}

static void check_mode(struct ad_version *version, bool gradient, const char *json,
                       const char *part)
{
    struct ad_request *request = serve_mode(version, gradient, json);
    ck_assert_msg(request->error.status == AD_OK, "%s: %s", json, request->error.message);
    ck_assert_msg(strstr(request->reply.data, part) != NULL, "%s", request->reply.data);
    ck_assert_uint_eq(request->n_reply_json, request->reply.size);
    ad_request_free(request);
}

static void check_reply(struct ad_version *version, const char *json, const char *part)
{
    check_mode(version, false, json, part);
}

static void refuse_mode(struct ad_version *version, bool gradient, const char *json,
                        enum ad_status status, const char *part)
{
    struct ad_request *request = serve_mode(version, gradient, json);
    ck_assert_msg(request->error.status == status, "%s: %d %s", json,
                  request->error.status, request->error.message);
    ck_assert_msg(strstr(request->error.message, part) != NULL, "%s: %s", json,
                  request->error.message);
    ck_assert_ptr_null(request->reply.data);
    ad_request_free(request);
}

static void check_refused(struct ad_version *version, const char *json,
                          enum ad_status status, const char *part)
{
    refuse_mode(version, false, json, status, part);
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
}
END_TEST

/* ---- gradients, training ----------------------------------------------------------------- */

#define GRAD                                                                            \
    ",{\"name\":\"grad_output\",\"datatype\":\"FP32\",\"shape\":[1,1,3],\"data\":[1,2," \
    "4]}"

/* One key per query and head: the output is the projection of the value. */
START_TEST(test_gradient)
{
    check_mode(relations, true,
               "{\"inputs\":[" QUERY "," KEY_AND_VALUE GRAD
               "],\"outputs\":[{\"name\":\"grad_values\"},{\"name\":\"output\"}]}",
               "\"outputs\":[{\"name\":\"grad_values\",\"datatype\":\"FP32\",\"shape\":"
               "[1,1,2,1],\"data\":[5,6]},{\"name\":\"output\",\"datatype\":\"FP32\","
               "\"shape\":[1,1,3],\"data\":[5,0.25,5.25]}]}");
    check_mode(
        relations, true, "{\"inputs\":[" QUERY "," KEY_AND_VALUE GRAD "]}",
        "{\"name\":\"grad._out_proj.weight\",\"datatype\":\"FP32\",\"shape\":[3,2],"
        "\"data\":[5,0.25,10,0.5,20,1]}");
    refuse_mode(relations, true, "{\"inputs\":[" QUERY "," KEY_AND_VALUE "]}", AD_INVALID,
                "grad_output");
    refuse_mode(relations, true,
                "{\"inputs\":[" QUERY "," KEY_AND_VALUE
                ",{\"name\":\"grad_output\",\"datatype\":\"FP32\",\"shape\":[3],"
                "\"data\":[1,2,4]}]}",
                AD_INVALID, "input 'grad_output': expected [1, 1, 3], got [3]");
    refuse_mode(relations, true,
                "{\"inputs\":[" QUERY "," KEY_AND_VALUE GRAD
                "],\"outputs\":[{\"name\":\"grad_dense_relations_kq\"}]}",
                AD_INVALID, "output 'grad_dense_relations_kq'");
}
END_TEST

#define TOKENS                                                                           \
    "{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[2,2,2],\"data\":[1,5,1,5,3,1," \
    "3,1]}"
#define OF_WEIGHTS                                                                       \
    "{\"inputs\":[" TOKENS ",{\"name\":\"grad_output\",\"datatype\":\"FP32\",\"shape\":" \
    "[2,2,2],\"data\":[1,1,1,1,1,1,1"                                                    \
    ",1]}],\"outputs\":[{\"name\":\"grad.normalisation.beta\"}]"

/* Two samples, a one from each. */
START_TEST(test_reduction)
{
    check_mode(tokens, true, OF_WEIGHTS "}", "\"data\":[1,1,1,1]");
    check_mode(tokens, true,
               OF_WEIGHTS ",\"parameters\":{\"gradient_reduction\":\"mean\"}}",
               "\"data\":[1,1,1,1]");
    check_mode(tokens, true,
               OF_WEIGHTS ",\"parameters\":{\"gradient_reduction\":\"sum\"}}",
               "\"data\":[2,2,2,2]");
}
END_TEST

START_TEST(test_training)
{
    check_reply(
        relations,
        "{\"inputs\":[" QUERY "," KEY_AND_VALUE
        ",{\"name\":\"dropout_uniform\",\"datatype\":\"FP32\",\"shape\":[1,2,1,1],"
        "\"data\":[0.95,0.5]}],\"parameters\":{\"training\":true,\"seed\":1}}",
        "\"model_version\":\"7\",\"outputs\":[{\"name\":\"output\",\"datatype\":"
        "\"FP32\",\"shape\":[1,1,3],\"data\":[0,0.2777778,0.2777778]");
    check_reply(relations,
                "{\"inputs\":[" QUERY "," KEY_AND_VALUE
                "],\"parameters\":{\"training\":true}}",
                "\"model_version\":\"7\",\"parameters\":{\"seed\":");
    check_refused(relations,
                  "{\"inputs\":[" QUERY "," KEY_AND_VALUE
                  ",{\"name\":\"dropout_uniform\",\"datatype\":\"FP32\",\"shape\":"
                  "[1,2,1,1],\"data\":[0.5,1]}],\"parameters\":{\"training\":true}}",
                  AD_INVALID, "dropout_uniform");
}
END_TEST

START_TEST(test_samples)
{
    check_reply(
        relations,
        "{\"inputs\":[" QUERY "," KEY_AND_VALUE
        "],\"parameters\":{\"training\":true,\"samples\":5},"
        "\"outputs\":[{\"name\":\"attention\"},{\"name\":\"attention.mean\"},"
        "{\"name\":\"attention.variance\"}]}",
        "\"outputs\":[{\"name\":\"attention\",\"datatype\":\"FP32\",\"shape\":"
        "[5,1,2,1,1],\"data\":[1,1,1,1,1,1,1,1,1,1]},{\"name\":\"attention.mean\","
        "\"datatype\":\"FP32\",\"shape\":[1,2,1,1],\"data\":[1,1]},{\"name\":"
        "\"attention.variance\",\"datatype\":\"FP32\",\"shape\":[1,2,1,1],"
        "\"data\":[0,0]}]}");
}
END_TEST

/* 3 floats a sample: 1024 of them are 12 KB. */
START_TEST(test_samples_too_large)
{
    struct ad_request *request =
        fixture_json(relations, "{\"inputs\":[" QUERY "," KEY_AND_VALUE
                                "],\"parameters\":{\"training\":true,\"samples\":1024}}");
    request->max_output_bytes = 12287;
    serving_serve(&serving, request, &worker);
    ck_assert_int_eq(request->error.status, AD_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(request->error.message,
                                 "output 'output' of shape [1024,1,1,3] takes 12288"));
    ad_request_free(request);
}
END_TEST

/* The statistics of two samples, half the way: from 0 to means of 2 and 3. */
START_TEST(test_state)
{
    struct ad_request *request =
        serve(tokens, "{\"inputs\":[" TOKENS
                      "],\"parameters\":{\"training\":true,\"seed\":0},\"outputs\":"
                      "[{\"name\":\"state.normalisation.running_mean\"}]}");
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    const char *data = strstr(request->reply.data, "\"shape\":[2,2],\"data\":[");
    float mean[4];
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(sscanf(strrchr(data, '[') + 1, "%f,%f,%f,%f", &mean[0], &mean[1],
                            &mean[2], &mean[3]),
                     4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_float_eq_tol(mean[i], i % 2 ? 1.5f : 1, 1e-6f);
    }
    ad_request_free(request);
    check_refused(tokens,
                  "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":"
                  "[1,2,2],\"data\":[1,5,1,5]}],\"parameters\":{\"training\":true}}",
                  AD_INVALID, "at least 2 samples");
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

enum ask { FORWARD, GRADIENTS, SAMPLES };

/* Scores of n queries and keys, 64 wide, of so many samples, as a binary request. */
struct problem {
    size_t n_batch, n;
    enum ask ask;
};

static void add_rows(struct ad_request *request, size_t n)
{
    static float rows[512 * 512];
    ck_assert_uint_le(n, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        rows[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    }
    ck_assert(ad_buffer_append(&request->body, rows, n * sizeof *rows));
}

static struct ad_request *scores_request(const struct problem *problem)
{
    static const char *const more[] = {
        [FORWARD] = "}",
        [GRADIENTS] = "}",
        [SAMPLES] = (",\"training\":true,\"seed\":1,\"samples\":4},\"outputs\":"
                     "[{\"name\":\"logits.mean\"}]"),
    };
    static const char tensor[] =
        "{\"name\":\"%s\",\"datatype\":\"FP32\",\"shape\":[%zu,%zu,"
        "%zu],\"parameters\":{\"binary_data_size\":%zu}}";
    size_t n_batch = problem->n_batch, n = problem->n, n_rows = n_batch * n * 64;
    char tensors[3][256] = {"", "", ""}, json[1024];
    snprintf(tensors[0], sizeof *tensors, tensor, "query", n_batch, n, (size_t)64,
             n_rows * 4);
    snprintf(tensors[1], sizeof *tensors, tensor, "key", n_batch, n, (size_t)64,
             n_rows * 4);
    if (problem->ask == GRADIENTS) {
        tensors[2][0] = ',';
        snprintf(tensors[2] + 1, sizeof *tensors - 1, tensor, "grad_output", n_batch, n,
                 n, n_batch * n * n * 4);
    }
    int n_json = snprintf(json, sizeof json,
                          "{\"inputs\":[%s,%s%s],\"parameters\":"
                          "{\"binary_data_output\":true%s}",
                          tensors[0], tensors[1], tensors[2], more[problem->ask]);
    struct ad_request *request = fixture_request(scores, json, (size_t)n_json, "", 0);
    request->mode.gradient = problem->ask == GRADIENTS;
    request->max_output_bytes = 1 << 23;
    add_rows(request, n_rows);
    add_rows(request, n_rows);
    add_rows(request, problem->ask == GRADIENTS ? n_batch * n * n : 0);
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
    struct ad_work work = {.kind = AD_WORK_END};
    for (ad_queue_take(helper->team.queue, true, &work); work.kind == AD_WORK_HELP;
         ad_queue_take(helper->team.queue, true, &work)) {
        ad_team_help(&helper->team, work.job);
        atomic_fetch_add(&helper->n_jobs, 1);
    }
    return NULL;
}

/* Serve a request over and over until a helper came, at most n_times; what it answers is
 * always what one worker answers alone. Whether a helper came. */
static bool is_helped(struct problem problem, int n_times)
{
    struct ad_queue *queue = ad_queue_create(1);
    struct helper helper = {.team = {.queue = queue, .index = 1, .n_workers = 2}};
    struct ad_team before = worker.team;
    struct ad_request *alone = scores_request(&problem);
    pthread_t thread;
    serving_serve(&serving, alone, &worker);
    ck_assert_msg(alone->error.status == AD_OK, "%s", alone->error.message);
    ck_assert_int_eq(pthread_create(&thread, NULL, help, &helper), 0);
    worker.team = (struct ad_team){.queue = queue, .n_workers = 2};
    for (int i = 0; i < n_times && atomic_load(&helper.n_jobs) == 0; i++) {
        struct ad_request *request = scores_request(&problem);
        serving_serve(&serving, request, &worker);
        ck_assert_int_eq(request->error.status, AD_OK);
        ck_assert_uint_eq(request->reply.size, alone->reply.size);
        ck_assert(memcmp(request->reply.data, alone->reply.data, alone->reply.size) == 0);
        ad_request_free(request);
    }
    ad_queue_close(queue);
    pthread_join(thread, NULL);
    worker.team = before;
    ad_queue_free(queue);
    ad_request_free(alone);
    return atomic_load(&helper.n_jobs) > 0;
}

START_TEST(test_large_is_spread)
{
    ck_assert(is_helped((struct problem){1, 768, FORWARD}, 20000));
}
END_TEST

/* What a forward is too small for may be worth it when there is more to do. */
START_TEST(test_gradients_are_spread)
{
    ck_assert(!is_helped((struct problem){5, 180, FORWARD}, 100));
    ck_assert(is_helped((struct problem){5, 180, GRADIENTS}, 20000));
}
END_TEST

START_TEST(test_samples_are_spread)
{
    ck_assert(is_helped((struct problem){5, 180, SAMPLES}, 20000));
}
END_TEST

/* The hand-over would cost more than it could win. */
START_TEST(test_small_stays_alone)
{
    ck_assert(!is_helped((struct problem){1, 1, FORWARD}, 1000));
    ck_assert(!is_helped((struct problem){1, 32, FORWARD}, 1000));
    ck_assert(!is_helped((struct problem){1, 32, GRADIENTS}, 1000));
    ck_assert(!is_helped((struct problem){1, 32, SAMPLES}, 1000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("serve");
    TCase *tcase = tcase_create("serve");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60); /* a busy machine may let helpers wait */
    tcase_add_test(tcase, test_relational);
    tcase_add_test(tcase, test_refusals);
    tcase_add_test(tcase, test_gradient);
    tcase_add_test(tcase, test_reduction);
    tcase_add_test(tcase, test_training);
    tcase_add_test(tcase, test_samples);
    tcase_add_test(tcase, test_samples_too_large);
    tcase_add_test(tcase, test_state);
    tcase_add_test(tcase, test_nonfinite);
    tcase_add_test(tcase, test_binary_output);
    tcase_add_test(tcase, test_output_too_large);
    tcase_add_test(tcase, test_empty_output);
    tcase_add_test(tcase, test_large_is_spread);
    tcase_add_test(tcase, test_gradients_are_spread);
    tcase_add_test(tcase, test_samples_are_spread);
    tcase_add_test(tcase, test_small_stays_alone);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
