/* utf8.h - what of a byte string is text. */
#ifndef AD_BASE_UTF8_H
#define AD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length, 1 to 4, of the valid UTF-8 sequence at text, of which n bytes may be read; 0 when
 * there is none. Overlong forms, surrogates and values above U+10FFFF are not valid. */
size_t ad_utf8_length(const char *text, size_t n);

/* True when the valid sequence of that length at text is a control character (C0, DEL or C1). */
bool ad_utf8_is_control(const char *text, size_t length);

#endif
