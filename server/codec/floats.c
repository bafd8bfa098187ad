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
typedef uint32_t unsigned4 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

/* Floats on their way, each array for the steps below. */
struct batch {
    /* the float, and the least and greatest that read back as it, in quarters of 10^exponent */
    int32_t lower[BATCH], here[BATCH], upper[BATCH];
    int32_t exponent[BATCH];
    int32_t digits[BATCH];  /* nine, unless the first are zeros */
    uint64_t first[BATCH];  /* of these, as a character */
    uint64_t others[BATCH]; /* eight, a byte each, the first lowest */
};

/* ---- digits ---------------------------------------------------------------------------- */

/* The float below a power of two is half as far away as the one above: the space is three quarters of
 * what it is for its neighbours. Logarithms in 22 bits, 524031 for that of 3/4. */
static struct ad_float_scale scale_of_power(uint32_t biased)
{
    int q = (int)biased - 150, k = (q * 1262611 - 524031) >> 22;
    return (struct ad_float_scale){ad_power_of(-k)->high + 1, k,
                                   q + ad_power_weight(-k) - k + 1};
}

/* The float, and the middles between it and its neighbours, which read back when its mantissa is even. */
static inline void find_bounds(struct batch *b, size_t i, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t fraction = bits & 0x7fffff, biased = (bits >> 23) & 0xff;
    uint32_t normal = biased > 0;
    int closer = 0; /* 1: the float below is half as far away as the one above */
    uint64_t odd = bits & 1;
    uint64_t power = ad_float_scales[biased].power;
    int shift = ad_float_scales[biased].shift,
        exponent = ad_float_scales[biased].exponent;
    if (fraction == 0 && biased > 1) {
        struct ad_float_scale scale = scale_of_power(biased);
        power = scale.power;
        shift = scale.shift;
        exponent = scale.exponent;
        closer = 1;
    }
    uint32_t quarters = (fraction | normal << 23) << 2;
    /* Quarters of 10^exponent, times 2^32. What is cut off here, and the power being too large by less
     * than 1, puts a whole number at most 2 too high; what is none is never as close to one. */
    uint64_t c = (uint64_t)quarters << shift;
    uint64_t here = c * (power >> 32) + (c * (power & 0xffffffff) >> 32);
    uint64_t lower = here - (power >> (31 + closer - shift));
    uint64_t upper = here + (power >> (31 - shift)) + 1;
    b->lower[i] = (int32_t)((lower + 0xfffffffd + 3 * odd) >> 32);
    b->upper[i] = (int32_t)((upper - 3 * odd) >> 32);
    /* odd when anything was cut off: enough to tell which of two is closer */
    b->here[i] = (int32_t)(here >> 32 | ((uint32_t)here > 1));
    b->exponent[i] = exponent;
}

static inline words4 select_words(words4 condition, words4 yes, words4 no)
{
    return no ^ ((no ^ yes) & condition);
}

static inline words4 load_words(const int32_t *words)
{
    words4 loaded;
    memcpy(&loaded, words, sizeof loaded);
    return loaded;
}

#define EIGHT_DIGITS 100000000

/* In steps of 10^(exponent + 1) there is one between the middles at the most; in steps of
 * 10^exponent one or two, of which the closer is taken, and the even one when both are as close. All
 * of it is as good as random, so it is worked out without a branch, for four floats at once. A
 * condition that holds is -1. */
static inline void choose_digits(struct batch *b, size_t i)
{
    words4 lower = load_words(b->lower + i), here = load_words(b->here + i);
    words4 upper = load_words(b->upper + i), exponent = load_words(b->exponent + i);
    words4 fine = here >> 2, coarse = (words4)((unsigned4)fine / 10 * 10);
    words4 some = coarse > 0;
    words4 coarse_below = (lower <= 4 * coarse) & some;
    words4 coarse_above = (4 * coarse + 40 <= upper) & some;
    words4 below = lower <= 4 * fine, above = 4 * fine + 4 <= upper;
    words4 closer = (here & 3) + (fine & 1) > 2;
    words4 nearest = fine - select_words(below ^ above, above, closer);
    words4 digits =
        select_words(coarse_below ^ coarse_above, coarse + (coarse_above & 10), nearest);
    /* a normal float has seven to nine */
    for (size_t j = 0; j < 2; j++) {
        words4 few = digits < EIGHT_DIGITS;
        digits = select_words(few, (words4)((unsigned4)digits * 10), digits);
        exponent += few;
    }
    memcpy(b->digits + i, &digits, sizeof digits);
    memcpy(b->exponent + i, &exponent, sizeof exponent);
}

/* A subnormal may have fewer. */
static void fill_digits(struct batch *b, size_t i)
{
    while (b->digits[i] > 0 && b->digits[i] < EIGHT_DIGITS) {
        b->digits[i] *= 10;
        b->exponent[i]--;
    }
}

/* The first digit, and two halves of four. */
static inline void split_digits(struct batch *b, size_t i)
{
    if (b->digits[i] < EIGHT_DIGITS) {
        fill_digits(b, i);
    }
    uint32_t digits = (uint32_t)b->digits[i], first = digits / EIGHT_DIGITS;
    digits -= first * EIGHT_DIGITS;
    b->first[i] = '0' + first;
    b->others[i] = digits / 10000 | (uint64_t)(digits % 10000) << 32;
}

/* Halves of four digits, then of two, then of one: for two floats at once. */
static inline void spread_digits(struct batch *b, size_t i)
{
    words8 by4;
    memcpy(&by4, b->others + i, sizeof by4);
    words8 hundreds = by4 / 100;
    words8 by2 = hundreds | (words8)((words2)(by4 - hundreds * 100) << 16);
    words8 tens = by2 / 10;
    words8 by1 = tens | (by2 - tens * 10) << 8;
    memcpy(b->others + i, &by1, sizeof by1);
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

static inline struct spelling spell_digits(const struct batch *b, size_t i)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): by memcpy, two at a time */
    uint64_t others = b->others[i], none = others == 0;
    uint32_t n = (uint32_t)(79 - __builtin_clzll(others | none)) / 8 - (uint32_t)none;
    return (struct spelling){b->first[i], others | 0x3030303030303030, n,
                             b->exponent[i] + 8};
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
        find_bounds(b, i, i < n ? values[i] : 1.0f);
    }
    for (size_t i = 0; i < n_lanes; i += 4) {
        choose_digits(b, i);
    }
    for (size_t i = 0; i < n_lanes; i++) {
        split_digits(b, i);
    }
    for (size_t i = 0; i < n_lanes; i += 2) {
        spread_digits(b, i);
    }
}

size_t ad_floats_write(const float *values, size_t n, char *text)
{
    struct batch b;
    char *at = text;
    for (size_t from = 0; from < n; from += BATCH) {
        size_t m = n - from < BATCH ? n - from : BATCH;
        make_digits(&b, values + from, m);
        for (size_t i = 0; i < m; i++) {
            struct spelling spelling = spell_digits(&b, i);
            at += write_number(&spelling, values[from + i], at);
            *at++ = ',';
        }
    }
    return (size_t)(at - text);
}
