/* utf8.h - which bytes are a character. */
#ifndef ATTNI_UTF8_H
#define ATTNI_UTF8_H

#include <stddef.h>

/* The length, 1 to 4, of the valid UTF-8 sequence that begins the n bytes at s; 0 when there is
 * none. Overlong forms, surrogates and codes past U+10FFFF are not valid. */
size_t attni_utf8_length(const unsigned char *s, size_t n);

#endif
