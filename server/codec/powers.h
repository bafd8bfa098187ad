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

#endif
