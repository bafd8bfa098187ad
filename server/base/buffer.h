/* buffer.h - bytes that grow: a body that arrives in pieces, a reply that is written.
 *
 * Owned by whoever holds the struct; not shared between threads. */
#ifndef AD_BASE_BUFFER_H
#define AD_BASE_BUFFER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct ad_buffer {
    char
        *data; /* data[size] is always '\0' once anything was reserved; NULL when empty */
    size_t size;
    size_t capacity; /* bytes from data on, with the NUL */
    size_t lead;     /* bytes allocated before data */
};

void ad_buffer_init(struct ad_buffer *buffer);
void ad_buffer_reset(struct ad_buffer *buffer); /* frees */

/* Let an empty buffer begin `lead` bytes behind an aligned address, however it grows, with room for n.
 * False when out of memory. */
bool ad_buffer_start(struct ad_buffer *buffer, size_t lead, size_t n) AD_MUST_CHECK;

/* Make room for n more bytes (growth is geometric); false when out of memory, buffer unchanged. */
bool ad_buffer_reserve(struct ad_buffer *buffer, size_t n) AD_MUST_CHECK;

/* Append; false when out of memory, buffer unchanged. */
bool ad_buffer_append(struct ad_buffer *buffer, const void *bytes,
                      size_t n) AD_MUST_CHECK;
bool ad_buffer_printf(struct ad_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3))) AD_MUST_CHECK;

#endif
