/* test_serve_many.c - requests run together: each answer has the very bits that it has alone, and what is
 * wrong with one is its own. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#define MAX_REQUESTS 256

static struct ad_version *relations, *growing, *tokens;
static struct ad_serving serving;
static struct ad_worker worker;

static void setup(void)
{
    relations = fixture_relational();
    growing = fixture_growing();
    tokens = fixture_causal();
    serving = serving_make(8, 1 << 20);
    worker = (struct ad_worker){.team = {.n_workers = 1}};
}

static void teardown(void)
{
    ad_version_release(relations);
    ad_version_release(growing);
    ad_version_release(tokens);
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
    ad_scratch_reset(&worker.records);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void add_numbers(struct ad_request *request, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        float number = (float)(seed >> 16) / 32768 - 1;
        ck_assert(ad_buffer_append(&request->body, &number, sizeof number));
    }
}

static const char tensor[] = "{\"name\":\"%s\",\"datatype\":\"FP32\",\"shape\":[%zu,%zu,"
                             "2%s],\"parameters\":{\"binary_data_size\":%zu}}";

/* Positions of a causal layer. */
static struct ad_request *make_tokens(struct ad_version *version, size_t n_batch,
                                      size_t n, const char *more, unsigned seed)
{
    char input[256], json[512];
    snprintf(input, sizeof input, tensor, "input", n_batch, n, "", n_batch * n * 8);
    int n_json = snprintf(json, sizeof json,
                          "{\"inputs\":[%s],\"parameters\":{\"binary_data_output\":true"
                          "%s}}",
                          input, more);
    struct ad_request *request = fixture_request(version, json, (size_t)n_json, "", 0);
    add_numbers(request, n_batch * n * 2, seed);
    return request;
}

/* Queries and keys of relations, with an edge from query 0 to a key, which may not be there. */
static struct ad_request *make_relations(size_t n_batch, size_t n_queries, size_t n_keys,
                                         size_t key, const char *more, unsigned seed)
{
    char inputs[3][256], json[2048];
    snprintf(inputs[0], sizeof *inputs, tensor, "queries", n_batch, n_queries, ",2",
             n_batch * n_queries * 16);
    snprintf(inputs[1], sizeof *inputs, tensor, "keys", n_batch, n_keys, ",2",
             n_batch * n_keys * 16);
    snprintf(inputs[2], sizeof *inputs, tensor, "values", n_batch, n_keys, ",1",
             n_batch * n_keys * 8);
    int n_json = snprintf(
        json, sizeof json,
        "{\"inputs\":[%s,%s,%s,"
        "{\"name\":\"edges\",\"datatype\":\"INT32\",\"shape\":[1,3],\"data\":[0,0,%zu]},"
        "{\"name\":\"edge_types\",\"datatype\":\"INT64\",\"shape\":[1],\"data\":[1]}],"
        "\"parameters\":{\"binary_data_output\":true%s},\"outputs\":[{\"name\":"
        "\"output\"}"
        ",{\"name\":\"attention\"}]}",
        inputs[0], inputs[1], inputs[2], key, more);
    ck_assert_int_lt(n_json, (int)sizeof json);
    struct ad_request *request = fixture_request(relations, json, (size_t)n_json, "", 0);
    add_numbers(request, n_batch * (n_queries * 4 + n_keys * 6), seed);
    return request;
}

#define TRAINING ",\"training\":true,\"seed\":3"

/* The kinds that are joined, and some that go wrong, of lengths that depend on i. */
static struct ad_request *make(size_t kind, size_t i)
{
    size_t n = 1 + i * 7 % 13;
    switch (kind) {
    case 0:
        return make_tokens(growing, 1 + i % 3, n * (1 + i % 5), "", (unsigned)i);
    case 1:
        return make_relations(1 + i % 2, n, 1 + i % 9, 0, "", (unsigned)i);
    case 2:
        return make_relations(1 + i % 2, n, 1 + i % 9, 0, i % 2 ? TRAINING : "",
                              (unsigned)i);
    case 3: /* every third has an edge to nowhere */
        return make_relations(1 + i % 2, n, 1 + i % 9, i % 3 == 1 ? 1 + i % 9 : 0, "",
                              (unsigned)i);
    default: /* training couples the samples of each, and no others */
        return make_tokens(tokens, 2 + i % 3, 2, i % 2 ? TRAINING : "", (unsigned)i);
    }
}

/* ---- together and alone ---------------------------------------------------------------------- */

static void check_same(const struct ad_request *joined, const struct ad_request *alone)
{
    ck_assert_msg(joined->error.status == alone->error.status, "%s | %s",
                  joined->error.message, alone->error.message);
    ck_assert_str_eq(joined->error.message, alone->error.message);
    ck_assert_uint_eq(joined->reply.size, alone->reply.size);
    ck_assert_uint_eq(joined->n_reply_json, alone->n_reply_json);
    ck_assert(alone->reply.size == 0 ||
              memcmp(joined->reply.data, alone->reply.data, alone->reply.size) == 0);
    ck_assert_int_eq(alone->error.status == AD_OK, alone->reply.size > 0);
    ck_assert(!joined->sequence);
}

