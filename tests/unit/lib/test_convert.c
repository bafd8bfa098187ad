/* test_convert.c - every half and bfloat16, and the corners of double, as float32. */
#include "attention.h"
#include "unit/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value of a sign, exponent and fraction by definition, not by moving bits. */
static double value_of(unsigned bits, int n_exponent, int n_fraction)
{
    int exponent = (int)(bits >> n_fraction & ((1u << n_exponent) - 1));
    double fraction = (double)(bits & ((1u << n_fraction) - 1));
    double sign = bits >> (n_exponent + n_fraction) ? -1.0 : 1.0;
    int bias = (1 << (n_exponent - 1)) - 1;
    if (exponent == (1 << n_exponent) - 1) {
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, 1 - bias - n_fraction);
    }
    return sign * ldexp(ldexp(1.0, n_fraction) + fraction, exponent - bias - n_fraction);
}

static void check_all(enum attn_dtype dtype, int n_exponent, int n_fraction)
{
    /* one byte in front, so that no element is aligned */
    unsigned char *in = malloc(1 + 2 * 65536);
    float *out = malloc(65536 * sizeof *out);
    ck_assert(in && out);
    for (unsigned i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        memcpy(in + 1 + 2 * i, &bits, 2);
    }
    ck_assert_int_eq(attn_convert_to_f32(dtype, in + 1, 65536, out, NULL), ATTN_OK);
    for (unsigned i = 0; i < 65536; i++) {
        double expected = value_of(i, n_exponent, n_fraction);
        if (isnan(expected)) {
            ck_assert_msg(isnan(out[i]), "%#x is %g, not NaN", i, (double)out[i]);
            continue;
        }
        ck_assert_msg((double)out[i] == expected &&
                          !signbit(out[i]) == !signbit(expected),
                      "%#x is %a, not %a", i, (double)out[i], expected);
    }
    free(in);
    free(out);
}

START_TEST(every_f16)
{
    check_all(ATTN_F16, 5, 10);
}
END_TEST

START_TEST(every_bf16)
{
    check_all(ATTN_BF16, 8, 7);
}
END_TEST

START_TEST(f32_is_copied_bit_for_bit)
{
    const uint32_t bits[] = {0,          0x80000000, 0x3f800000, 1,
                             0x7f800000, 0xff800000, 0x7fa00001, 0x7f7fffff};
    unsigned char in[sizeof bits + 1];
    memcpy(in + 1, bits, sizeof bits);
    float out[8];
    ck_assert_int_eq(attn_convert_to_f32(ATTN_F32, in + 1, 8, out, NULL), ATTN_OK);
    ck_assert_mem_eq(out, bits, sizeof bits);
}
END_TEST

/* Halfway cases go to the even neighbour. */
static const struct {
    double in;
    float out;
} rounding[] = {
    {0.0, 0.0f},
    {-0.0, -0.0f},
    {1.0, 1.0f},
    {0.1, 0.1f},
    {1.0 + 0x1p-24, 1.0f},                    /* halfway, even below */
    {1.0 + 0x1p-24 + 0x1p-52, 0x1.000002p0f}, /* just above halfway */
    {1.0 + 0x1.8p-23, 0x1.000004p0f},         /* halfway, even above */
    {-1.0 - 0x1.8p-23, -0x1.000004p0f},
    {0x1.fffffep127, FLT_MAX},
    {0x1.fffffefffffffp127, FLT_MAX}, /* the largest that does not reach 2^128 */
    {-0x1.fffffefffffffp127, -FLT_MAX},
    {0x1p-126, FLT_MIN},
    {0x1.fffffffp-127, FLT_MIN}, /* rounds up out of the subnormals */
    {0x1p-149, 0x1p-149f},
    {0x1p-150, 0.0f}, /* half the smallest, even is zero */
    {0x1.0000000000001p-150, 0x1p-149f},
    {-0x1p-150, -0.0f},
    {0x1.8p-149, 0x1p-148f}, /* halfway between 1 and 2 of the smallest */
    {0x1.4p-149, 0x1p-149f},
    {DBL_MIN, 0.0f},
    {0x0.0000000000001p-1022, 0.0f},
};

