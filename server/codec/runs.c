/* runs.c - numbers by the million.
 *
 * Where numbers end is found first, for 64 bytes at once, so that reading one need not wait for the
 * one before it. Digits are then taken 16 at a time, aligned at their end, whatever their number: a
 * branch that depends on it would be guessed wrong too often. Numbers that are not plain (an exponent,
 * very many digits, blanks around them, a float too close to the middle between two) are left to
 * numbers.h. Any thread; keeps no state. */
#include "codec/runs.h"
#include "codec/blocks.h"
#include "codec/decimal.h"
#include "codec/numbers.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#define REACH 16 /* bytes behind a number's end that may be looked at */

#define EACH_BYTE ((uint64_t)0x0101010101010101)

typedef uint16_t words8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));

enum kind { KIND_F32, KIND_F32_OF_F64, KIND_I32, KIND_I64 };

static const uint64_t tens[17] = {
    1,
    10,
    100,
    1000,
    10000,
    100000,
    1000000,
    10000000,
    100000000,
    1000000000,
    10000000000,
    100000000000,
    1000000000000,
    10000000000000,
    100000000000000,
    1000000000000000,
    10000000000000000,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- digits ---------------------------------------------------------------------------- */

/* How many of the 8 bytes at `at` are digits, up to the first that is none. */
static inline size_t count_digits(const char *at)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    bytes ^= EACH_BYTE * '0';
    /* A digit is now 0 to 9. Of the others, only the first may be relied on: adding may carry out of
     * it into the next. */
    uint64_t others = (bytes | (bytes + EACH_BYTE * 0x76)) & EACH_BYTE * 0x80;
    return others ? (size_t)__builtin_ctzll(others) / 8 : 8;
}

/* The value of the n <= 16 digits that end at `stop`, or false when one of them is none. The 16 bytes
 * before stop are readable. */
static inline bool join_digits(const char *stop, size_t n, uint64_t *value)
{
    static const uint8_t masks[32] = {
        [16] = 255, 255, 255, 255, 255, 255, 255, 255,
        255,        255, 255, 255, 255, 255, 255, 255,
    };
    ad_bytes16 mask, digits = ad_bytes_load(stop - sizeof digits);
    memcpy(&mask, masks + n, sizeof mask);
    digits = (digits - '0') & mask;
    ad_bytes16 wrong = (ad_bytes16)(digits > 9);
    words8 by2 = (words8)digits;
    by2 = (by2 & 255) * 10 + (by2 >> 8);
    by2 *= (words8){100, 1, 100, 1, 100, 1, 100, 1};
    words4 by4 = (words4)by2;
    by4 = (by4 & 0xffff) + (by4 >> 16);
    uint64_t halves[2], wrongs[2];
    memcpy(wrongs, &wrong, sizeof wrongs);
    memcpy(halves, &by4, sizeof halves);
    for (size_t i = 0; i < 2; i++) {
        halves[i] = halves[i] * (((uint64_t)10000 << 32) + 1) >> 32;
    }
    *value = halves[0] * 100000000 + halves[1];
    return (wrongs[0] | wrongs[1]) == 0;
}

/* The digits of a fraction, [at, stop), behind the `digits` of its integer part, with which they are
 * joined; below 10^18. */
static inline bool join_fraction(const char *at, const char *stop, uint64_t *digits)
{
    size_t n = (size_t)(stop - at);
    uint64_t fraction;
    if (n > 16) {
        size_t n_more = n - 16;
        uint64_t more;
        if (n_more > 8 || !join_digits(at + n_more, n_more, &more)) {
            return false;
        }
        *digits = *digits * tens[n_more] + more;
        if (*digits > 99) {
            return false;
        }
        n = 16;
    }
    if (!join_digits(stop, n, &fraction)) {
        return false;
    }
    *digits = *digits * tens[n] + fraction;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------- */

/* A plain decimal without an exponent of its own: *digits * 10^*exponent, and its sign. Mostly one digit
 * stands before the point. */
static inline bool read_decimal(const char *at, const char *stop, uint64_t *digits,
                                ptrdiff_t *exponent, uint32_t *sign)
{
    *sign = *at == '-';
    at += *sign;
    *digits = (uint64_t)at[0] - '0';
    const char *point = at + 1;
    if (at[1] != '.') {
        size_t n = count_digits(at);
        point = at + n;
        if (n == 0 || n == 8 || (n > 1 && *digits == 0) || stop - at > 19 ||
            (point < stop && *point != '.') || !join_digits(point, n, digits)) {
            return false;
        }
    } else if (*digits > 9) {
        return false;
    }
    *exponent = 0;
    if (point >= stop) {
        return point == stop;
    }
    *exponent = point + 1 - stop;
    return *exponent < 0 && join_fraction(point + 1, stop, digits);
}

static inline void store_float(float number, uint32_t sign, float *value)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits |= sign << 31;
    memcpy(value, &bits, sizeof bits);
}

