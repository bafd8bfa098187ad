/* test_serve_sequences.c - sequences from bytes to bytes: what is sent step by step gives what one
 * request over all of it gives, and what goes wrong leaves them as documented. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <math.h>

#define LENGTH 150

static struct ad_version *growing, *relations, *scores, *tokens;
static struct ad_serving serving;
static struct ad_worker worker;
static float numbers[2][LENGTH * 2]; /* the tokens of two sequences */

static void setup(void)
{
    unsigned seed = 1;
    growing = fixture_growing();
    relations = fixture_relational();
    scores = fixture_scores();
    tokens = fixture_causal();
    serving = serving_make(8, 1 << 20);
    worker = (struct ad_worker){.team = {.n_workers = 1}};
    for (size_t i = 0; i < 2 * 2 * LENGTH; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i % 2][i / 2] = (float)(seed >> 16) / 32768 - 1;
    }
}

static void teardown(void)
{
    serving_reset(&serving);
    ad_version_release(growing);
    ad_version_release(relations);
    ad_version_release(scores);
    ad_version_release(tokens);
    ad_scratch_reset(&worker.scratch);
    ad_scratch_reset(&worker.records);
}

/* ---- sequences that grow --------------------------------------------------------------------- */

/* Positions [first, first + n) of a sequence's tokens, with these parameters. */
static struct ad_request *make_step(size_t which, size_t first, size_t n,
                                    const char *parameters)
{
    char json[512];
    int n_json = snprintf(json, sizeof json,
                          "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\","
                          "\"shape\":[1,%zu,2],\"parameters\":{\"binary_data_size\":%zu}}"
                          "],\"parameters\":{\"binary_data_output\":true%s%s}}",
                          n, n * 8, parameters[0] ? "," : "", parameters);
    return fixture_request(growing, json, (size_t)n_json, numbers[which] + 2 * first,
                           n * 8);
}

/* The answer's rows are those of the whole sequence. */
static void check_rows(const struct ad_request *request, const struct ad_request *whole,
                       size_t first, size_t n)
{
    float rows[LENGTH * 2], expected[LENGTH * 2];
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ck_assert_uint_eq(request->reply.size - request->n_reply_json, n * 8);
    memcpy(rows, request->reply.data + request->n_reply_json, n * 8);
    memcpy(expected, whole->reply.data + whole->n_reply_json + first * 8, n * 8);
    for (size_t i = 0; i < 2 * n; i++) {
        ck_assert_float_eq_tol(rows[i], expected[i], 1e-5f);
    }
}

/* Serve one step and check it. */
static void step(size_t which, size_t first, size_t n, const char *parameters,
                 const struct ad_request *whole)
{
    struct ad_request *request = make_step(which, first, n, parameters);
    serving_serve(&serving, request, &worker);
    check_rows(request, whole, first, n);
    ck_assert_ptr_null(request->sequence);
    ad_request_free(request);
}

/* Serve one step, which is refused. */
static void refuse(struct ad_request *request, enum ad_status status, const char *code,
                   const char *part)
{
    serving_serve(&serving, request, &worker);
    ck_assert_msg(request->error.status == status, "%d %s", request->error.status,
                  request->error.message);
    ck_assert_str_eq(request->error.code ? request->error.code : "", code);
    ck_assert_msg(strstr(request->error.message, part) != NULL, "%s",
                  request->error.message);
    ck_assert_ptr_null(request->reply.data);
    ck_assert_ptr_null(request->sequence);
    ad_request_free(request);
}

static struct ad_request *whole_of(size_t which)
{
    struct ad_request *whole = make_step(which, 0, LENGTH, "");
    serving_serve(&serving, whole, &worker);
    ck_assert_msg(whole->error.status == AD_OK, "%s", whole->error.message);
    return whole;
}

static size_t count(void)
{
    return ad_sequences_count(serving.sequences).n;
}

#define START "\"sequence_id\":7,\"sequence_start\":true"
#define GO_ON "\"sequence_id\":\"7\""
#define END "\"sequence_id\":7,\"sequence_end\":true"

START_TEST(step_by_step_is_the_whole)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, 3, START, whole);
    for (size_t i = 3; i < LENGTH - 5; i++) {
        step(0, i, 1, GO_ON, whole);
    }
    ck_assert_uint_eq(count(), 1);
    step(0, LENGTH - 5, 5, END, whole);
    ck_assert_uint_eq(count(), 0);
    refuse(make_step(0, 0, 1, GO_ON), AD_CONFLICT, "sequence_lost", "sequence '7'");
    ad_request_free(whole);
}
END_TEST

START_TEST(started_again)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, 100, START, whole);
    step(0, 0, 2, START, whole);
    step(0, 2, 2, GO_ON, whole);
    ck_assert_uint_eq(count(), 1);
    ad_request_free(whole);
}
END_TEST

