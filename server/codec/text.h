/* text.h - pieces of error messages. */
#ifndef AD_CODEC_TEXT_H
#define AD_CODEC_TEXT_H

#include "attention.h"

#include <stddef.h>

/* A short text that is built piece by piece and cut where it would overflow. Starts as {0}. */
struct ad_text {
    size_t n;
    char bytes[512]; /* NUL-terminated */
};

void ad_text_add(struct ad_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "[2,3]" */
void ad_text_add_shape(struct ad_text *text, const size_t *shape, size_t rank);

/* "query, key, value" */
void ad_text_add_ports(struct ad_text *text, const struct attn_port *ports, size_t n);

/* "a list", "nothing", ...: the kind of the JSON value that begins at `at`, if it is one. Static. */
const char *ad_text_kind(const char *at, const char *end);

#endif