/* Run n requests of a kind together; how many failed. */
static size_t check_together(size_t kind, size_t n)
{
    struct ad_request *requests[MAX_REQUESTS];
    size_t n_failed = 0;
    for (size_t i = 0; i < n; i++) {
        requests[i] = make(kind, i);
    }
    serving_serve_many(&serving, requests, n, &worker);
    for (size_t i = 0; i < n; i++) {
        struct ad_request *alone = make(kind, i);
        serving_serve(&serving, alone, &worker);
        check_same(requests[i], alone);
        n_failed += alone->error.status != AD_OK;
        ad_request_free(alone);
        ad_request_free(requests[i]);
    }
    return n_failed;
}

START_TEST(the_bits_of_alone)
{
    static const size_t numbers[] = {1, 2, 3, 5, 17, 64};
    static const size_t kinds[] = {0, 1, 2, 4};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            ck_assert_uint_eq(check_together(kinds[k], numbers[i]), 0);
        }
    }
}
END_TEST

START_TEST(as_many_as_there_may_be)
{
    ck_assert_uint_eq(check_together(0, MAX_REQUESTS), 0);
    ck_assert_uint_eq(check_together(2, MAX_REQUESTS), 0);
}
END_TEST

START_TEST(a_bad_mate_fails_alone)
{
    ck_assert_uint_eq(check_together(3, 2), 1);
    ck_assert_uint_eq(check_together(3, 30), 10);
}
END_TEST

/* One whose outputs are over its own limit is refused when it is decoded; the others go on. */
START_TEST(each_has_limits_of_its_own)
{
    struct ad_request *requests[3];
    for (size_t i = 0; i < 3; i++) {
        requests[i] = make(0, 4);
    }
    requests[1]->max_output_bytes = 3;
    serving_serve_many(&serving, requests, 3, &worker);
    ck_assert_int_eq(requests[0]->error.status, AD_OK);
    ck_assert_int_eq(requests[1]->error.status, AD_TOO_LARGE);
    check_same(requests[2], requests[0]);
    for (size_t i = 0; i < 3; i++) {
        ad_request_free(requests[i]);
    }
}
END_TEST

/* One whose answer JSON cannot carry: found after the pass. */
START_TEST(an_answer_that_cannot_be_written)
{
    struct ad_request *requests[2];
    static const char *const data[] = {"1e30,1e30,1e30,1e30", "1,2,3,4"};
    for (size_t i = 0; i < 2; i++) {
        char json[512];
        snprintf(
            json, sizeof json,
            "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,2,2]"
            ",\"data\":[%s]}]}",
            data[i]);
        requests[i] = fixture_json(growing, json);
    }
    serving_serve_many(&serving, requests, 2, &worker);
    ck_assert_int_eq(requests[0]->error.status, AD_NONFINITE);
    ck_assert_ptr_null(requests[0]->reply.data);
    ck_assert_msg(requests[1]->error.status == AD_OK, "%s", requests[1]->error.message);
    ad_request_free(requests[0]);
    ad_request_free(requests[1]);
}
END_TEST

/* ---- what is said of them -------------------------------------------------------------------- */

START_TEST(what_is_to_be_computed)
{
    struct ad_request *plain = make_tokens(growing, 3, 5, "", 1);
    struct ad_request *coupled = make_tokens(tokens, 4, 2, TRAINING, 1);
    ck_assert_int_eq(ad_serve_decode(&serving, plain), AD_OK);
    ck_assert(plain->joins);
    ck_assert_uint_eq(plain->n_rows, 15);
    ck_assert_uint_eq(plain->n_items, 3);
    ck_assert(plain->cost > 0);
    ck_assert_ptr_nonnull(plain->plan);
    ck_assert_msg(ad_serve_decode(&serving, coupled) == AD_OK, "%s",
                  coupled->error.message);
    ck_assert_uint_eq(coupled->n_items, 4);
    ad_request_free(coupled);
    ad_request_free(plain);
}
END_TEST

START_TEST(passes_are_counted)
{
    struct ad_stats_view *view = malloc(sizeof *view);
    struct ad_request *requests[5];
    size_t n_items = 0;
    ck_assert_ptr_nonnull(view);
    for (size_t i = 0; i < 5; i++) {
        requests[i] = make(0, i);
        n_items += 1 + i % 3;
    }
    serving_serve_many(&serving, requests, 4, &worker);
    serving_serve(&serving, requests[4], &worker);
    ad_stats_read(growing->stats, view);
    ck_assert_uint_eq(view->n_passes, 2);
    ck_assert_uint_eq(view->batch_size.sum, 5);
    ck_assert_uint_eq(view->batches[n_items - 3].compute_infer.count, 1); /* of 7 items */
    ck_assert_uint_eq(view->batches[1].compute_infer.count, 1);           /* of 2 */
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_gt(requests[i]->times.computed_ns, 0);
        ck_assert_int_ge(requests[i]->times.encoded_ns, requests[i]->times.computed_ns);
        ad_request_free(requests[i]);
    }
    free(view);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("serve_many");
    TCase *tcase = tcase_create("serve_many");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_bits_of_alone);
    tcase_add_test(tcase, as_many_as_there_may_be);
    tcase_add_test(tcase, a_bad_mate_fails_alone);
    tcase_add_test(tcase, each_has_limits_of_its_own);
    tcase_add_test(tcase, an_answer_that_cannot_be_written);
    tcase_add_test(tcase, what_is_to_be_computed);
    tcase_add_test(tcase, passes_are_counted);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
