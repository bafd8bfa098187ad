/* test_hard_numbers.c - decimals that are hard to round, beside exact arithmetic and the C library. */
#include "codec/decimal.h"
#include "unit/codec/hard_numbers.h"
#include "unit/codec/number_lists.h"
#include "unit/support.h"

#include <float.h>
#include <stdio.h>

static locale_t c_locale;
static uint64_t state;

static void setup(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    state = 88172645463325252u;
}

static void teardown(void)
{
    freelocale(c_locale);
}

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % n;
}

/* Alone, and once more in the middle of a list that is read fast. */
static void check(const char *text)
{
    static const char before[] = "[0,0,0,0,0,0,0,0,0,0,";
    char list[2048];
    size_t n = strlen(text);
    const char *wrong = numbers_compare(text, text + n, c_locale);
    ck_assert_msg(!wrong, "%s: %s", text, wrong);
    float expected = strtof_l(text, NULL, c_locale), value = 0;
    double wide = strtod_l(text, NULL, c_locale);
    if (!isfinite(expected) || fabs(wide) >= 0x1.ffffffp127 || n > 1900) {
        return;
    }
    char *end = list + sprintf(list, "%s%s,", before, text);
    memset(end, ' ', 100);
    struct ad_run run = {list + sizeof before - 1, list, end + 100, c_locale, 1, 0, 0};
    struct ad_run other = run;
    ck_assert_uint_eq(ad_run_f32(&run, &value), 1);
    ck_assert_msg(memcmp(&value, &expected, sizeof value) == 0, "%s in a list: %.9g",
                  text, (double)value);
    expected = (float)wide;
    ck_assert_uint_eq(ad_run_f32_of_f64(&other, &value), 1);
    ck_assert_msg(memcmp(&value, &expected, sizeof value) == 0, "%s in a list of FP64",
                  text);
    ck_assert(run.at == end - 1 && other.at == end - 1);
}

START_TEST(test_exact)
{
    for (size_t i = 0; i < sizeof hard_numbers / sizeof *hard_numbers; i++) {
        const char *text = hard_numbers[i].text, *end = text + strlen(text);
        const char *at = text;
        float single, infinite = HUGE_VALF;
        double wide, endless = HUGE_VAL;
        single = ad_number_f32(&at, end, c_locale, &single) == AD_NUMBER_OK ? single
                                                                            : infinite;
        ck_assert_msg(memcmp(&single, &hard_numbers[i].f32, sizeof single) == 0,
                      "%s: %.9g", text, (double)single);
        at = text;
        wide = ad_number_f64(&at, end, c_locale, &wide) == AD_NUMBER_OK ? wide : endless;
        ck_assert_msg(memcmp(&wide, &hard_numbers[i].f64, sizeof wide) == 0, "%s: %.17g",
                      text, wide);
        check(text);
        char negative[1024] = "-";
        strcpy(negative + 1, text);
        check(negative);
    }
}
END_TEST

/* The last digit of the mantissa one up or down, without a carry. */
static void move_last(char *text, int step)
{
    char *last = strchr(text, 'e') - 1;
    last -= *last == '.';
    if (*last + step >= '0' && *last + step <= '9') {
        *last = (char)(*last + step);
    }
}

/* A value that lies between two numbers, at every length and a hair beside it. */
static void check_around(long double middle, int most_digits, int step)
{
    char text[1024];
    for (int n = 6; n <= most_digits; n += step) {
        for (int side = -1; side <= 1; side++) {
            snprintf(text, sizeof text, "%.*Le", n - 1, middle);
            move_last(text, side);
            check(text);
        }
    }
}

START_TEST(test_middles_of_floats)
{
    for (uint32_t i = 0; i < 2000; i++) {
        /* all exponents, and mantissas at both ends or anywhere */
        uint32_t fraction = (uint32_t)(i % 3 == 0   ? draw(4)
                                       : i % 3 == 1 ? (1 << 23) - 1 - draw(4)
                                                    : draw(1 << 23));
        uint32_t bits = (i % 255) << 23 | fraction;
        float below, above;
        memcpy(&below, &bits, sizeof below);
        above = nextafterf(below, HUGE_VALF);
        check_around(isfinite(above) ? ((long double)below + (long double)above) / 2
                                     : 0x1.ffffffp127L,
                     i < 300 ? 120 : 24, i < 300 ? 7 : 1);
    }
}
END_TEST

