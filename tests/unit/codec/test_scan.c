/* test_scan.c - the scanner: strict JSON, and where it finds `data`. */
#include "codec/scan.h"
#include "unit/support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ad_arena arena;
static locale_t c_locale;

static void setup(void)
{
    ad_arena_init(&arena);
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static void teardown(void)
{
    ad_arena_reset(&arena);
    freelocale(c_locale);
}

static enum ad_status scan(const char *text, size_t n, struct ad_envelope *envelope,
                           struct ad_error *error)
{
    /* a copy of the exact size plus the NUL, so that a read past it is seen by the sanitizers */
    char *copy = ad_arena_strndup(&arena, text, n);
    memcpy(copy, text, n);
    *error = (struct ad_error){.status = AD_OK};
    return ad_scan_request(copy, n, c_locale, &arena, envelope, error);
}

static void check_envelope(const char *text, const char *expected)
{
    struct ad_envelope envelope;
    struct ad_error error;
    enum ad_status status = scan(text, strlen(text), &envelope, &error);
    ck_assert_msg(status == AD_OK, "%s: %s", text, error.message);
    ck_assert_str_eq(envelope.text, expected);
    ck_assert_uint_eq(envelope.size, strlen(expected));
}

START_TEST(test_takes_data_out)
{
    check_envelope("{}", "{}");
    check_envelope("{\"inputs\":[{\"name\":\"a\",\"data\":[1,2,[3]]}]}",
                   "{\"inputs\":[{\"name\":\"a\",\"data\":0}]}");
    check_envelope(
        "{\"inputs\":[{\"data\" : 5 },{\"data\":\"],x\"},{\"data\":{\"a\":[]}}]}",
        "{\"inputs\":[{\"data\" : 0 },{\"data\":1},{\"data\":2}]}");
    check_envelope("{\"inputs\":[{\"d\\u0061t\\u0061\":[NaN]}]}",
                   "{\"inputs\":[{\"d\\u0061t\\u0061\":0}]}");
    check_envelope("{\"\\u0069nputs\":[{\"data\":[7]}]}",
                   "{\"\\u0069nputs\":[{\"data\":0}]}");
}
END_TEST

START_TEST(test_leaves_other_data)
{
    static const char *const same[] = {
        "{\"data\":[1]}",
        "{\"inputs\":{\"data\":[1]}}",
        "{\"inputs\":[[{\"data\":[1]}]]}",
        "{\"outputs\":[{\"data\":[1]}]}",
        "{\"x\":{\"inputs\":[{\"data\":[1]}]}}",
        "{\"inputs\":[{\"parameters\":{\"data\":[1]}}]}",
        "{\"inputs\":[{\"data2\":[1],\"dat\":[2],\"\":[3],\"DATA\":[4]}]}",
        "{\"inputs2\":[{\"data\":[1]}]}",
        " {\"a\" : [ true , false , null ] , \"b\":[1.5e3, -0]} ",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"}",
        "{\"a\":\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\ud83d\\ude00\"}",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        check_envelope(same[i], same[i]);
    }
}
END_TEST

START_TEST(test_spans)
{
    const char *text = "{\"inputs\":[{\"data\":[1, 2]},{\"x\":1,\"data\":true}],\"z\":3}";
    struct ad_envelope envelope;
    struct ad_error error;
    ck_assert_int_eq(scan(text, strlen(text), &envelope, &error), AD_OK);
    ck_assert_uint_eq(envelope.n_data, 2);
    ck_assert_mem_eq(text + envelope.data[0].begin, "[1, 2]", 6);
    ck_assert_uint_eq(envelope.data[0].end - envelope.data[0].begin, 6);
    ck_assert_mem_eq(text + envelope.data[1].begin, "true", 4);
    size_t at = (size_t)(strchr(envelope.text, 'x') - envelope.text);
    ck_assert_uint_eq(ad_envelope_original(&envelope, at),
                      (size_t)(strchr(text, 'x') - text));
    at = (size_t)(strchr(envelope.text, 'z') - envelope.text);
    ck_assert_uint_eq(ad_envelope_original(&envelope, at),
                      (size_t)(strchr(text, 'z') - text));
    ck_assert_uint_eq(ad_envelope_original(&envelope, 3), 3);
}
END_TEST

START_TEST(test_refuses)
{
    static const struct {
        const char *text;
        const char *message; /* part of it */
    } cases[] = {
        {"", "offset 0: expected a JSON object, got the end"},
        {"   ", "offset 3: expected a JSON object"},
        {"[]", "expected a JSON object, got '['"},
        {"12", "expected a JSON object"},
        {"\xef\xbb\xbf{}", "expected a JSON object, got byte 0xef"},
        {"{", "member's name in double quotes, got the end"},
        {"{a:1}", "member's name in double quotes, got 'a'"},
        {"{\"a\"}", "expected ':', got '}'"},
        {"{\"a\":}", "(a): expected a value, got '}'"},
        {"{\"a\":1", "the end of the text"},
        {"{\"a\":1,}", "member's name"},
        {"{\"a\":1 \"b\":2}", "expected ',' or '}'"},
        {"{\"a\":[1 2]}", "(a[0]): expected ',' or ']', got '2'"},
        {"{\"a\":[1,]}", "(a[1]): expected a value, got ']'"},
        {"{\"a\":[,1]}", "expected a value"},
        {"{\"a\":[1}}", "expected ',' or ']', got '}'"},
        {"{} {}", "expected nothing after the JSON object, got '{'"},
        {"{}x", "expected nothing after"},
        {"{\"a\":\"x}", "without its closing quote"},
        {"{\"a\":\"x\ny\"}", "control character"},
        {"{\"a\":\"\\x\"}", "unknown escape"},
        {"{\"a\":\"\\", "unknown escape"},
        {"{\"a\":\"\\u12g4\"}", "four hexadecimal digits"},
        {"{\"a\":\"\\u12", "four hexadecimal digits"},
        {"{\"a\":\"\\u0000\"}", "\\u0000"},
        {"{\"\\u0000\":1}", "\\u0000"},
        {"{\"a\":\"\\ud800\"}", "surrogate"},
        {"{\"a\":\"\\ud800\\u0041\"}", "surrogate"},
        {"{\"a\":\"\\udc00\"}", "surrogate"},
        {"{\"a\":\"\xff\"}", "invalid UTF-8"},
        {"{\"a\":\"\xc0\xaf\"}", "invalid UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8"},
        {"{\"a\":\"\xe2\x82\"}", "invalid UTF-8"},
        {"{\"a\xff\":1}", "invalid UTF-8"},
        {"{\"a\":tru}", "expected a value, got 't'"},
        {"{\"a\":truex}", "expected ',' or '}', got 'x'"},
        {"{\"a\":NaN}", "not JSON"},
        {"{\"a\":-Infinity}", "not JSON"},
        {"{\"a\":-01}", "malformed number"},
        {"{\"a\":1.}", "malformed number"},
        {"{\"a\":+1}", "expected a value, got '+'"},
        {"{\"a\":.5}", "expected a value, got '.'"},
        {"{\"a\":0x10}", "malformed number"},
        {"{\"a\":12", "got the end"},
        {"{\"p\":{\"q\":[0,9223372036854775808]}}",
         "(p.q[1]): 9223372036854775808 is beyond the range of 64-bit integers"},
        {"{\"a\":1e400}", "1e400 is beyond the range of FP64"},
        {"{\"inputs\":[{\"data\":}]}", "(inputs[0].data): expected a value"},
        {"{\"inputs\":[{\"data\":[1,2",
         "(inputs[0].data): expected the end of the value"},
        {"{\"inputs\":[{\"data\":\"x", "without its closing quote"},
        {"{\"inputs\":[{\"data\":1,\"data\":2}]}", "(inputs[0].data): duplicate member"},
        {"{\"inputs\":[{\"data\":1,\"\\u0064ata\":2}]}", "duplicate member"},
        {"{\"inputs\":[{\"data\":1 2}]}", "expected ',' or '}'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ad_envelope envelope;
        struct ad_error error;
        enum ad_status status =
            scan(cases[i].text, strlen(cases[i].text), &envelope, &error);
        ck_assert_msg(status == AD_INVALID, "%s is taken", cases[i].text);
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s: %s",
                      cases[i].text, error.message);
    }
}
END_TEST

START_TEST(test_refuses_raw_nul)
{
    struct ad_envelope envelope;
    struct ad_error error;
    ck_assert_int_eq(scan("{\"a\":\"\0\"}", 9, &envelope, &error), AD_INVALID);
    ck_assert_int_eq(scan("{}\0", 3, &envelope, &error), AD_INVALID);
    ck_assert_int_eq(scan("{\"a\":\"\\\0\"}", 10, &envelope, &error), AD_INVALID);
}
END_TEST

/* The text ends where n says, even when more bytes follow. */
START_TEST(test_stops_at_n)
{
    struct ad_envelope envelope;
    struct ad_error error;
    const char *text = "{\"a\":12}";
    for (size_t n = 0; n < strlen(text); n++) {
        error = (struct ad_error){.status = AD_OK};
        ck_assert_int_eq(ad_scan_request(text, n, c_locale, &arena, &envelope, &error),
                         AD_INVALID);
    }
}
END_TEST

START_TEST(test_depth)
{
    char text[512] = "{\"a\":";
    for (size_t depth = 98; depth <= 101; depth++) {
        size_t n = 5;
        for (size_t i = 0; i < depth; i++) {
            text[n++] = '[';
        }
        for (size_t i = 0; i < depth; i++) {
            text[n++] = ']';
        }
        text[n++] = '}';
        struct ad_envelope envelope;
        struct ad_error error;
        enum ad_status status = scan(text, n, &envelope, &error);
        ck_assert_int_eq(status, depth < 100 ? AD_OK : AD_INVALID);
        ck_assert(status == AD_OK || strstr(error.message, "nested more than 100 deep"));
    }
}
END_TEST

START_TEST(test_too_many_inputs)
{
    char text[1024] = "{\"inputs\":[{\"data\":1}";
    for (size_t i = 1; i < ATTN_MAX_PORTS; i++) {
        strcat(text, ",{\"data\":1}");
    }
    struct ad_envelope envelope;
    struct ad_error error;
    size_t n = strlen(text);
    strcpy(text + n, "]}");
    ck_assert_int_eq(scan(text, n + 2, &envelope, &error), AD_OK);
    ck_assert_uint_eq(envelope.n_data, ATTN_MAX_PORTS);
    ck_assert_uint_eq(envelope.size, strlen(envelope.text));
    strcpy(text + n, ",{\"data\":1}]}");
    ck_assert_int_eq(scan(text, strlen(text), &envelope, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "more inputs than any model takes"));
}
END_TEST

START_TEST(test_large_envelope)
{
    size_t n = AD_SCAN_MAX_ENVELOPE;
    char *text = malloc(n + 64);
    memset(text, ' ', n + 64);
    memcpy(text, "{\"inputs\":[{\"data\":[", 20);
    memcpy(text + n + 60, "]}]}", 4);
    struct ad_envelope envelope;
    struct ad_error error;
    ck_assert_int_eq(scan(text, n + 64, &envelope, &error), AD_OK);
    memcpy(text, "{\"inputs\":[{\"dat_\":[", 20);
    ck_assert_int_eq(scan(text, n + 64, &envelope, &error), AD_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(error.message, "1048576"));
    free(text);
}
END_TEST

/* Where a value ends, by counting brackets outside of strings one byte after the other; n: nowhere. */
static size_t end_of_list(const char *text, size_t n)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        quoted = quoted != (text[i] == '"');
        if (!quoted) {
            depth += text[i] == '[' || text[i] == '{';
            depth -= text[i] == ']' || text[i] == '}';
        }
        if (depth == 0) {
            return i + 1;
        }
    }
    return n;
}

