/* test_floats.c - the float writer: reads back, and is as short as can be. */
#include "codec/floats.h"
#include "codec/numbers.h"
#include "unit/support.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM AD_FLOATS_ROOM(1)

static const char *write_float(float value, char text[ROOM + 1])
{
    memset(text, '#', ROOM + 1);
    size_t n = ad_floats_write(&value, 1, text);
    ck_assert_uint_le(n, AD_FLOAT_MAX_TEXT + 1);
    ck_assert_int_eq(text[n - 1], ',');
    ck_assert_int_eq(text[ROOM], '#');
    text[n - 1] = '\0';
    return text;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t digits_in(const char *text)
{
    char digits[ROOM + 1];
    size_t n = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0')) {
            digits[n++] = *text;
        }
    }
    while (n > 0 && digits[n - 1] == '0') {
        n--;
    }
    return n;
}

/* Valid JSON, the same float, and no digit more than plain search finds necessary. */
static void check_float(float value)
{
    char text[ROOM + 1];
    write_float(value, text);
    ck_assert_msg(ad_number_end(text, text + strlen(text), NULL) == text + strlen(text),
                  "%s is not JSON", text);
    ck_assert_msg(bits_of(strtof(text, NULL)) == bits_of(value), "%s: %.9g", text,
                  (double)value);
    if (value == 0) {
        return;
    }
    size_t n = 1;
    char search[32];
    do {
        snprintf(search, sizeof search, "%.*e", (int)n - 1, (double)value);
    } while (strtof(search, NULL) != value && n++ < 9);
    ck_assert_msg(digits_in(text) <= n, "%s: %s is shorter", text, search);
}

START_TEST(test_texts)
{
    static const struct {
        float value;
        const char *text;
    } cases[] = {
        {0.0f, "0"},
        {-0.0f, "-0.0"},
        {1.0f, "1"},
        {-3.0f, "-3"},
        {0.1f, "0.1"},
        {-0.5f, "-0.5"},
        {1.25f, "1.25"},
        {100.5f, "100.5"},
        {0.0001f, "0.0001"},
        {0.00001f, "1e-5"},
        {16777215.0f, "16777215"},
        {16777216.0f, "16777216"},
        {33554432.0f, "33554432"},
        {123456790.0f, "123456790"},
        {1e9f, "1e9"},
        {1e20f, "1e20"},
        {1.5e-7f, "1.5e-7"},
        {FLT_MAX, "3.4028235e38"},
        {-FLT_MAX, "-3.4028235e38"},
        {FLT_MIN, "1.1754944e-38"},
        {0x1p-149f, "1e-45"},
        {0x1p-148f, "3e-45"},
        {0x1.fffffcp-127f, "1.1754942e-38"},
        {3.1415927f, "3.1415927"},
        {0.33333334f, "0.33333334"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[ROOM + 1];
        ck_assert_str_eq(write_float(cases[i].value, text), cases[i].text);
        check_float(cases[i].value);
    }
}
END_TEST

START_TEST(test_powers)
{
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (uint32_t mantissa = 0; mantissa < 3; mantissa++) {
            check_float(float_of(exponent << 23 | mantissa));
            check_float(float_of(exponent << 23 | (0x7fffff - mantissa)));
        }
    }
    for (int power = -45; power <= 38; power++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", power);
        check_float(strtof(text, NULL));
        check_float(nextafterf(strtof(text, NULL), 0));
    }
}
END_TEST

START_TEST(test_random)
{
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 100000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        float value = float_of((uint32_t)(state >> 16));
        if (isfinite(value)) {
            check_float(value);
        }
        check_float((float)(int32_t)(state >> 40) / 1000.0f);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("floats");
    TCase *tcase = tcase_create("floats");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_texts);
    tcase_add_test(tcase, test_powers);
    tcase_add_test(tcase, test_random);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
