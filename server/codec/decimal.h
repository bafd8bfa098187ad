/* decimal.h - digits * 10^exponent -> the nearest float or double. */
#ifndef AD_CODEC_DECIMAL_H
#define AD_CODEC_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A number as it was written. */
struct ad_decimal {
    uint64_t digits; /* the first 19 significant ones at the most */
    int exponent;    /* of ten; beyond +-100000 it may be anything as far away */
    bool negative;
    bool cut; /* digits follow that are not all zero */
};

/* The nearest float or double, ties to even, infinity where that is beyond the type; the sign with
 * it. False: 128 bits of the power do not settle it, and *value is as it was. */
bool ad_decimal_f32(const struct ad_decimal *decimal, float *value);
bool ad_decimal_f64(const struct ad_decimal *decimal, double *value);

#define AD_TEN_LEAST (-64)
#define AD_TEN_GREATEST 38

/* 10^AD_TEN_LEAST and up, each the nearest double. */
extern const double ad_tens[AD_TEN_GREATEST - AD_TEN_LEAST + 1];

/* The nearest float, by way of a double that is near enough. Digits below 2^63, the power and their
 * product are each rounded once to 53 bits, so the product is off by 3 units of its last place at
 * most. Whatever lies in between, rounding it to a float gives the same unless the middle between two
 * floats does: when one is 4 units away or less, false. False too where floats have fewer bits or
 * none: the product must be zero or a normal float's. */
static inline bool ad_decimal_near_f32(uint64_t digits, double ten, float *value)
{
    const uint64_t cut = ((uint64_t)1 << 29) - 1, middle = (uint64_t)1 << 28;
    double product = (double)(int64_t)digits * ten;
    uint64_t bits;
    memcpy(&bits, &product, sizeof bits);
    *value = (float)product;
    return ((bits - (middle - 4)) & cut) > 8;
}

#endif
