/* test_peek.c - timeout and priority, found in the bytes of a request before it is decoded. */
#include "codec/peek.h"
#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX /* it is left as it was */

/* The bytes end where they end: nothing behind them may be read, not even a NUL. */
static void peek(const char *json, size_t n, uint64_t *timeout_us, uint64_t *priority)
{
    struct ad_request *request = ad_request_create();
    char *bytes = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(request);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, json, n);
    request->body = (struct ad_buffer){.data = bytes, .size = n, .capacity = n};
    request->n_json = n;
    request->timeout_us = NONE;
    request->priority = NONE;
    ad_peek_parameters(request);
    *timeout_us = request->timeout_us;
    *priority = request->priority;
    ad_request_free(request);
}

static void check(const char *json, uint64_t timeout_us, uint64_t priority)
{
    uint64_t found_timeout, found_priority;
    peek(json, strlen(json), &found_timeout, &found_priority);
    ck_assert_msg(found_timeout == timeout_us, "%s: timeout %llu", json,
                  (unsigned long long)found_timeout);
    ck_assert_msg(found_priority == priority, "%s: priority %llu", json,
                  (unsigned long long)found_priority);
}

static const struct {
    const char *json;
    uint64_t timeout_us, priority;
} cases[] = {
    {"{\"parameters\":{\"timeout\":5,\"priority\":7}}", 5, 7},
    {" { \"parameters\" : { \"priority\" : 7 , \"timeout\" : 5 } } ", 5, 7},
    {"{\n\t\"parameters\"\r:\n{\"timeout\"\t:5\n}}", 5, NONE},
    {"{\"parameters\":{\"timeout\":0}}", 0, NONE},
    /* wherever it stands among the others */
    {"{\"id\":\"x\",\"parameters\":{\"timeout\":5},\"inputs\":[]}", 5, NONE},
    {"{\"inputs\":[{\"name\":\"a\",\"data\":[1,2,[3]]}],\"parameters\":{\"timeout\":5}}",
     5, NONE},
    {"{\"parameters\":{\"a\":{\"b\":[1,{}]},\"c\":\"d\",\"e\":true,\"timeout\":5}}", 5,
     NONE},
    {"{\"parameters\":{\"timeout\":5,\"x\":{\"timeout\":6}}}", 5, NONE},
    /* only that of the request itself counts */
    {"{\"timeout\":5,\"priority\":7}", NONE, NONE},
    {"{\"inputs\":[{\"parameters\":{\"timeout\":5}}]}", NONE, NONE},
    {"{\"x\":{\"parameters\":{\"timeout\":5}}}", NONE, NONE},
    {"{\"parameters\":{\"parameters\":{\"timeout\":5}}}", NONE, NONE},
    {"{\"parameters\":[{\"timeout\":5}]}", NONE, NONE},
    {"[{\"parameters\":{\"timeout\":5}}]", NONE, NONE},
    {"{\"id\":\"\\\"parameters\\\":{\\\"timeout\\\":5}\"}", NONE, NONE},
    {"{\"id\":\"{\\\\\",\"parameters\":{\"timeout\":5}}", 5, NONE},
    {"{\"id\":\"]}\",\"parameters\":{\"x\":\"}\",\"timeout\":5}}", 5, NONE},
    {"{\"a,b:c\":[\"]\",\"\\\"]\"],\"parameters\":{\"timeout\":5}}", 5, NONE},
    /* names that are written in another way, or are others */
    {"{\"parameters\":{\"time\\u006fut\":5}}", NONE, NONE},
    {"{\"p\\u0061rameters\":{\"timeout\":5}}", NONE, NONE},
    {"{\"parameters\":{\"timeouts\":5,\"timeou\":6,\"Timeout\":7,\"\":8}}", NONE, NONE},
    /* what is no plain integer */
    {"{\"parameters\":{\"timeout\":5.0,\"priority\":5e0}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":-5,\"priority\":+5}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":\"5\",\"priority\":true}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":null,\"priority\":[5]}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":,\"priority\":}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":5 6,\"priority\":5x}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\":5x,\"priority\":5}}", NONE, 5},
    {"{\"parameters\":{\"timeout\":9223372036854775807,\"priority\":1}}", INT64_MAX, 1},
    {"{\"parameters\":{\"timeout\":18446744073709551616,\"priority\":1}}", NONE, 1},
    {"{\"parameters\":{\"timeout\":99999999999999999999999999,\"priority\":1}}", NONE, 1},
    /* given twice: the decoder refuses that */
    {"{\"parameters\":{\"timeout\":5,\"timeout\":6}}", 6, NONE},
    /* what is not JSON, or not all there */
    {"", NONE, NONE},
    {" ", NONE, NONE},
    {"{", NONE, NONE},
    {"{}", NONE, NONE},
    {"{}}", NONE, NONE},
    {"null", NONE, NONE},
    {"{\"parameters\"}", NONE, NONE},
    {"{\"parameters\":}", NONE, NONE},
    {"{\"parameters\":{}}", NONE, NONE},
    {"{\"parameters\":{\"timeout\"}}", NONE, NONE},
    {"{\"parameters\" {\"timeout\":5}}", NONE, NONE},
    {"{parameters:{\"timeout\":5}}", NONE, NONE},
    {"{\"a\":]]]]},\"parameters\":{\"timeout\":5}}", NONE, NONE},
    {"\"\\", NONE, NONE},
    {"{\"\\", NONE, NONE},
};

