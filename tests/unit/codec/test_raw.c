/* test_raw.c - bodies that are the bytes of the only input. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Serve n bytes; the request is the caller's to free. */
static struct ad_request *serve(struct ad_version *version, size_t n, bool gradient)
{
    struct ad_request *request = fixture_request(version, "", 0, values, n);
    struct ad_serving serving = serving_make(1, 10000);
    struct ad_worker worker = {.team = {.n_workers = 1}};
    request->form = AD_FORM_RAW;
    request->mode.gradient = gradient;
    serving_serve(&serving, request, &worker);
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
    ad_version_release(version);
    return request;
}

START_TEST(an_open_axis)
{
    for (size_t n = 1; n <= 4; n++) {
        char head[64];
        struct ad_request *request = serve(fixture_growing(), n * 8, false);
        ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
        snprintf(head, sizeof head, "\"shape\":[1,%zu,2]", n);
        ck_assert(strstr(request->reply.data, head) != NULL);
        ck_assert_uint_eq(request->reply.size - request->n_reply_json, n * 8);
        ck_assert_uint_eq(request->n_items, 1);
        ad_request_free(request);
    }
}
END_TEST

START_TEST(no_open_axis)
{
    struct ad_request *request = serve(fixture_causal(), 16, false);
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ck_assert(strstr(request->reply.data, "\"shape\":[1,2,2]") != NULL);
    ck_assert_uint_eq(request->reply.size - request->n_reply_json, 16);
    ad_request_free(request);
}
END_TEST

/* The body need not lie where floats would. */
START_TEST(unaligned)
{
    struct ad_version *version = fixture_growing();
    struct ad_request *request = fixture_request(version, "", 0, "", 0);
    struct ad_serving serving = serving_make(1, 10000);
    ad_buffer_reset(&request->body);
    ck_assert(ad_buffer_start(&request->body, 3, 8));
    ck_assert(ad_buffer_append(&request->body, values, 8));
    request->form = AD_FORM_RAW;
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_OK);
    ck_assert_int_eq(memcmp(request->inputs[0].tensor.data, values, 8), 0);
    ad_request_free(request);
    serving_reset(&serving);
    ad_version_release(version);
}
END_TEST

typedef struct ad_version *make_version(void);

static const struct {
    make_version *make;
    size_t n;
    bool gradient;
    const char *message;
} bad[] = {
    {fixture_growing, 0, false, "the body is empty: expected the bytes of an input"},
    {fixture_growing, 4, false,
     "input 'input' of shape [1,-1,2] (FP32) takes a multiple of 8 bytes, the body has "
     "4"},
    {fixture_growing, 9, false, "takes a multiple of 8 bytes, the body has 9"},
    {fixture_causal, 8, false,
     "input 'input' of shape [1,2,2] (FP32) takes 16 bytes, the body has 8"},
    {fixture_causal, 32, false, "takes 16 bytes, the body has 32"},
    {fixture_relational, 8, false,
     "is for a model with one required input; model 'relations' requires queries, keys, "
     "values"},
    {fixture_scores, 8, false, "requires query, key"},
    {fixture_growing, 8, true, "grad_output"},
};

START_TEST(what_is_refused)
{
    struct ad_request *request = serve(bad[_i].make(), bad[_i].n, bad[_i].gradient);
    ck_assert_int_eq(request->error.status, AD_INVALID);
    ck_assert_msg(strstr(request->error.message, bad[_i].message) != NULL, "%s",
                  request->error.message);
    ad_request_free(request);
}
END_TEST

START_TEST(a_sequence_is_refused)
{
    struct ad_version *version = fixture_growing();
    struct ad_request *request = fixture_request(version, "", 0, values, 8);
    struct ad_serving serving = serving_make(1, 10000);
    request->form = AD_FORM_RAW;
    request->sequence_header = "17";
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_INVALID);
    ck_assert(strstr(request->error.message, "X-Sequence-Id") != NULL);
    ad_request_free(request);
    serving_reset(&serving);
    ad_version_release(version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("raw");
    TCase *tcase = tcase_create("raw");
    tcase_add_test(tcase, an_open_axis);
    tcase_add_test(tcase, no_open_axis);
    tcase_add_test(tcase, unaligned);
    tcase_add_loop_test(tcase, what_is_refused, 0, (int)COUNT(bad));
    tcase_add_test(tcase, a_sequence_is_refused);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
