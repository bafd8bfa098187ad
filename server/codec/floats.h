/* floats.h - floats as JSON numbers. */
#ifndef AD_CODEC_FLOATS_H
#define AD_CODEC_FLOATS_H

#include <stddef.h>

#define AD_FLOAT_MAX_TEXT 15 /* characters of a float at the most: -1.17549435e-38 */

/* Bytes that writing n floats may touch: more than the text takes. */
#define AD_FLOATS_ROOM(n) ((n) * (AD_FLOAT_MAX_TEXT + 1) + 16)

/* Write n floats, which are finite, each as the shortest decimal that reads back as it, and of those the
 * closest to it; a ',' behind each. Returns the length; no NUL is written. */
size_t ad_floats_write(const float *values, size_t n, char *text);

#endif