/* Lists of any length and depth, with strings and with letters that look like brackets to a mask. */
START_TEST(test_ends_of_data)
{
    static const char *const weights[] = {"0123456789,,,,,, ", "0,[]", "[]{}0Yy_\x7f,",
                                          "[]\"0,", "0123,,,,[]{}\"Y"};
    static const char head[] = "{\"inputs\":[{\"data\":[";
    const size_t begin = sizeof head - 2;
    srand48(1);
    for (size_t i = 0; i < 20000; i++) {
        char text[512];
        const char *bytes = weights[i % 5];
        size_t n = begin + 1 + (size_t)(drand48() * 300), n_bytes = strlen(bytes);
        memcpy(text, head, sizeof head - 1);
        for (size_t j = begin + 1; j < n; j++) {
            text[j] = bytes[(size_t)(drand48() * (double)n_bytes)];
        }
        struct ad_envelope envelope = {.n_data = 0};
        struct ad_error error;
        enum ad_status status = scan(text, n, &envelope, &error);
        size_t end = begin + end_of_list(text + begin, n - begin);
        ck_assert_int_eq(status, AD_INVALID);
        if (envelope.n_data > 0) {
            ck_assert_uint_eq(envelope.data[0].begin, begin);
            ck_assert_uint_eq(envelope.data[0].end, end);
        } else {
            ck_assert_uint_eq(end, n);
        }
        ad_arena_reset(&arena);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scan");
    TCase *tcase = tcase_create("scan");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_takes_data_out);
    tcase_add_test(tcase, test_leaves_other_data);
    tcase_add_test(tcase, test_spans);
    tcase_add_test(tcase, test_refuses);
    tcase_add_test(tcase, test_refuses_raw_nul);
    tcase_add_test(tcase, test_stops_at_n);
    tcase_add_test(tcase, test_depth);
    tcase_add_test(tcase, test_too_many_inputs);
    tcase_add_test(tcase, test_large_envelope);
    tcase_add_test(tcase, test_ends_of_data);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
