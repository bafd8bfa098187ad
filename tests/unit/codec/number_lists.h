/* number_lists.h - lists of numbers read with and without runs, and numbers beside the C library's. */
#ifndef TESTS_UNIT_CODEC_NUMBER_LISTS_H
#define TESTS_UNIT_CODEC_NUMBER_LISTS_H

#include "codec/numbers.h"
#include "codec/runs.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- one number ------------------------------------------------------------------------ */

static inline const char *numbers_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* JSON's grammar, spelt out once more: the end of the number at `at`, or NULL. */
static inline const char *numbers_grammar(const char *at, const char *end)
{
    at += at < end && *at == '-';
    const char *stop =
        at < end && *at == '0' ? at + 1 : numbers_digits(at, end); /* no leading zero */
    if (stop == at) {
        return NULL;
    }
    at = stop;
    if (at < end && *at == '.') {
        stop = numbers_digits(at + 1, end);
        if (stop == at + 1) {
            return NULL;
        }
        at = stop;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        stop = numbers_digits(at, end);
        if (stop == at) {
            return NULL;
        }
        at = stop;
    }
    return at == end || (*at && strchr(",]} \n\r\t", *at)) ? at : NULL;
}

static inline bool numbers_same_f32(enum ad_number result, float value, float expected)
{
    return isfinite(expected)
               ? result == AD_NUMBER_OK && memcmp(&value, &expected, sizeof value) == 0
               : result == AD_NUMBER_RANGE;
}

/* Read [at, end) by every reader of one number and by the C library; NULL, or what differs. *end is
 * readable and goes no number on. */
static inline const char *numbers_compare(const char *at, const char *end,
                                          locale_t c_locale)
{
    const char *stop = numbers_grammar(at, end), *moved[3] = {at, at, at};
    float single = 0, narrowed = 0;
    double wide = 0;
    if (ad_number_end(at, end, NULL) != stop) {
        return "the end";
    }
    enum ad_number results[3] = {
        ad_number_f32(&moved[0], end, c_locale, &single),
        ad_number_f64(&moved[1], end, c_locale, &wide),
        ad_number_f32_of_f64(&moved[2], end, c_locale, &narrowed)};
    for (size_t i = 0; i < 3; i++) {
        if (moved[i] != (results[i] == AD_NUMBER_OK ? stop : at) ||
            (results[i] == AD_NUMBER_MALFORMED) != !stop) {
            return "what is taken";
        }
    }
    if (!stop) {
        return NULL;
    }
    double expected = strtod_l(at, NULL, c_locale);
    if (isfinite(expected)
            ? results[1] != AD_NUMBER_OK || memcmp(&wide, &expected, sizeof wide) != 0
            : results[1] != AD_NUMBER_RANGE) {
        return "the double";
    }
    const double least_beyond = 0x1.ffffffp127;
    float cast = fabs(expected) < least_beyond ? (float)expected : HUGE_VALF;
    return !numbers_same_f32(results[0], single, strtof_l(at, NULL, c_locale))
               ? "the float"
           : !numbers_same_f32(results[2], narrowed, cast) ? "the float of a double"
                                                           : NULL;
}

/* ---- lists ----------------------------------------------------------------------------- */

enum numbers_kind { NUMBERS_F32, NUMBERS_F32_OF_F64, NUMBERS_I32, NUMBERS_I64 };

/* Lists of n_each numbers: "1,2],[3,4]". What follows goes no number on. */
struct numbers_text {
    const char *begin, *at, *end;
    locale_t c_locale;
    size_t n_each, n_lists;
};

static inline size_t numbers_run(enum numbers_kind kind, struct ad_run *run, void *values,
                                 size_t n)
{
    switch (kind) {
    case NUMBERS_F32:
        return ad_run_f32(run, (float *)values + n);
    case NUMBERS_F32_OF_F64:
        return ad_run_f32_of_f64(run, (float *)values + n);
    case NUMBERS_I32:
        return ad_run_i32(run, (int32_t *)values + n);
    case NUMBERS_I64:
        return ad_run_i64(run, (int64_t *)values + n);
    }
    return 0;
}

static inline bool numbers_one(enum numbers_kind kind, const char **at,
                               const struct numbers_text *text, void *values, size_t n)
{
    int64_t integer = 0;
    enum ad_number result = AD_NUMBER_MALFORMED;
    switch (kind) {
    case NUMBERS_F32:
        result = ad_number_f32(at, text->end, text->c_locale, (float *)values + n);
        break;
    case NUMBERS_F32_OF_F64:
        result = ad_number_f32_of_f64(at, text->end, text->c_locale, (float *)values + n);
        break;
    case NUMBERS_I32:
        result = ad_number_int(at, text->end, INT32_MIN, INT32_MAX, &integer);
        ((int32_t *)values)[n] = (int32_t)integer;
        break;
    case NUMBERS_I64:
        result = ad_number_int(at, text->end, INT64_MIN, INT64_MAX, &integer);
        ((int64_t *)values)[n] = integer;
        break;
    }
    return result == AD_NUMBER_OK;
}

static inline const char *numbers_space(const char *at, const char *end)
{
    while (at < end && *at && strchr(" \n\r\t", *at)) {
        at++;
    }
    return at;
}

static inline const char *numbers_expect(const char *at, const char *end, char c)
{
    at = numbers_space(at, end);
    return at < end && *at == c ? numbers_space(at + 1, end) : NULL;
}

/* Read as many as there are, with runs where they will or one by one; where that ended in *stop. There
 * is room for all. */
static inline size_t numbers_read(enum numbers_kind kind, bool with_runs,
                                  const struct numbers_text *text, void *values,
                                  const char **stop)
{
    struct ad_run run = {text->at,     text->begin,  text->end,        text->c_locale,
                         text->n_each, text->n_each, text->n_lists - 1};
    size_t n = 0;
    *stop = text->at;
    while (run.n_left > 0) {
        size_t n_run = with_runs ? numbers_run(kind, &run, values, n) : 0;
        n += n_run;
        if (n_run == 0) {
            run.at = numbers_space(run.at, run.end);
            if (!numbers_one(kind, &run.at, text, values, n)) {
                return n;
            }
            n++;
            run.n_left--;
        }
        *stop = numbers_space(run.at, run.end);
        const char *next = numbers_expect(run.at, run.end, run.n_left > 0 ? ',' : ']');
        if (next && run.n_left == 0 && run.n_lists > 0) {
            next = numbers_expect(next, run.end, ',');
            next = next ? numbers_expect(next, run.end, '[') : NULL;
            run.n_left = text->n_each;
            run.n_lists--;
        }
        if (!next) {
            return n;
        }
        run.at = next;
    }
    return n;
}

#endif
