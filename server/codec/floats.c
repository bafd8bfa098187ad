/* floats.c - floats as JSON numbers: the fewest digits that read back as the same float.
 *
 * All decimals between the two middles to the next floats read back as the float. Scaled by the right
 * power of ten, the steps of one decimal place are just narrower than that space, and those of the
 * next wider, so that only the two neighbours on either grid need be looked at: R. Giulietti, "The
 * Schubfach way to render doubles", 2020. Lengths and places are worked out without branches, as they
 * vary from number to number. Any thread; keeps no state. */
#include "codec/floats.h"
#include "codec/powers.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word's first byte is low");

#define BATCH 32 /* a multiple of 4 */

typedef uint16_t words8 __attribute__((vector_size(16)));
typedef int32_t words4 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

/* Floats on their way, each array for the steps below. Digits are below 2 * 10^8: they may be nine,
 * and then the first of them is 1. */
struct batch {
    uint64_t power[BATCH];                           /* of ten, scaled to 64 bits */
    uint32_t low[BATCH], middle[BATCH], high[BATCH]; /* to be multiplied by it */
    uint32_t odd[BATCH];                             /* 1: the mantissa is */
    int exponent[BATCH];                             /* of ten, for the digits */
    int32_t lower[BATCH], here[BATCH],
        upper[BATCH]; /* bounds and float, in quarters of that */
    uint32_t digits[BATCH];
    uint64_t spread[BATCH]; /* the last eight of them, a byte each, the first lowest */
};

/* ---- digits ---------------------------------------------------------------------------- */

/* Choose 10^exponent, not above the space between the two middles, 10^(exponent + 1) being above. */
static inline void choose_scale(struct batch *b, size_t i, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t fraction = bits & 0x7fffff, biased = (bits >> 23) & 0xff;
    uint32_t normal = biased > 0;
    int q = (int)(biased + !normal) - 150;
    /* The float below a power of two is half as far away as the one above. */
    uint32_t lopsided = (fraction == 0) & (biased > 1);
    /* logarithms in 22 bits, 524031 for that of 3/4 */
    int k = (q * 1262611 - (int)(lopsided * 524031)) >> 22;
    int shift = q + ad_power_weight(-k) - k + 1;
    uint32_t quarters = (fraction | normal << 23) << 2;
    b->power[i] = ad_power_of(-k)->high + 1;
    b->low[i] = (quarters - 2 + lopsided) << shift;
    b->middle[i] = quarters << shift;
    b->high[i] = (quarters + 2) << shift;
    b->odd[i] = fraction & 1;
    b->exponent[i] = k;
}

/* floor(c * power / 2^64), made odd when that cut something off: enough to compare by. The power is
 * above the true one by less than 1, which may show in the last bit but one of what is cut. */
static inline uint32_t scale(uint64_t c, uint64_t power)
{
    uint64_t product = c * (power >> 32) + (c * (power & 0xffffffff) >> 32);
    return (uint32_t)(product >> 32) | ((uint32_t)product > 1);
}

/* The middles themselves read back when the mantissa is even. */
static inline void scale_bounds(struct batch *b, size_t i)
{
    uint64_t power = b->power[i];
    b->lower[i] = (int32_t)(scale(b->low[i], power) + b->odd[i]);
    b->here[i] = (int32_t)scale(b->middle[i], power);
    b->upper[i] = (int32_t)(scale(b->high[i], power) - b->odd[i]);
}

static inline words4 select_words(words4 condition, words4 yes, words4 no)
{
    return no ^ ((no ^ yes) & condition);
}

/* In steps of 10^(exponent + 1) there is one between the middles at the most; in steps of
 * 10^exponent one or two, of which the closer is taken, and the even one when both are as close. All
 * of it is as good as random, so it is worked out without a branch, for four floats at once. A
 * condition that holds is -1. */
static inline void choose_digits(struct batch *b, size_t i)
{
    words4 lower, here, upper;
    memcpy(&lower, b->lower + i, sizeof lower);
    memcpy(&here, b->here + i, sizeof here);
    memcpy(&upper, b->upper + i, sizeof upper);
    words4 fine = here >> 2, coarse = fine / 10 * 10;
    words4 some = coarse > 0;
    words4 coarse_below = (lower <= 4 * coarse) & some;
    words4 coarse_above = (4 * coarse + 40 <= upper) & some;
    words4 below = lower <= 4 * fine, above = 4 * fine + 4 <= upper;
    words4 closer = (here & 3) + (fine & 1) > 2;
    words4 nearest = fine - select_words(below ^ above, above, closer);
    words4 digits =
        select_words(coarse_below ^ coarse_above, coarse + (coarse_above & 10), nearest);
    memcpy(b->digits + i, &digits, sizeof digits);
}

#define EIGHT_DIGITS 100000000

/* For two floats at once: halves of four digits, then of two, then of one. */
static inline void spread_digits(struct batch *b, size_t i)
{
    words2 by4;
    for (size_t j = 0; j < 2; j++) {
        uint32_t digits = b->digits[i + j];
        digits -= (digits >= EIGHT_DIGITS) * (uint32_t)EIGHT_DIGITS;
        by4[j] = digits / 10000 | (uint64_t)(digits % 10000) << 32;
    }
    words8 hundreds = (words8)by4 / 100;
    words8 by2 = hundreds | (words8)((words2)((words8)by4 - hundreds * 100) << 16);
    words8 tens = by2 / 10;
    words8 by1 = tens | (by2 - tens * 10) << 8;
    memcpy(b->spread + i, &by1, sizeof by1);
}

