/* utf8.h - what of a byte string is text, and may be shown. */
#ifndef AD_BASE_UTF8_H
#define AD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length, 1 to 4, of the valid UTF-8 sequence at text, of which n bytes may be read; 0 when
 * there is none. Overlong forms, surrogates and values above U+10FFFF are not valid. */
size_t ad_utf8_length(const char *text, size_t n);

/* The code point of the valid sequence of that length at text. */
uint32_t ad_utf8_code(const char *text, size_t length);

/* The value of the four hexadecimal digits at text, as they stand in a JSON escape; -1: there are none
 * before end. */
int ad_utf8_hex4(const char *text, const char *end);

/* True when the valid sequence of that length at text is a control character: C0, DEL, C1, and what
 * else changes how the text around it is shown, the separators of lines and paragraphs (U+2028, U+2029)
 * and those that set its direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). With
 * them a name could end a line, or be read as another one. */
bool ad_utf8_is_control(const char *text, size_t length);

/* Put '?' in the place of each byte of a control character, or of none that is UTF-8. */
void ad_utf8_make_printable(char *text);

#endif