START_TEST(by_table)
{
    check(cases[_i].json, cases[_i].timeout_us, cases[_i].priority);
}
END_TEST

/* Cut anywhere it finds what was there or nothing, and reads no further. */
START_TEST(cut_anywhere)
{
    static const char json[] = " {\"i\\\"d\" : \"\\\\\" , \"n\":[1,{\"a\":\"]\"}], "
                               "\"parameters\" : {\"a\":[[]],\"timeout\" : 12 , "
                               "\"priority\": 3 } , \"x\":1 } ";
    for (size_t n = 0; n < sizeof json; n++) {
        uint64_t timeout_us, priority;
        peek(json, n, &timeout_us, &priority);
        bool past_timeout = n > (size_t)(strstr(json, "12 ,") + 3 - json);
        bool past_priority = n > (size_t)(strstr(json, "3 }") + 2 - json);
        ck_assert_msg(timeout_us == (past_timeout ? 12 : NONE), "%zu", n);
        ck_assert_msg(priority == (past_priority ? 3 : NONE), "%zu", n);
    }
}
END_TEST

/* A JSON part of any size, with what is looked for before or behind its tensors. */
static void check_large(size_t n, const char *before, const char *behind,
                        uint64_t timeout_us, uint64_t priority)
{
    char *json = malloc(n + 1000);
    ck_assert_ptr_nonnull(json);
    size_t at = (size_t)sprintf(json, "{%s\"inputs\":[{\"data\":[", before);
    for (size_t i = 0; i < n; i += 4) {
        memcpy(json + at, "1.5,", 4);
        at += 4;
    }
    at += (size_t)sprintf(json + at, "2]}]%s}", behind);
    uint64_t found_timeout, found_priority;
    peek(json, at, &found_timeout, &found_priority);
    ck_assert_uint_eq(found_timeout, timeout_us);
    ck_assert_uint_eq(found_priority, priority);
    free(json);
}

START_TEST(of_any_size)
{
    static const size_t sizes[] = {0, 15000, 16300, 16384, 16500, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_large(sizes[i], "", "", NONE, NONE);
        check_large(sizes[i], "\"parameters\":{\"timeout\":5},", "", 5, NONE);
        check_large(sizes[i], "", ",\"parameters\":{\"timeout\":5}", 5, NONE);
        check_large(sizes[i], "", ",\"parameters\":{\"priority\":5}", NONE, 5);
        check_large(sizes[i], "\"id\":\"timeout\",", "", NONE, NONE);
        check_large(sizes[i], "\"id\":\"timeout\",", ",\"parameters\":{\"priority\" : 5}",
                    NONE, 5);
    }
}
END_TEST

/* Deep enough to overflow a stack, if there were one. */
START_TEST(of_any_depth)
{
    size_t depth = 1 << 20;
    char *json = malloc(2 * depth + 100);
    ck_assert_ptr_nonnull(json);
    size_t at = (size_t)sprintf(json, "{\"a\":");
    memset(json + at, '[', depth);
    memset(json + at + depth, ']', depth);
    at += 2 * depth;
    at += (size_t)sprintf(json + at, ",\"parameters\":{\"timeout\":5}}");
    uint64_t timeout_us, priority;
    peek(json, at, &timeout_us, &priority);
    ck_assert_uint_eq(timeout_us, 5);
    free(json);
}
END_TEST

/* What follows the JSON part are tensors. */
START_TEST(the_json_part_alone)
{
    static const char body[] = "{\"id\":\"x\",\"parameters\":{\"timeout\":5}}";
    struct ad_request *request = ad_request_create();
    ck_assert(ad_buffer_append(&request->body, body, sizeof body - 1));
    request->n_json = sizeof body - 4;
    ad_peek_parameters(request);
    ck_assert_uint_eq(request->timeout_us, 0);
    request->n_json = 0;
    ad_peek_parameters(request);
    ck_assert_uint_eq(request->timeout_us, 0);
    request->n_json = sizeof body - 1;
    ad_peek_parameters(request);
    ck_assert_uint_eq(request->timeout_us, 5);
    ad_request_free(request);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peek");
    TCase *tcase = tcase_create("peek");
    tcase_add_loop_test(tcase, by_table, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, cut_anywhere);
    tcase_add_test(tcase, of_any_size);
    tcase_add_test(tcase, of_any_depth);
    tcase_add_test(tcase, the_json_part_alone);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