START_TEST(one_request_is_a_sequence_too)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, 9, START ",\"sequence_end\":true", whole);
    ck_assert_uint_eq(count(), 0);
    ad_request_free(whole);
}
END_TEST

/* The first 70 positions are the same, the others those of two sequences. */
START_TEST(forks_go_their_own_ways)
{
    memcpy(numbers[1], numbers[0], 70 * 2 * sizeof(float));
    struct ad_request *wholes[2] = {whole_of(0), whole_of(1)};
    step(0, 0, 70, START, wholes[0]);
    step(1, 70, 1, "\"sequence_id\":\"b\",\"sequence_fork\":7,\"sequence_start\":true",
         wholes[1]);
    step(0, 70, 3, GO_ON, wholes[0]);
    step(1, 71, 9, "\"sequence_id\":\"b\"", wholes[1]);
    step(0, 73, 60, GO_ON, wholes[0]);
    ck_assert_uint_eq(count(), 2);
    step(0, 133, 1, END, wholes[0]);
    step(1, 80, 60, "\"sequence_id\":\"b\",\"sequence_end\":true", wholes[1]);
    ad_request_free(wholes[0]);
    ad_request_free(wholes[1]);
}
END_TEST

#define N_TOGETHER 6

/* Steps of many sequences, one of them forked, and a request of none, in each pass. */
START_TEST(steps_share_passes)
{
    struct ad_request *whole = whole_of(0);
    static const char *const verbs[] = {",\"sequence_start\":true", "", "",
                                        ",\"sequence_end\":true"};
    for (size_t round = 0; round < 4; round++) {
        struct ad_request *requests[N_TOGETHER + 1];
        for (size_t i = 0; i < N_TOGETHER; i++) {
            char parameters[128];
            snprintf(parameters, sizeof parameters, "\"sequence_id\":%zu%s", i + 1,
                     verbs[round]);
            requests[i] = make_step(0, round * (i + 1), i + 1, parameters);
        }
        requests[N_TOGETHER] = make_step(0, 0, 30, "");
        serving_serve_many(&serving, requests, N_TOGETHER + 1, &worker);
        for (size_t i = 0; i < N_TOGETHER; i++) {
            check_rows(requests[i], whole, round * (i + 1), i + 1);
            ad_request_free(requests[i]);
        }
        check_rows(requests[N_TOGETHER], whole, 0, 30);
        ad_request_free(requests[N_TOGETHER]);
        ck_assert_uint_eq(count(), round == 3 ? 0 : N_TOGETHER);
    }
    ad_request_free(whole);
}
END_TEST

/* A step has the very bits that it has when no other is run with it. */
START_TEST(together_and_alone)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, 40, START, whole);
    static const char *const forks[] = {
        "\"sequence_id\":\"a\",\"sequence_fork\":7,\"sequence_start\":true",
        "\"sequence_id\":\"b\",\"sequence_fork\":7,\"sequence_start\":true"};
    struct ad_request *alone = make_step(0, 40, 3, forks[0]);
    struct ad_request *joined[] = {make_step(0, 40, 3, forks[1]),
                                   make_step(1, 0, 90, "")};
    serving_serve(&serving, alone, &worker);
    serving_serve_many(&serving, joined, 2, &worker);
    check_rows(alone, whole, 40, 3);
    ck_assert_uint_eq(joined[0]->reply.size, alone->reply.size);
    ck_assert_mem_eq(joined[0]->reply.data, alone->reply.data, alone->reply.size);
    ad_request_free(alone);
    ad_request_free(joined[0]);
    ad_request_free(joined[1]);
    ad_request_free(whole);
}
END_TEST

/* ---- a context that stays -------------------------------------------------------------------- */

#define TENSOR(name, shape, data) \
    "{\"name\":\"" name "\",\"datatype\":\"FP32\",\"shape\":" shape ",\"data\":" data "}"
#define QUERIES(data) TENSOR("queries", "[1,1,2,2]", data)
#define KEYS TENSOR("keys", "[1,2,2,2]", "[1,2,3,4,-1,1,-2,0]")
#define VALUES TENSOR("values", "[1,2,2,1]", "[5,0.25,-1,2]")
#define MASK(data)                                                           \
    "{\"name\":\"masked_elements\",\"datatype\":\"BOOL\",\"shape\":[1,1,2]," \
    "\"data\":" data "}"
#define BODY(inputs, parameters) \
    "{\"inputs\":[" inputs "],\"parameters\":{\"nonfinite\":\"literal\"" parameters "}}"

