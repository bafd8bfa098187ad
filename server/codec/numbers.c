/* numbers.c - JSON numbers: text -> float, double or integer, correctly rounded.
 *
 * The grammar is checked here; the C library converts, since it rounds once and correctly from any
 * number of digits. It would also take hexadecimal, "inf" and "nan", so it only ever sees tokens that
 * passed the grammar and whose end is known. Runs on a worker; keeps no state. */
#include "codec/numbers.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static const char *digits_end(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

static bool is_delimiter(char c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
           c == '\t';
}

/* ".5" or "e-7" behind the integer part: its end, or NULL when no digit follows the mark. */
static const char *part_end(const char *at, const char *end, bool is_exponent)
{
    at++;
    if (is_exponent && at < end && (*at == '+' || *at == '-')) {
        at++;
    }
    const char *stop = digits_end(at, end);
    return stop == at ? NULL : stop;
}

const char *ad_number_end(const char *at, const char *end, bool *is_integer)
{
    if (at < end && *at == '-') {
        at++;
    }
    const char *integer = at;
    at = digits_end(at, end);
    if (at == integer || (*integer == '0' && at - integer > 1)) {
        return NULL;
    }
    const char *integer_end = at;
    if (at < end && *at == '.') {
        at = part_end(at, end, false);
    }
    if (at && at < end && (*at == 'e' || *at == 'E')) {
        at = part_end(at, end, true);
    }
    if (!at || (at < end && !is_delimiter(*at))) {
        return NULL;
    }
    if (is_integer) {
        *is_integer = at == integer_end;
    }
    return at;
}

enum ad_number ad_number_f32(const char **at, const char *end, locale_t c_locale,
                             float *value)
{
    const char *stop = ad_number_end(*at, end, NULL);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    char *read;
    float number = strtof_l(*at, &read, c_locale);
    assert(read == stop);
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
    const char *stop = ad_number_end(*at, end, NULL);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    char *read;
    double number = strtod_l(*at, &read, c_locale);
    assert(read == stop);
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
    bool is_integer = false;
    const char *stop = ad_number_end(*at, end, &is_integer);
    if (!stop) {
        return AD_NUMBER_MALFORMED;
    }
    if (!is_integer) {
        return AD_NUMBER_FRACTION;
    }
    char *read;
    errno = 0;
    long long number = strtoll(*at, &read, 10);
    assert(read == stop);
    if (errno == ERANGE || number < least || number > greatest) {
        return AD_NUMBER_RANGE;
    }
    *value = number;
    *at = stop;
    return AD_NUMBER_OK;
}
