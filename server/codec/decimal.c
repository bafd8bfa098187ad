/* decimal.c - digits * 10^exponent -> the nearest float or double.
 *
 * The digits, as 64 bits, are multiplied by the first 128 bits of the power: that is enough to round
 * by in all but a handful of cases, which show, as D. Lemire describes in "Number parsing at a gigabyte
 * per second", 2021. Any thread; keeps no state. */
#include "codec/decimal.h"
#include "codec/powers.h"

#include <stddef.h>

typedef unsigned __int128 wide;

const double ad_tens[AD_TEN_GREATEST - AD_TEN_LEAST + 1] = {
    1e-64, 1e-63, 1e-62, 1e-61, 1e-60, 1e-59, 1e-58, 1e-57, 1e-56, 1e-55, 1e-54, 1e-53,
    1e-52, 1e-51, 1e-50, 1e-49, 1e-48, 1e-47, 1e-46, 1e-45, 1e-44, 1e-43, 1e-42, 1e-41,
    1e-40, 1e-39, 1e-38, 1e-37, 1e-36, 1e-35, 1e-34, 1e-33, 1e-32, 1e-31, 1e-30, 1e-29,
    1e-28, 1e-27, 1e-26, 1e-25, 1e-24, 1e-23, 1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17,
    1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9,  1e-8,  1e-7,  1e-6,  1e-5,
    1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,   1e2,   1e3,   1e4,   1e5,   1e6,   1e7,
    1e8,   1e9,   1e10,  1e11,  1e12,  1e13,  1e14,  1e15,  1e16,  1e17,  1e18,  1e19,
    1e20,  1e21,  1e22,  1e23,  1e24,  1e25,  1e26,  1e27,  1e28,  1e29,  1e30,  1e31,
    1e32,  1e33,  1e34,  1e35,  1e36,  1e37,  1e38,
};

/* A binary format. Its values are laid out as consecutive integers, so a mantissa that is rounded up
 * to the next power of two carries into the exponent by itself. */
struct format {
    int n_bits;         /* of the mantissa, with the one that is not stored */
    int least_exponent; /* of a normal number: 2^this is the smallest */
    uint64_t infinity;
};

static const struct format f32 = {24, -126, (uint64_t)0xff << 23};
static const struct format f64 = {53, -1022, (uint64_t)0x7ff << 52};

/* digits * 10^q, digits > 0, as bits of the format; false when 128 bits do not settle it. */
static bool convert(const struct format *format, uint64_t digits, int q, uint64_t *bits)
{
    if (q < AD_POWER_LEAST || q > AD_POWER_GREATEST) {
        *bits = q > 0 ? format->infinity : 0;
        return true;
    }
    const struct ad_power *power = ad_power_of(q);
    int n_zeros = __builtin_clzll(digits);
    uint64_t w = digits << n_zeros;
    /* The true product is at least this and less than this + 2: one for what the table cuts off, one
     * for what is cut off here. */
    wide product = (wide)w * power->high + (uint64_t)(((wide)w * power->low) >> 64);
    bool exact = q >= 0 && power->low == 0;
    int first = 126 + (int)(product >> 127); /* its first bit */
    int exponent = first + q + ad_power_weight(q) - n_zeros - 63;
    int n_lost = exponent < format->least_exponent ? format->least_exponent - exponent
                                                   : 0; /* a subnormal has fewer bits */
    if (n_lost > format->n_bits) {
        *bits = 0;
        return true;
    }
    int n_cut = first + 1 - format->n_bits + n_lost;
    wide half = (wide)1 << (n_cut - 1);
    wide rest = product & (half | (half - 1));
    uint64_t mantissa = (uint64_t)((product >> (n_cut - 1)) >> 1);
    if (!exact && (rest == half || rest == half - 1)) {
        return false;
    }
    mantissa += rest > half || (rest == half && (mantissa & 1));
    uint64_t scale = (uint64_t)(exponent + n_lost - format->least_exponent);
    *bits = (scale << (format->n_bits - 1)) + mantissa;
    *bits = *bits > format->infinity ? format->infinity : *bits;
    return true;
}

/* What lies between two decimals that round alike rounds as they do. */
static bool round_decimal(const struct format *format, const struct ad_decimal *decimal,
                          uint64_t *bits)
{
    uint64_t above;
    if (decimal->digits == 0) {
        *bits = 0;
        return true;
    }
    return convert(format, decimal->digits, decimal->exponent, bits) &&
           (!decimal->cut ||
            (convert(format, decimal->digits + 1, decimal->exponent, &above) &&
             above == *bits));
}

bool ad_decimal_f32(const struct ad_decimal *decimal, float *value)
{
    uint64_t wide_bits;
    if (!round_decimal(&f32, decimal, &wide_bits)) {
        return false;
    }
    uint32_t bits = (uint32_t)wide_bits | (uint32_t)decimal->negative << 31;
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool ad_decimal_f64(const struct ad_decimal *decimal, double *value)
{
    uint64_t bits;
    if (!round_decimal(&f64, decimal, &bits)) {
        return false;
    }
    bits |= (uint64_t)decimal->negative << 63;
    memcpy(value, &bits, sizeof bits);
    return true;
}