START_TEST(f64_rounds_to_nearest)
{
    unsigned char in[1 + sizeof(double)];
    memcpy(in + 1, &rounding[_i].in, sizeof(double));
    float out;
    ck_assert_int_eq(attn_convert_to_f32(ATTN_F64, in + 1, 1, &out, NULL), ATTN_OK);
    ck_assert_msg(memcmp(&out, &rounding[_i].out, sizeof out) == 0,
                  "%a became %a, not %a", rounding[_i].in, (double)out,
                  (double)rounding[_i].out);
}
END_TEST

START_TEST(f64_specials)
{
    const double in[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    float out[3];
    ck_assert_int_eq(attn_convert_to_f32(ATTN_F64, in, 3, out, NULL), ATTN_OK);
    ck_assert(isinf(out[0]) && out[0] > 0);
    ck_assert(isinf(out[1]) && out[1] < 0);
    ck_assert(isnan(out[2]));
}
END_TEST

START_TEST(f64_beyond_range)
{
    static const double beyond[] = {0x1.ffffffp127, -0x1.ffffffp127, 0x1p128, 1e300,
                                    -DBL_MAX};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        const double in[] = {1.0, (double)INFINITY, beyond[i], 4.0};
        float out[4] = {-1, -1, -1, -1};
        size_t bad = 99;
        ck_assert_int_eq(attn_convert_to_f32(ATTN_F64, in, 4, out, &bad), ATTN_RANGE);
        ck_assert_uint_eq(bad, 2);
        ck_assert(out[0] == 1 && isinf(out[1]) && out[2] == -1 && out[3] == -1);
        ck_assert_int_eq(attn_convert_to_f32(ATTN_F64, in, 4, out, NULL), ATTN_RANGE);
    }
}
END_TEST

START_TEST(f64_is_what_a_cast_gives)
{
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double in;
        memcpy(&in, &state, sizeof in);
        volatile double kept = in; /* at run time, by the processor */
        float expected = (float)kept;
        float out;
        enum attn_status status = attn_convert_to_f32(ATTN_F64, &in, 1, &out, NULL);
        if (isinf(expected) && !isinf(in)) {
            ck_assert_int_eq(status, ATTN_RANGE);
        } else {
            ck_assert_int_eq(status, ATTN_OK);
            ck_assert(isnan(in) ? isnan(out) : out == expected);
        }
    }
}
END_TEST

START_TEST(other_types_are_refused)
{
    const uint64_t in = 0;
    float out = 7;
    for (int dtype = ATTN_BOOL; dtype <= ATTN_F8_E5M2; dtype++) {
        ck_assert_int_eq(attn_convert_to_f32((enum attn_dtype)dtype, &in, 1, &out, NULL),
                         ATTN_DTYPE);
        ck_assert_int_eq(attn_convert_to_f32((enum attn_dtype)dtype, NULL, 0, NULL, NULL),
                         ATTN_DTYPE);
    }
    ck_assert(out == 7);
}
END_TEST

START_TEST(nothing_to_convert)
{
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
        ck_assert_int_eq(attn_convert_to_f32((enum attn_dtype)dtype, NULL, 0, NULL, NULL),
                         ATTN_OK);
    }
}
END_TEST

int main(void)
{
    TCase *narrow = tcase_create("narrow");
    tcase_add_test(narrow, every_f16);
    tcase_add_test(narrow, every_bf16);
    tcase_add_test(narrow, f32_is_copied_bit_for_bit);
    tcase_add_test(narrow, other_types_are_refused);
    tcase_add_test(narrow, nothing_to_convert);
    TCase *wide = tcase_create("wide");
    tcase_add_loop_test(wide, f64_rounds_to_nearest, 0,
                        (int)(sizeof rounding / sizeof *rounding));
    tcase_add_test(wide, f64_specials);
    tcase_add_test(wide, f64_beyond_range);
    tcase_add_test(wide, f64_is_what_a_cast_gives);
    Suite *suite = suite_create("convert");
    suite_add_tcase(suite, narrow);
    suite_add_tcase(suite, wide);
    return support_run(suite);
}
