/* powers.h - powers of ten, exact enough to settle how nearly every decimal is rounded. */
#ifndef AD_CODEC_POWERS_H
#define AD_CODEC_POWERS_H

#include <stdint.h>

/* Beyond these, digits of 64 bits make a double that is zero or infinite. */
#define AD_POWER_LEAST (-342)
#define AD_POWER_GREATEST 308

/* The first 128 bits of 5^q, of which the first is set; what follows them is cut off. */
struct ad_power {
    uint64_t high, low;
};

extern const struct ad_power ad_powers[AD_POWER_GREATEST - AD_POWER_LEAST + 1];

static inline const struct ad_power *ad_power_of(int q)
{
    return &ad_powers[q - AD_POWER_LEAST];
}

/* floor(log2(5^q)), exact for every q in the table: the weight of its first bit. */
static inline int ad_power_weight(int q)
{
    return (q * 152170) >> 16;
}

/* For the floats of one biased exponent: the greatest power of ten that is not above the space between
 * two of them. */
struct ad_float_scale {
    uint64_t power; /* the first 64 bits of 5^-exponent, rounded up */
    int exponent;   /* of the power */
    int shift; /* mantissa * 2^shift * power is the float in 2^64ths of 10^exponent */
};

extern const struct ad_float_scale
    ad_float_scales[256]; /* the last one is for no float */

#endif
