/* utf8.h - what of a byte string is text. */
#ifndef AD_BASE_UTF8_H
#define AD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length, 1 to 4, of the valid UTF-8 sequence at text, of which n bytes may be read; 0 when
 * there is none. Overlong forms, surrogates and values above U+10FFFF are not valid. */
size_t ad_utf8_length(const char *text, size_t n);

/* The value of the four hexadecimal digits at text, as they stand in a JSON escape; -1: there are none
 * before end. */
int ad_utf8_hex4(const char *text, const char *end);

/* True when the valid sequence of that length at text is a control character (C0, DEL or C1). */
bool ad_utf8_is_control(const char *text, size_t length);

#endif
