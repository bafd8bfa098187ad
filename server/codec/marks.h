/* marks.h - past lists and objects in JSON, many bytes at once. */
#ifndef AD_CODEC_MARKS_H
#define AD_CODEC_MARKS_H

#include <stddef.h>

/* From inside of *depth lists and objects (0: `at` is at the bracket or brace that opens one): the place
 * of the first quote, where it comes before the bracket that closes the outermost, else the one
 * behind that bracket, *depth being 0 then; end, when neither comes. Brackets are only counted, whatever
 * their kind. */
const char *ad_marks_skip(const char *at, const char *end, size_t *depth);

#endif
