/* base64.h - bytes as RFC 4648 spells them. */
#ifndef AD_HTTP_BASE64_H
#define AD_HTTP_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Decode n characters of the standard alphabet, padded, in place; *n_bytes receives what they come
 * to. False when they are anything else: text is then unspecified. */
bool ad_base64_decode(char *text, size_t n, size_t *n_bytes);

#endif