/* The token [at, stop), when it is plain. */
static inline bool read_float(const char *at, const char *stop, float *value)
{
    uint64_t digits;
    ptrdiff_t exponent;
    uint32_t sign;
    float number;
    if (!read_decimal(at, stop, &digits, &exponent, &sign) ||
        !ad_decimal_near_f32(digits, ad_tens[exponent - AD_TEN_LEAST], &number)) {
        return false;
    }
    store_float(number, sign, value);
    return true;
}

/* 1.5e-7: an exponent of one or two digits, of a normal float. */
static bool read_scientific(const char *at, const char *stop, float *value)
{
    if (stop - at < 3 || !is_digit(stop[-1])) {
        return false;
    }
    const char *first = stop - 1 - is_digit(stop[-2]);
    const char *mark = first - 1;
    mark -= *mark == '-' || *mark == '+';
    if (mark <= at || (*mark != 'e' && *mark != 'E')) {
        return false;
    }
    int power = stop[-1] - '0' + (first < stop - 1 ? 10 * (*first - '0') : 0);
    uint64_t digits;
    ptrdiff_t exponent;
    uint32_t sign;
    float number;
    if (!read_decimal(at, mark, &digits, &exponent, &sign)) {
        return false;
    }
    exponent += first[-1] == '-' ? -power : power;
    if (exponent < AD_TEN_LEAST || exponent > AD_TEN_GREATEST ||
        !ad_decimal_near_f32(digits, ad_tens[exponent - AD_TEN_LEAST], &number) ||
        !(number > FLT_MIN && number <= FLT_MAX)) {
        return false;
    }
    store_float(number, sign, value);
    return true;
}

static inline bool read_integer(const char *at, const char *stop, int64_t least,
                                int64_t greatest, int64_t *value)
{
    bool negative = *at == '-';
    at += negative;
    size_t n = (size_t)(stop - at);
    uint64_t digits;
    if (n == 0 || n > 16 || (n > 1 && *at == '0') || !join_digits(stop, n, &digits)) {
        return false;
    }
    *value = negative ? -(int64_t)digits : (int64_t)digits;
    return *value >= least && *value <= greatest;
}

static inline bool read_plain(enum kind kind, const char *at, const char *stop,
                              void *values, size_t i)
{
    int64_t integer;
    switch (kind) {
    case KIND_F32:
    case KIND_F32_OF_F64:
        return read_float(at, stop, &((float *)values)[i]);
    case KIND_I32:
        if (!read_integer(at, stop, INT32_MIN, INT32_MAX, &integer)) {
            return false;
        }
        ((int32_t *)values)[i] = (int32_t)integer;
        return true;
    case KIND_I64:
        return read_integer(at, stop, INT64_MIN, INT64_MAX, &((int64_t *)values)[i]);
    }
    return false;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    return at;
}

