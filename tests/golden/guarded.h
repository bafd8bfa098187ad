/* guarded.h - memory between two guard zones, to see writes beside it without a sanitizer. */
#ifndef TESTS_GOLDEN_GUARDED_H
#define TESTS_GOLDEN_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

struct guarded {
    unsigned char *base, *data;
    size_t n_bytes;
};

/* Print a line and end the program with status 2: the test itself cannot go on. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* n_bytes at an address that is `offset` past a multiple of 64. All bits set: as floats NaN, so
 * that what is read before it was written shows. */
struct guarded guarded_create(size_t n_bytes, size_t offset);

bool guarded_intact(const struct guarded *guarded);

void guarded_free(struct guarded *guarded); /* twice is fine */

#endif
