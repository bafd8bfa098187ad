/* floats.h - floats as JSON numbers. */
#ifndef AD_CODEC_FLOATS_H
#define AD_CODEC_FLOATS_H

#include <stddef.h>

/* The most characters that ad_float_write writes. */
#define AD_FLOAT_MAX_TEXT 16

/* Write the shortest decimal that reads back as value, which is finite, and return its length. No
 * NUL is written. */
size_t ad_float_write(float value, char text[AD_FLOAT_MAX_TEXT]);

#endif
