/* test_encode.c - replies: order of members, numbers, strings, binary tensors. */
#include "codec/encode.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <math.h>

static struct ad_version *version;
static struct ad_request *request;
static struct ad_error error;

static void setup(void)
{
    version = fixture_scores();
    request = fixture_json(version, "{}");
    error = (struct ad_error){.status = AD_OK};
}

static void teardown(void)
{
    ad_request_free(request);
    ad_version_release(version);
}

static struct attn_named_tensor tensor(const char *name, size_t n, const float *data)
{
    return (struct attn_named_tensor){
        name, {.dtype = ATTN_F32, .rank = 2, .shape = {1, n}, .data = data}};
}

/* One output with these floats; the status. */
static enum ad_status encode(size_t n, const float *data)
{
    const struct attn_named_tensor output = tensor("out", n, data);
    return ad_encode_infer(request, &output, 1, &error);
}

START_TEST(test_json)
{
    static const float floats[4] = {1, -0.5f, 0.1f, 1e20f};
    ck_assert_int_eq(encode(4, floats), AD_OK);
    ck_assert_str_eq(
        request->reply.data,
        "{\"model_name\":\"scores \\\"q\\\"\",\"model_version\":\"7\","
        "\"outputs\":[{\"name\":\"out\",\"datatype\":\"FP32\",\"shape\":[1,4],"
        "\"data\":[1,-0.5,0.1,1e20]}]}");
    ck_assert_uint_eq(request->n_reply_json, request->reply.size);
    ck_assert_uint_eq(request->reply.size, strlen(request->reply.data));
}
END_TEST

START_TEST(test_scalar_and_empty)
{
    static const float value = 2;
    const struct attn_named_tensor outputs[2] = {
        {"a", {.dtype = ATTN_F32, .rank = 0, .data = &value}},
        {"b", {.dtype = ATTN_F32, .rank = 2, .shape = {0, 3}}},
    };
    ck_assert_int_eq(ad_encode_infer(request, outputs, 2, &error), AD_OK);
    ck_assert_ptr_nonnull(strstr(request->reply.data, "\"shape\":[],\"data\":[2]},{"));
    ck_assert_ptr_nonnull(strstr(request->reply.data, "\"shape\":[0,3],\"data\":[]}]}"));
}
END_TEST

START_TEST(test_id)
{
    request->id = "a\"\\\n\x01\x7f\xc3\xa9\xff\xed\xa0\x80\xf0\x9f\x98\x80";
    ck_assert_int_eq(encode(0, NULL), AD_OK);
    const char *head =
        "{\"id\":\"a\\\"\\\\\\u000a\\u0001\x7f\xc3\xa9\\ufffd\\ufffd\\ufffd"
        "\\ufffd\xf0\x9f\x98\x80\",\"model_name\":";
    ck_assert_mem_eq(request->reply.data, head, strlen(head));
}
END_TEST

