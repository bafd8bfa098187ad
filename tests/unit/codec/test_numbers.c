/* test_numbers.c - the number reader: grammar, rounding, ranges. */
#include "codec/numbers.h"
#include "unit/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;

static void setup(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static void teardown(void)
{
    freelocale(c_locale);
}

static enum ad_number read_f32(const char *text, float *value)
{
    const char *at = text;
    enum ad_number result = ad_number_f32(&at, text + strlen(text), c_locale, value);
    ck_assert_msg(result == AD_NUMBER_OK || at == text, "%s moved", text);
    return result;
}

START_TEST(test_grammar)
{
    static const char *const good[] = {
        "0",     "-0",  "10",       "1.5", "1e5",
        "1E+5",  "0.0", "-1.25e-7", "0e0", "123456789012345",
        "0.1E-0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *end = good[i] + strlen(good[i]);
        ck_assert_msg(ad_number_end(good[i], end, NULL) == end, "%s", good[i]);
        float value;
        ck_assert_int_eq(read_f32(good[i], &value), AD_NUMBER_OK);
        ck_assert(value == strtof(good[i], NULL));
    }
    static const char *const bad[] = {
        "",    "-",   "01",   "-01", "1.",    ".5",       "+1",        "0x10",
        "1e",  "1e+", "1.e5", "--1", "1..2",  "1.5.5",    "NaN",       "inf",
        "nan", "1f",  "1_0",  "0b1", "1e5.5", "Infinity", "-Infinity", "1\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float value;
        ck_assert_msg(read_f32(bad[i], &value) == AD_NUMBER_MALFORMED, "%s", bad[i]);
        double wide;
        const char *at = bad[i];
        ck_assert_int_eq(ad_number_f64(&at, at + strlen(at), c_locale, &wide),
                         AD_NUMBER_MALFORMED);
        int64_t integer;
        ck_assert_int_eq(
            ad_number_int(&at, at + strlen(at), INT64_MIN, INT64_MAX, &integer),
            AD_NUMBER_MALFORMED);
    }
}
END_TEST

START_TEST(test_delimiters)
{
    static const char *const texts[] = {"12,",  "12]",  "12}", "12 ",
                                        "12\n", "12\t", "12\r"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *at = texts[i];
        float value;
        ck_assert_int_eq(ad_number_f32(&at, texts[i] + 3, c_locale, &value),
                         AD_NUMBER_OK);
        ck_assert(at == texts[i] + 2 && value == 12.0f);
    }
}
END_TEST

START_TEST(test_rounds_once)
{
    static const struct {
        const char *text;
        float value;
    } cases[] = {
        {"16777217", 16777216.0f}, /* halfway: to even */
        {"16777219", 16777220.0f}, /* halfway: to even, up */
        {"16777217.0000001", 16777218.0f},
        {"1.00000005960464477539062500000000000000001", 1.00000011920928955f},
        {"1.000000059604644775390625", 1.0f},
        {"3.4028235677973366e38",
         FLT_MAX}, /* a hair below where rounding gives infinity */
        {"1.401298464324817e-45", 0x1p-149f},
        {"0.7006492321624086e-45", 0x1p-149f},
        {"0.7006492321624085e-45", 0.0f},
        {"1e-400", 0.0f},
        {"1.1754942e-38", 0x1.fffffcp-127f},
        {"0.1", 0.1f},
        {"-2.5", -2.5f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float value;
        ck_assert_int_eq(read_f32(cases[i].text, &value), AD_NUMBER_OK);
        ck_assert_msg(value == cases[i].value, "%s: %.9g", cases[i].text, (double)value);
    }
    float zero = 1;
    ck_assert_int_eq(read_f32("-0.0", &zero), AD_NUMBER_OK);
    ck_assert(zero == 0 && signbit(zero));
}
END_TEST

/* FP64 text is rounded to double, then to float, as a client's double would be. */
START_TEST(test_f64_rounds_twice)
{
    const char *text = "1.00000005960464477539062500000000000000001";
    const char *at = text;
    float value;
    ck_assert_int_eq(ad_number_f32_of_f64(&at, text + strlen(text), c_locale, &value),
                     AD_NUMBER_OK);
    ck_assert(value == 1.0f && *at == '\0');
}
END_TEST

START_TEST(test_many_digits)
{
    char text[820] = "1.";
    memset(text + 2, '3', 800);
    float value;
    ck_assert_int_eq(read_f32(text, &value), AD_NUMBER_OK);
    ck_assert(value == 1.33333333f);
    /* halfway, decided by the 800th digit */
    strcpy(text, "1.000000059604644775390625");
    size_t n = strlen(text);
    memset(text + n, '0', 800 - n);
    text[800] = '\0';
    ck_assert_int_eq(read_f32(text, &value), AD_NUMBER_OK);
    ck_assert(value == 1.0f);
    text[799] = '1';
    ck_assert_int_eq(read_f32(text, &value), AD_NUMBER_OK);
    ck_assert(value == nextafterf(1.0f, 2.0f));
}
END_TEST

START_TEST(test_overflow)
{
    static const char *const beyond[] = {"3.5e38", "-3.4028236e38", "1e39",
                                         "1e999999999999", "3.4028235677973367e38"};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        float value;
        ck_assert_msg(read_f32(beyond[i], &value) == AD_NUMBER_RANGE, "%s", beyond[i]);
        const char *at = beyond[i];
        ck_assert_int_eq(ad_number_f32_of_f64(&at, at + strlen(at), c_locale, &value),
                         AD_NUMBER_RANGE);
        ck_assert_ptr_eq(at, beyond[i]);
    }
    const char *text = "3.4028235e38";
    float value;
    ck_assert_int_eq(ad_number_f32_of_f64(&text, text + strlen(text), c_locale, &value),
                     AD_NUMBER_OK);
    ck_assert(value == FLT_MAX);
}
END_TEST

START_TEST(test_integers)
{
    static const struct {
        const char *text;
        enum ad_number result;
        int64_t value;
    } cases[] = {
        {"0", AD_NUMBER_OK, 0},
        {"-0", AD_NUMBER_OK, 0},
        {"2147483647", AD_NUMBER_OK, INT32_MAX},
        {"-2147483648", AD_NUMBER_OK, INT32_MIN},
        {"2147483648", AD_NUMBER_RANGE, 0},
        {"-2147483649", AD_NUMBER_RANGE, 0},
        {"99999999999999999999", AD_NUMBER_RANGE, 0},
        {"1.0", AD_NUMBER_FRACTION, 0},
        {"1e2", AD_NUMBER_FRACTION, 0},
        {"007", AD_NUMBER_MALFORMED, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        const char *at = cases[i].text;
        ck_assert_msg(ad_number_int(&at, at + strlen(at), INT32_MIN, INT32_MAX, &value) ==
                          cases[i].result,
                      "%s", cases[i].text);
        ck_assert_int_eq(value, cases[i].value);
    }
    const char *text = "-9223372036854775808";
    int64_t value;
    ck_assert_int_eq(
        ad_number_int(&text, text + strlen(text), INT64_MIN, INT64_MAX, &value),
        AD_NUMBER_OK);
    ck_assert(value == INT64_MIN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbers");
    TCase *tcase = tcase_create("numbers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_grammar);
    tcase_add_test(tcase, test_delimiters);
    tcase_add_test(tcase, test_rounds_once);
    tcase_add_test(tcase, test_f64_rounds_twice);
    tcase_add_test(tcase, test_many_digits);
    tcase_add_test(tcase, test_overflow);
    tcase_add_test(tcase, test_integers);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
