/* convert.c - numbers of other widths as float32; pure functions, any thread. Elements may lie at
 * any address, so each is copied out before it is looked at. */
#include "attention.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are little-endian and are read as they lie");

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Every half is exactly a float. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31u;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
    return float_of_bits(sign | wide << 23 | fraction << 13);
}

static void convert_half(const unsigned char *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, in + i * sizeof half, sizeof half);
        out[i] = float_of_half(half);
    }
}

/* A bfloat16 is the upper half of a float. */
static void convert_bfloat(const unsigned char *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t upper;
        memcpy(&upper, in + i * sizeof upper, sizeof upper);
        out[i] = float_of_bits((uint32_t)upper << 16);
    }
}

static enum attn_status convert_double(const unsigned char *in, size_t n, float *out,
                                       size_t *bad)
{
    /* Halfway between the largest float and the next power of two: it would round to infinity. */
    const double limit = 0x1.ffffffp127;
    for (size_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, in + i * sizeof value, sizeof value);
        if (fabs(value) >= limit && !isinf(value)) {
            if (bad) {
                *bad = i;
            }
            return ATTN_RANGE;
        }
        out[i] = (float)value;
    }
    return ATTN_OK;
}

enum attn_status attn_convert_to_f32(enum attn_dtype dtype, const void *in, size_t n,
                                     float *out, size_t *bad)
{
    if (dtype != ATTN_F32 && dtype != ATTN_F64 && dtype != ATTN_F16 &&
        dtype != ATTN_BF16) {
        return ATTN_DTYPE;
    }
    if (n == 0) { /* in and out may be NULL */
        return ATTN_OK;
    }
    if (dtype == ATTN_F64) {
        return convert_double(in, n, out, bad);
    }
    if (dtype == ATTN_F32) {
        memcpy(out, in, n * sizeof *out);
    } else if (dtype == ATTN_F16) {
        convert_half(in, n, out);
    } else {
        convert_bfloat(in, n, out);
    }
    return ATTN_OK;
}