/* The answer to a step is that to the whole request. */
static void check_context(struct ad_version *version, const char *step_json,
                          const char *whole_json)
{
    struct ad_request *part = fixture_json(version, step_json);
    struct ad_request *whole = fixture_json(version, whole_json);
    serving_serve(&serving, part, &worker);
    serving_serve(&serving, whole, &worker);
    ck_assert_msg(part->error.status == AD_OK, "%s", part->error.message);
    ck_assert_msg(whole->error.status == AD_OK, "%s", whole->error.message);
    ck_assert_str_eq(part->reply.data, whole->reply.data);
    ad_request_free(part);
    ad_request_free(whole);
}

START_TEST(keys_and_values_are_sent_once)
{
    check_context(relations, BODY(QUERIES("[1,2,3,4]") "," KEYS "," VALUES, "," START),
                  BODY(QUERIES("[1,2,3,4]") "," KEYS "," VALUES, ""));
    check_context(relations, BODY(QUERIES("[-1,0.5,2,1]"), "," GO_ON),
                  BODY(QUERIES("[-1,0.5,2,1]") "," KEYS "," VALUES, ""));
    check_context(
        relations, BODY(QUERIES("[1,1,2,1]") "," MASK("[false,true]"), "," GO_ON),
        BODY(QUERIES("[1,1,2,1]") "," KEYS "," VALUES "," MASK("[false,true]"), ""));
    check_context(
        relations, BODY(TENSOR("queries", "[1,2,2,2]", "[1,1,2,1,0,0,3,-3]"), "," END),
        BODY(TENSOR("queries", "[1,2,2,2]", "[1,1,2,1,0,0,3,-3]") "," KEYS "," VALUES,
             ""));
    ck_assert_uint_eq(count(), 0);
}
END_TEST

#define QUERY(data) TENSOR("query", "[1,1,1]", data)
#define KEY TENSOR("key", "[1,2,1]", "[3,4]")

START_TEST(scores_of_kept_keys)
{
    check_context(scores, BODY(QUERY("[2]") "," KEY, "," START),
                  BODY(QUERY("[2]") "," KEY, ""));
    check_context(scores, BODY(QUERY("[-1]"), "," GO_ON),
                  BODY(QUERY("[-1]") "," KEY, ""));
    refuse(fixture_json(scores, BODY(QUERY("[-1]") "," KEY, "," GO_ON)), AD_INVALID, "",
           "key");
    check_context(scores, BODY(QUERY("[9]"), "," END), BODY(QUERY("[9]") "," KEY, ""));
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------- */

START_TEST(a_first_request_that_fails_starts_nothing)
{
    refuse(fixture_json(growing, "{\"inputs\":[],\"parameters\":{" START "}}"),
           AD_INVALID, "", "input");
    refuse(fixture_json(relations, BODY(QUERIES("[1,2,3,4]"), "," START)), AD_INVALID, "",
           "keys");
    refuse(make_step(0, 0, 1,
                     "\"sequence_id\":1,\"sequence_fork\":2,"
                     "\"sequence_start\":true"),
           AD_CONFLICT, "sequence_lost", "sequence '2' of model 'words'");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

/* Not started, so the sequence is as far as it was. */
START_TEST(a_step_that_is_refused_changes_nothing)
{
    struct ad_request *whole = whole_of(0), *request = make_step(0, 5, 2, GO_ON);
    step(0, 0, 5, START, whole);
    refuse(fixture_json(growing, "{\"inputs\":[],\"parameters\":{" GO_ON "}}"),
           AD_INVALID, "", "input");
    request->max_output_bytes = 15;
    refuse(request, AD_TOO_LARGE, "", "output");
    refuse(fixture_json(growing,
                        "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\","
                        "\"shape\":[2,1,2],\"data\":[1,2,3,4]}],\"parameters\":{" GO_ON
                        "}}"),
           AD_INVALID, "", "input");
    step(0, 5, 2, GO_ON, whole);
    ad_request_free(whole);
}
END_TEST

START_TEST(edges_to_nowhere_change_nothing)
{
    check_context(relations, BODY(QUERIES("[1,2,3,4]") "," KEYS "," VALUES, "," START),
                  BODY(QUERIES("[1,2,3,4]") "," KEYS "," VALUES, ""));
    refuse(fixture_json(
               relations,
               BODY(QUERIES("[1,2,3,4]") ",{\"name\":\"edges\",\"datatype\":\"INT32\","
                                         "\"shape\":[1,3],\"data\":[0,0,2]},{\"name\":"
                                         "\"edge_types\",\"datatype\":\"INT64\","
                                         "\"shape\":[1],\"data\":[1]}",
                    "," GO_ON)),
           AD_INVALID, "", "edges");
    check_context(relations, BODY(QUERIES("[4,3,2,1]"), "," GO_ON),
                  BODY(QUERIES("[4,3,2,1]") "," KEYS "," VALUES, ""));
}
END_TEST

/* The step was made, but the client does not know: how far it is would be anybody's guess. */
START_TEST(a_lost_answer_is_the_end)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, 5, START, whole);
    refuse(
        fixture_json(growing,
                     "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":"
                     "[1,1,2],\"data\":[1e30,1e30]}],\"parameters\":{" GO_ON "}}"),
        AD_NONFINITE, "", "output");
    ck_assert_uint_eq(count(), 0);
    refuse(make_step(0, 5, 1, GO_ON), AD_CONFLICT, "sequence_lost", "");
    ad_request_free(whole);
}
END_TEST

