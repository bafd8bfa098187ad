/* cursor.h - places in scratch, one after the other, each on a cache line of its own. */
#ifndef ATTNI_CURSOR_H
#define ATTNI_CURSOR_H

#include "tensor.h"

struct attni_cursor {
    size_t bytes; /* taken so far */
    bool overflow;
};

/* Take n_bytes at the next multiple of 64. */
static inline size_t attni_take_bytes(struct attni_cursor *cursor, size_t n_bytes)
{
    size_t at = cursor->bytes, padded;
    cursor->overflow = cursor->overflow || !attni_add(n_bytes, 63, &padded) ||
                       !attni_add(at, padded / 64 * 64, &cursor->bytes);
    return at;
}

static inline size_t attni_take_floats(struct attni_cursor *cursor, size_t a, size_t b,
                                       size_t c)
{
    size_t n;
    const size_t shape[] = {a, b, c, sizeof(float)};
    if (!attni_count(shape, 4, &n)) {
        cursor->overflow = true;
        return 0;
    }
    return attni_take_bytes(cursor, n);
}

#endif
