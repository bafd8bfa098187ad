/* status.h - how the library's own code reports a failure. */
#ifndef ATTNI_STATUS_H
#define ATTNI_STATUS_H

#include "attention.h"

/* Record a failure unless one is recorded already, and return status either way. field is the name
 * of what was wrong; the message stands on its own. Both are cut to fit; bytes that are neither
 * printable ASCII nor part of valid UTF-8 become '?', since names come from files. error may be
 * NULL. */
enum attn_status attni_fail(struct attn_error *error, enum attn_status status,
                            const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for memory, whose message is always alike. */
enum attn_status attni_fail_memory(struct attn_error *error);

#endif