START_TEST(one_request_at_a_time)
{
    struct ad_request *whole = whole_of(0), *waiting = make_step(0, 5, 2, GO_ON);
    step(0, 0, 5, START, whole);
    ck_assert_int_eq(ad_serve_decode(&serving, waiting), AD_OK);
    refuse(make_step(0, 7, 1, GO_ON), AD_CONFLICT, "sequence_busy", "busy");
    refuse(make_step(0, 0, 1, START), AD_CONFLICT, "sequence_busy", "busy");
    struct ad_requests batch = {NULL, NULL, 0};
    ad_requests_append(&batch, waiting);
    ad_serve_run(&serving, &batch, &worker);
    check_rows(waiting, whole, 5, 2);
    step(0, 7, 1, GO_ON, whole);
    ad_request_free(waiting);
    ad_request_free(whole);
}
END_TEST

START_TEST(layers_that_cannot_keep)
{
    refuse(fixture_json(tokens,
                        "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\","
                        "\"shape\":[1,1,2],\"data\":[1,2]}],\"parameters\":{" START "}}"),
           AD_INVALID, "", "causal mask");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

/* More positions than the layer serves, in one step or after many. */
START_TEST(no_longer_than_the_layer_is)
{
    struct ad_request *whole = whole_of(0);
    step(0, 0, LENGTH, START, whole);
    refuse(make_step(0, 0, 107, GO_ON), AD_INVALID, "", "150");
    struct ad_request *last = make_step(0, 0, 106, GO_ON);
    serving_serve(&serving, last, &worker);
    ck_assert_msg(last->error.status == AD_OK, "%s", last->error.message);
    refuse(make_step(0, 0, 1, GO_ON), AD_INVALID, "", "256");
    ad_request_free(last);
    ad_request_free(whole);
}
END_TEST

/* A step that needs more memory than there may be is refused before it is made. */
START_TEST(no_more_memory_than_there_may_be)
{
    struct ad_request *whole = whole_of(0);
    serving_reset(&serving);
    serving = serving_make(8, 2000);
    refuse(make_step(0, 0, LENGTH, START), AD_TOO_LARGE, "sequence_too_large",
           "--sequence-memory");
    ck_assert_uint_eq(count(), 0);
    ck_assert_uint_eq(ad_sequences_count(serving.sequences).n_bytes, 0);
    step(0, 0, 60, START, whole);
    refuse(make_step(0, 60, 10, GO_ON), AD_TOO_LARGE, "sequence_too_large", "");
    step(0, 60, 4, END, whole);
    ad_request_free(whole);
}
END_TEST

START_TEST(the_header_agrees)
{
    struct ad_request *request = make_step(0, 0, 1, START);
    request->sequence_header = "8";
    refuse(request, AD_INVALID, "", "X-Sequence-Id is '8'");
    request = make_step(0, 0, 1, START);
    request->sequence_header = "7";
    serving_serve(&serving, request, &worker);
    ck_assert_int_eq(request->error.status, AD_OK);
    ad_request_free(request);
    ck_assert_uint_eq(count(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("serve_sequences");
    TCase *tcase = tcase_create("serve_sequences");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, step_by_step_is_the_whole);
    tcase_add_test(tcase, started_again);
    tcase_add_test(tcase, one_request_is_a_sequence_too);
    tcase_add_test(tcase, forks_go_their_own_ways);
    tcase_add_test(tcase, steps_share_passes);
    tcase_add_test(tcase, together_and_alone);
    tcase_add_test(tcase, keys_and_values_are_sent_once);
    tcase_add_test(tcase, scores_of_kept_keys);
    tcase_add_test(tcase, a_first_request_that_fails_starts_nothing);
    tcase_add_test(tcase, a_step_that_is_refused_changes_nothing);
    tcase_add_test(tcase, edges_to_nowhere_change_nothing);
    tcase_add_test(tcase, a_lost_answer_is_the_end);
    tcase_add_test(tcase, one_request_at_a_time);
    tcase_add_test(tcase, layers_that_cannot_keep);
    tcase_add_test(tcase, no_longer_than_the_layer_is);
    tcase_add_test(tcase, no_more_memory_than_there_may_be);
    tcase_add_test(tcase, the_header_agrees);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
