/* numbers.h - JSON numbers: text -> float, double or integer, correctly rounded.
 *
 * A token is given as at <= end; *end must be readable and not continue a number (a NUL or the
 * delimiter behind a value will do). c_locale is a locale whose decimal point is '.'. */
#ifndef AD_CODEC_NUMBERS_H
#define AD_CODEC_NUMBERS_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

enum ad_number {
    AD_NUMBER_OK,
    AD_NUMBER_MALFORMED, /* not a number under JSON's grammar */
    AD_NUMBER_RANGE,     /* beyond the type */
    AD_NUMBER_FRACTION   /* a point or an exponent where an integer is wanted */
};

/* The end of the number that starts at `at` and is followed by white space, ',', ']', '}' or end;
 * NULL when there is none. *is_integer (may be NULL): it has neither point nor exponent. */
const char *ad_number_end(const char *at, const char *end, bool *is_integer);

/* Read the number at *at and move *at behind it; on failure *at stays. Underflow gives the nearest
 * subnormal or zero. ad_number_f32_of_f64 rounds to double first, as an FP64 tensor asks. */
enum ad_number ad_number_f32(const char **at, const char *end, locale_t c_locale,
                             float *value);
enum ad_number ad_number_f32_of_f64(const char **at, const char *end, locale_t c_locale,
                                    float *value);
enum ad_number ad_number_f64(const char **at, const char *end, locale_t c_locale,
                             double *value);
enum ad_number ad_number_int(const char **at, const char *end, int64_t least,
                             int64_t greatest, int64_t *value);

#endif