START_TEST(test_middles_of_doubles)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t bits = (i * 1000003 % 2046) << 52 | draw((uint64_t)1 << 52);
        double below, above;
        memcpy(&below, &bits, sizeof below);
        above = nextafter(below, HUGE_VAL);
        check_around(((long double)below + (long double)above) / 2, i < 100 ? 800 : 24,
                     i < 100 ? 97 : 1);
    }
}
END_TEST

/* Any digits, with a point and an exponent anywhere. */
START_TEST(test_random)
{
    for (size_t i = 0; i < 100000; i++) {
        char text[64];
        size_t n = 0, n_digits = 1 + draw(24), point = draw(n_digits + 1);
        if (draw(2)) {
            text[n++] = '-';
        }
        for (size_t j = 0; j < n_digits; j++) {
            if (j == point && j > 0) {
                text[n++] = '.';
            }
            text[n++] = (char)('0' + (j == 0 ? 1 + draw(9) : draw(10)));
        }
        n += (size_t)(draw(2) ? sprintf(text + n, "e%d", (int)draw(120) - 70)
                              : sprintf(text + n, "E%+03d", (int)draw(700) - 350));
        text[draw(8) == 0 ? (size_t)(strpbrk(text, "eE") - text) : n] = '\0';
        check(text);
    }
}
END_TEST

/* Every power of two and of ten there is, written in full and in part. */
START_TEST(test_powers)
{
    char text[1200];
    for (int n = -1074; n <= 1023; n++) {
        double power = ldexp(1, n);
        snprintf(text, sizeof text, "%.17g", power);
        check(text);
        snprintf(text, sizeof text, "%.*f", n < 0 ? -n : 0, power);
        text[1100] = '\0';
        check(text);
    }
    for (int n = -400; n <= 400; n++) {
        snprintf(text, sizeof text, "1e%d", n);
        check(text);
        snprintf(text, sizeof text, "9999999999999999999e%d", n);
        check(text);
        snprintf(text, sizeof text, "12345678901234567890123e%d", n);
        check(text);
    }
}
END_TEST

/* Zeros before and behind, more than any buffer holds, made up for by the exponent or not. */
START_TEST(test_long_zeros)
{
    const size_t n = 100000;
    char *text = malloc(n + 64);
    for (size_t i = 0; i < 4; i++) {
        memset(text, '0', n + 64);
        text[i < 2 ? 0 : 1] = '1';
        memcpy(text, i < 2 ? "15" : "0.", 2);
        text[n] = i < 2 ? '0' : '7';
        strcpy(text + n + 1, i % 2 == 0 ? "" : i < 2 ? "e-99990" : "e+99990");
        const char *wrong = numbers_compare(text, text + strlen(text), c_locale);
        ck_assert_msg(!wrong, "%zu: %s", i, wrong);
    }
    free(text);
}
END_TEST

START_TEST(test_near_is_careful)
{
    /* exactly in the middle between two floats, or too close to tell */
    float value;
    ck_assert(!ad_decimal_near_f32(16777217, 1.0, &value));
    ck_assert(!ad_decimal_near_f32(83886085, 0.1, &value));
    ck_assert(!ad_decimal_near_f32(9007199791611904, 1.0, &value));
    ck_assert(ad_decimal_near_f32(16777218, 1.0, &value) && value == 16777218.0f);
    ck_assert(ad_decimal_near_f32(0, 1e-5, &value) && value == 0.0f);
    ck_assert(ad_decimal_near_f32(1, 0.1, &value) && value == 0.1f);
}
END_TEST

/* The C library is the exception: 128 bits settle whatever programs write. */
START_TEST(test_settled)
{
    for (size_t i = 0; i < 100000; i++) {
        struct ad_decimal decimal = {draw((uint64_t)1 << 53), (int)draw(600) - 300, false,
                                     draw(2) > 0};
        float single;
        double wide;
        decimal.digits += (uint64_t)1000000000000000000;
        ck_assert(ad_decimal_f32(&decimal, &single));
        decimal.cut = false;
        ck_assert(ad_decimal_f64(&decimal, &wide));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hard numbers");
    TCase *tcase = tcase_create("hard numbers");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_exact);
    tcase_add_test(tcase, test_middles_of_floats);
    tcase_add_test(tcase, test_middles_of_doubles);
    tcase_add_test(tcase, test_random);
    tcase_add_test(tcase, test_powers);
    tcase_add_test(tcase, test_long_zeros);
    tcase_add_test(tcase, test_near_is_careful);
    tcase_add_test(tcase, test_settled);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
