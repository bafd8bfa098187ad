/* numbers.c - JSON numbers, one at a time: text -> float, double or integer, correctly rounded.
 *
 * One pass checks the grammar and gathers the digits. What those cannot settle goes to the C library,
 * which rounds correctly from any number of digits. It would also take hexadecimal, "inf" and "nan",
 * so it only ever sees tokens that passed the grammar and whose end is known. Any thread; keeps no
 * state. */
#include "codec/numbers.h"
#include "codec/decimal.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define MOST_DIGITS 19 /* that surely fit in 64 bits */

/* Far beyond any exponent that makes a difference, and beyond what the length of a text can make up
 * for; a digit more does not overflow. */
#define ENDLESS ((int64_t)1 << 58)

/* A number being read. */
struct token {
    uint64_t digits;
    size_t n_digits;  /* significant ones, up to MOST_DIGITS */
    int64_t exponent; /* of digits */
    bool negative, cut, is_integer;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_delimiter(char c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
           c == '\t';
}

static const char *read_digits(struct token *token, const char *at, const char *end,
                               bool is_fraction)
{
    for (; at < end && is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (token->n_digits < MOST_DIGITS) {
            token->digits = token->digits * 10 + digit;
            token->n_digits += token->digits > 0;
            token->exponent -= is_fraction;
        } else {
            token->cut = token->cut || digit > 0;
            token->exponent += !is_fraction;
        }
    }
    return at;
}

/* Behind the 'e'; NULL when no digit follows. */
static const char *read_exponent(struct token *token, const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    const char *first = at;
    int64_t exponent = 0;
    for (; at < end && is_digit(*at); at++) {
        exponent = exponent * 10 + (*at - '0');
        exponent = exponent < ENDLESS ? exponent : ENDLESS;
    }
    token->exponent += negative ? -exponent : exponent;
    return at == first ? NULL : at;
}

/* The token's end, as ad_number_end finds it. */
static const char *read_token(struct token *token, const char *at, const char *end)
{
    *token = (struct token){.negative = at < end && *at == '-'};
    at += token->negative;
    const char *first = at;
    at = read_digits(token, at, end, false);
    if (at == first || (*first == '0' && at - first > 1)) {
        return NULL;
    }
    token->is_integer = true;
    if (at < end && *at == '.') {
        token->is_integer = false;
        first = at + 1;
        at = read_digits(token, first, end, true);
        if (at == first) {
            return NULL;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        token->is_integer = false;
        at = read_exponent(token, at + 1, end);
    }
    return at && at < end && !is_delimiter(*at) ? NULL : at;
}

static struct ad_decimal decimal_of(const struct token *token)
{
    const int64_t far = 100000;
    int64_t exponent = token->exponent < -far  ? -far
                       : token->exponent > far ? far
                                               : token->exponent;
    return (struct ad_decimal){token->digits, (int)exponent, token->negative, token->cut};
}

const char *ad_number_end(const char *at, const char *end, bool *is_integer)
{
    struct token token;
    const char *stop = read_token(&token, at, end);
    if (stop && is_integer) {
        *is_integer = token.is_integer;
    }
    return stop;
}

enum ad_number ad_number_f32(const char **at, const char *end, locale_t c_locale,
                             float *value)
{
    struct token token;
    const char *stop = read_token(&token, *at, end);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    struct ad_decimal decimal = decimal_of(&token);
    float number;
    if (!ad_decimal_f32(&decimal, &number)) {
        char *read;
        number = strtof_l(*at, &read, c_locale);
        assert(read == stop);
    }
    if (!isfinite(number)) {
        return AD_NUMBER_RANGE;
    }
    *value = number;
    *at = stop;
    return AD_NUMBER_OK;
}

enum ad_number ad_number_f64(const char **at, const char *end, locale_t c_locale,
                             double *value)
{
    struct token token;
    const char *stop = read_token(&token, *at, end);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    struct ad_decimal decimal = decimal_of(&token);
    double number;
    if (!ad_decimal_f64(&decimal, &number)) {
        char *read;
        number = strtod_l(*at, &read, c_locale);
        assert(read == stop);
    }
    if (!isfinite(number)) {
        return AD_NUMBER_RANGE;
    }
    *value = number;
    *at = stop;
    return AD_NUMBER_OK;
}

enum ad_number ad_number_f32_of_f64(const char **at, const char *end, locale_t c_locale,
                                    float *value)
{
    const char *start = *at;
    double number;
    enum ad_number result = ad_number_f64(at, end, c_locale, &number);
    if (result != AD_NUMBER_OK) {
        return result;
    }
    /* The cast itself would be undefined for a value beyond float's range once rounded. */
    const double least_beyond = 0x1.ffffffp127;
    if (fabs(number) >= least_beyond) {
        *at = start;
        return AD_NUMBER_RANGE;
    }
    *value = (float)number;
    return AD_NUMBER_OK;
}

enum ad_number ad_number_int(const char **at, const char *end, int64_t least,
                             int64_t greatest, int64_t *value)
{
    struct token token;
    const char *stop = read_token(&token, *at, end);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    if (!token.is_integer) {
        return AD_NUMBER_FRACTION;
    }
    /* 19 digits fit in 64 bits, if not in an int64_t; any more have moved the exponent */
    uint64_t most = (uint64_t)INT64_MAX + token.negative;
    if (token.exponent > 0 || token.digits > most) {
        return AD_NUMBER_RANGE;
    }
    int64_t number = (int64_t)(token.negative ? 0 - token.digits : token.digits);
    if (number < least || number > greatest) {
        return AD_NUMBER_RANGE;
    }
    *value = number;
    *at = stop;
    return AD_NUMBER_OK;
}
