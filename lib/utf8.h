/* utf8.h - which bytes are a character. */
#ifndef ATTNI_UTF8_H
#define ATTNI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length, 1 to 4, of the valid UTF-8 sequence that begins the n bytes at s; 0 when there is
 * none. Overlong forms, surrogates and codes past U+10FFFF are not valid. */
size_t attni_utf8_length(const unsigned char *s, size_t n);

/* Is the valid sequence of that length a control character: C0, DEL, C1, or one that separates lines or
 * sets the direction of the text around it? With them a name could end a line, or be read as another. */
bool attni_utf8_is_control(const unsigned char *s, size_t length);

#endif
