/* bf16.h - the upper half of a float. */
#ifndef ATTNI_BF16_H
#define ATTNI_BF16_H

#include <stdint.h>
#include <string.h>

/* x rounded to the nearest bf16, ties to even; NaN stays NaN, what is too large becomes infinite. */
static inline uint16_t attni_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    uint32_t quiet = bits | 0x400000;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

static inline float attni_bf16_to_f32(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

#endif