/* A seed that the client gave it knows already, and without training there is none. */
START_TEST(test_seed)
{
    static const struct {
        bool training, given;
        const char *expected;
    } cases[] = {
        {false, false, "\"model_version\":\"7\",\"outputs\""},
        {false, true, "\"model_version\":\"7\",\"outputs\""},
        {true, true, "\"model_version\":\"7\",\"outputs\""},
        {true, false,
         "\"model_version\":\"7\",\"parameters\":{\"seed\":4503599627370495},"
         "\"outputs\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request->mode.training = cases[i].training;
        request->seed_given = cases[i].given;
        request->mode.seed = 4503599627370495u;
        request->reply.size = 0;
        ck_assert_int_eq(encode(0, NULL), AD_OK);
        ck_assert_msg(strstr(request->reply.data, cases[i].expected) != NULL, "%s",
                      request->reply.data);
    }
}
END_TEST

START_TEST(test_binary)
{
    static const float first[2] = {1, NAN}, second[1] = {3}, third[1] = {-INFINITY};
    const struct attn_named_tensor outputs[3] = {
        tensor("a", 2, first), tensor("b", 1, second), tensor("c", 1, third)};
    struct ad_wanted_output wanted[3] = {
        {.name = "a", .binary = true}, {.name = "b"}, {.name = "c", .binary = true}};
    request->wanted = wanted;
    request->n_wanted = 3;
    ck_assert_int_eq(ad_encode_infer(request, outputs, 3, &error), AD_OK);
    const char *json =
        "{\"model_name\":\"scores \\\"q\\\"\",\"model_version\":\"7\",\"outputs\":["
        "{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[1,2],"
        "\"parameters\":{\"binary_data_size\":8}},"
        "{\"name\":\"b\",\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[3]},"
        "{\"name\":\"c\",\"datatype\":\"FP32\",\"shape\":[1,1],"
        "\"parameters\":{\"binary_data_size\":4}}]}";
    ck_assert_uint_eq(request->n_reply_json, strlen(json));
    ck_assert_mem_eq(request->reply.data, json, strlen(json));
    ck_assert_uint_eq(request->reply.size, strlen(json) + 12);
    ck_assert_mem_eq(request->reply.data + strlen(json), first, 8);
    ck_assert_mem_eq(request->reply.data + strlen(json) + 8, third, 4);
}
END_TEST

START_TEST(test_binary_default)
{
    static const float value = 5;
    request->binary_default = true;
    ck_assert_int_eq(encode(1, &value), AD_OK);
    ck_assert_uint_eq(request->reply.size, request->n_reply_json + 4);
}
END_TEST

/* Nothing follows the JSON, so the reply is JSON alone. */
START_TEST(test_empty_binary)
{
    request->binary_default = true;
    ck_assert_int_eq(encode(0, NULL), AD_OK);
    ck_assert_uint_eq(request->n_reply_json, request->reply.size);
    ck_assert_ptr_nonnull(
        strstr(request->reply.data,
               "\"shape\":[1,0],\"parameters\":{\"binary_data_size\":0}}]}"));
}
END_TEST

START_TEST(test_nonfinite)
{
    static const float floats[4] = {1, NAN, INFINITY, -INFINITY};
    request->nonfinite = AD_NONFINITE_NULL;
    ck_assert_int_eq(encode(4, floats), AD_OK);
    ck_assert_ptr_nonnull(strstr(request->reply.data, "\"data\":[1,null,null,null]"));

    ad_buffer_reset(&request->reply);
    request->nonfinite = AD_NONFINITE_LITERAL;
    ck_assert_int_eq(encode(4, floats), AD_OK);
    ck_assert_ptr_nonnull(
        strstr(request->reply.data, "\"data\":[1,NaN,Infinity,-Infinity]"));

    ad_buffer_reset(&request->reply);
    request->nonfinite = AD_NONFINITE_ERROR;
    ck_assert_int_eq(encode(4, floats), AD_NONFINITE);
    ck_assert_ptr_nonnull(strstr(error.message, "output 'out' holds NaN at [0,1]"));
    ck_assert_ptr_nonnull(strstr(error.message, "binary"));
    ck_assert_ptr_nonnull(strstr(error.message, "nonfinite"));
}
END_TEST

START_TEST(test_nonfinite_place)
{
    static float floats[2 * 1500 * 3];
    floats[1500 * 3 + 1200 * 3 + 2] = -INFINITY;
    const struct attn_named_tensor output = {
        "out", {.dtype = ATTN_F32, .rank = 3, .shape = {2, 1500, 3}, .data = floats}};
    ck_assert_int_eq(ad_encode_infer(request, &output, 1, &error), AD_NONFINITE);
    ck_assert_ptr_nonnull(strstr(error.message, "holds -Infinity at [1,1200,2]"));
}
END_TEST

/* Every float comes back as itself, across the writer's blocks too. */
START_TEST(test_round_trip)
{
    enum { N = 5000 };
    static float floats[N];
    uint32_t state = 1;
    for (size_t i = 0; i < N; i++) {
        do {
            state = state * 1664525u + 1013904223u;
            memcpy(&floats[i], &state, sizeof state);
        } while (!isfinite(floats[i]));
    }
    ck_assert_int_eq(encode(N, floats), AD_OK);
    char *at = strstr(request->reply.data, "\"data\":[") + 8;
    for (size_t i = 0; i < N; i++) {
        char *end;
        float value = strtof(at, &end);
        ck_assert_mem_eq(&value, &floats[i], sizeof value);
        ck_assert_int_eq(*end, i + 1 < N ? ',' : ']');
        at = end + 1;
    }
    ck_assert_str_eq(at, "}]}");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encode");
    TCase *tcase = tcase_create("encode");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_json);
    tcase_add_test(tcase, test_scalar_and_empty);
    tcase_add_test(tcase, test_id);
    tcase_add_test(tcase, test_seed);
    tcase_add_test(tcase, test_binary);
    tcase_add_test(tcase, test_binary_default);
    tcase_add_test(tcase, test_empty_binary);
    tcase_add_test(tcase, test_nonfinite);
    tcase_add_test(tcase, test_nonfinite_place);
    tcase_add_test(tcase, test_round_trip);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
