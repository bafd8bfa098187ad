/* runs.h - numbers by the million: the innermost lists of an input's `data`.
 *
 * What is read, and what is refused, is what numbers.h reads and refuses, one by one. */
#ifndef AD_CODEC_RUNS_H
#define AD_CODEC_RUNS_H

#include <locale.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of a list with ',' between them, and then those of the lists behind it: "1,2],[3,4". */
struct ad_run {
    const char *at;          /* the first byte of a number or of white space before it */
    const char *begin, *end; /* of the whole text: nothing beyond is touched */
    locale_t c_locale;       /* as in numbers.h */
    size_t n_left;           /* numbers that still belong to the list at hand */
    size_t n_each;           /* in each list behind it */
    size_t n_lists;          /* lists behind it that may be read */
};

/* Read as many as come fast, and return how many. run->at is then behind the last one, and n_left and
 * n_lists count what remains; nothing has moved when there was none. Why it ended is for the caller to
 * find out: the list may be complete, the end of the text near, or the next number wrong. An FP64
 * tensor's numbers are rounded to double first. */
size_t ad_run_f32(struct ad_run *run, float *values);
size_t ad_run_f32_of_f64(struct ad_run *run, float *values);
size_t ad_run_i32(struct ad_run *run, int32_t *values);
size_t ad_run_i64(struct ad_run *run, int64_t *values);

#endif