/* Any number in [at, stop), with white space around it; its end, or NULL. */
static __attribute__((noinline)) const char *read_any(const struct ad_run *run,
                                                      enum kind kind, const char *at,
                                                      const char *stop, void *values,
                                                      size_t i)
{
    enum ad_number result = AD_NUMBER_MALFORMED;
    int64_t integer;
    at = skip_space(at, stop);
    switch (kind) {
    case KIND_F32:
        result = ad_number_f32(&at, stop, run->c_locale, &((float *)values)[i]);
        break;
    case KIND_F32_OF_F64:
        result = ad_number_f32_of_f64(&at, stop, run->c_locale, &((float *)values)[i]);
        break;
    case KIND_I32:
        result = ad_number_int(&at, stop, INT32_MIN, INT32_MAX, &integer);
        if (result == AD_NUMBER_OK) {
            ((int32_t *)values)[i] = (int32_t)integer;
        }
        break;
    case KIND_I64:
        result = ad_number_int(&at, stop, INT64_MIN, INT64_MAX, &((int64_t *)values)[i]);
        break;
    }
    return result == AD_NUMBER_OK && skip_space(at, stop) == stop ? at : NULL;
}

/* ---- lists ----------------------------------------------------------------------------- */

/* Bit i is set when at[i] is ',' or ']'. */
static inline uint64_t find_ends(const char *at)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < AD_BLOCK; i += sizeof(ad_bytes16)) {
        ad_bytes16 bytes = ad_bytes_load(at + i);
        found |= ad_bytes_bits((ad_bytes16)((bytes == ',') | (bytes == ']'))) << i;
    }
    return found;
}

/* At a ']': behind the '[' of a list that follows at once, or NULL. */
static inline const char *cross(const char *at)
{
    at++;
    if (*at != ',') {
        return NULL;
    }
    at++;
    at += *at == ' ';
    return *at == '[' ? at + 1 : NULL;
}

/* The token [at, stop); where it ends but for white space, or NULL. */
static inline const char *read_token(const struct ad_run *run, enum kind kind,
                                     const char *at, const char *stop, void *values,
                                     size_t i)
{
    if (at - run->begin >= (ptrdiff_t)sizeof(ad_bytes16)) {
        if (read_plain(kind, at, stop, values, i)) {
            return stop;
        }
        if ((kind == KIND_F32 || kind == KIND_F32_OF_F64) &&
            read_scientific(at, stop, &((float *)values)[i])) {
            return stop;
        }
    }
    return read_any(run, kind, at, stop, values, i);
}

/* Read the numbers whose ends are in this block, and change *run as they are read. *at is the next
 * number; NULL when that was the last. Returns how many. */
static inline size_t read_block(struct ad_run *run, enum kind kind, const char *block,
                                const char **at, void *values)
{
    size_t n = 0;
    for (uint64_t ends = find_ends(block); ends; ends &= ends - 1) {
        const char *stop = block + __builtin_ctzll(ends);
        if (stop < *at) { /* the comma between two lists */
            continue;
        }
        const char *behind =
            run->n_left > 0 ? read_token(run, kind, *at, stop, values, n) : NULL;
        if (!behind) {
            *at = NULL;
            return n;
        }
        n++;
        run->at = behind;
        run->n_left--;
        *at = stop + 1;
        if (*stop == ',') {
            *at += **at == ' ';
            continue;
        }
        *at = run->n_left == 0 && run->n_lists > 0 ? cross(stop) : NULL;
        if (!*at) {
            return n;
        }
        run->n_lists--;
        run->n_left = run->n_each;
    }
    return n;
}

static inline size_t read_run(struct ad_run *run, enum kind kind, size_t size,
                              void *values)
{
    size_t n = 0, n_lists = run->n_lists;
    const char *at = run->at;
    for (const char *block = at; at && run->end - block >= AD_BLOCK + REACH;
         block += AD_BLOCK) {
        n += read_block(run, kind, block, &at, (char *)values + n * size);
    }
    if (run->n_lists < n_lists && run->n_left == run->n_each) {
        /* nothing was read of the list that was begun last */
        run->n_lists++;
        run->n_left = 0;
    }
    return n;
}

size_t ad_run_f32(struct ad_run *run, float *values)
{
    return read_run(run, KIND_F32, sizeof *values, values);
}

size_t ad_run_f32_of_f64(struct ad_run *run, float *values)
{
    return read_run(run, KIND_F32_OF_F64, sizeof *values, values);
}

size_t ad_run_i32(struct ad_run *run, int32_t *values)
{
    return read_run(run, KIND_I32, sizeof *values, values);
}

size_t ad_run_i64(struct ad_run *run, int64_t *values)
{
    return read_run(run, KIND_I64, sizeof *values, values);
}