/* condition ? yes : no, the condition being 0 or 1. */
static inline uint32_t select_bits(uint32_t condition, uint32_t yes, uint32_t no)
{
    return no ^ ((no ^ yes) & (0 - condition));
}

/* The digits of a float, spelt: the first, and eight more, of which those from n on are '0'. */
struct spelling {
    uint64_t first, rest;
    uint32_t n;
    int power; /* of ten, that the first one counts */
};

/* Cut zeros off at both ends. */
static inline struct spelling spell_digits(const struct batch *b, size_t i)
{
    uint32_t nine = b->digits[i] >= EIGHT_DIGITS;
    uint64_t rest = b->spread[i], none = rest == 0;
    uint32_t zeros = select_bits(nine, 0, (uint32_t)__builtin_ctzll(rest | none) & 0x38);
    uint64_t first = (rest >> zeros & 15 & (nine - (uint64_t)1)) | nine;
    rest = rest >> zeros >> select_bits(nine, 0, 8);
    none = rest == 0;
    return (struct spelling){'0' + first, rest | 0x3030303030303030,
                             (uint32_t)(79 - __builtin_clzll(rest | none)) / 8 -
                                 (uint32_t)none,
                             b->exponent[i] + (int)(7 + nine - zeros / 8)};
}

/* ---- texts ----------------------------------------------------------------------------- */

static inline void put8(char *text, uint64_t bytes)
{
    memcpy(text, &bytes, sizeof bytes);
}

/* 1.25e-7 */
static size_t write_scientific(const struct spelling *spelling, char *text)
{
    text[0] = (char)spelling->first;
    text[1] = '.';
    put8(text + 2, spelling->rest);
    /* over the point, when nothing follows it */
    char *at = text + spelling->n + (spelling->n > 1);
    *at++ = 'e';
    int power = spelling->power;
    *at = '-';
    at += power < 0;
    power = power < 0 ? -power : power;
    if (power >= 10) {
        *at++ = (char)('0' + power / 10);
    }
    *at++ = (char)('0' + power % 10);
    return (size_t)(at - text);
}

/* 0.00125, 12.5 or 12500; the power is -4 to 8. The digits are written where they would stand behind a
 * "0.000", or from the start; then those behind the point again, one place further. */
static inline size_t write_plain(const struct spelling *spelling, char *text)
{
    int power = spelling->power;
    uint32_t small = (uint32_t)power >> 31;
    uint32_t at = select_bits(small, (uint32_t)(1 - power), 0);
    uint32_t n_before = select_bits(small, 9, (uint32_t)(power + 1));
    uint32_t shift = 4 * (n_before - 1);
    put8(text, 0x3030303030302e30); /* 0.000000 */
    text[at] = (char)spelling->first;
    put8(text + at + 1, spelling->rest);
    text[at + n_before] = '.';
    put8(text + at + n_before + 1, spelling->rest >> shift >> shift);
    uint32_t n = spelling->n + (spelling->n > n_before);
    uint32_t whole = select_bits(small, 0, n_before);
    return at + (n > whole ? n : whole);
}

static inline size_t write_number(const struct spelling *spelling, float value,
                                  char *text)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t negative = bits >> 31;
    if (bits << 1 == 0) {
        /* "-0" is read as an integer by some, without its sign */
        memcpy(text, negative ? "-0.0" : "0\0\0", 4);
        return negative ? 4 : 1;
    }
    *text = '-';
    text += negative;
    int power = spelling->power;
    return negative + (power >= -4 && power <= 8 ? write_plain(spelling, text)
                                                 : write_scientific(spelling, text));
}

/* Each step is done for all before the next: within a number one waits for the other, and a processor
 * looks ahead no further than a number or two. */
static void make_digits(struct batch *b, const float *values, size_t n)
{
    size_t n_lanes = (n + 3) / 4 * 4;
    for (size_t i = 0; i < n_lanes; i++) {
        choose_scale(b, i, i < n ? values[i] : 1.0f);
    }
    for (size_t i = 0; i < n_lanes; i++) {
        scale_bounds(b, i);
    }
    for (size_t i = 0; i < n_lanes; i += 4) {
        choose_digits(b, i);
    }
    for (size_t i = 0; i < n_lanes; i += 2) {
        spread_digits(b, i);
    }
}

size_t ad_floats_write(const float *values, size_t n, char *text)
{
    struct batch b;
    struct spelling spellings[BATCH];
    char *at = text;
    for (size_t from = 0; from < n; from += BATCH) {
        size_t m = n - from < BATCH ? n - from : BATCH;
        make_digits(&b, values + from, m);
        for (size_t i = 0; i < m; i++) {
            spellings[i] = spell_digits(&b, i);
        }
        for (size_t i = 0; i < m; i++) {
            at += write_number(&spellings[i], values[from + i], at);
            *at++ = ',';
        }
    }
    return (size_t)(at - text);
}
