/* guarded.c - memory between two guard zones. Owned by whoever created it; one thread. */
#include "golden/guarded.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 256
#define GUARD_BYTE 0xA5

_Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

struct guarded guarded_create(size_t n_bytes, size_t offset)
{
    struct guarded guarded = {.n_bytes = n_bytes};
    guarded.base = malloc(n_bytes + 2 * GUARD + 128);
    if (!guarded.base) {
        die("golden: out of memory");
    }
    size_t past = (size_t)((uintptr_t)guarded.base % 64);
    guarded.data = guarded.base + (64 - past) % 64 + GUARD + offset;
    memset(guarded.data - GUARD, GUARD_BYTE, GUARD);
    memset(guarded.data, 0xFF, n_bytes);
    memset(guarded.data + n_bytes, GUARD_BYTE, GUARD);
    return guarded;
}

bool guarded_intact(const struct guarded *guarded)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (guarded->data[guarded->n_bytes + i] != GUARD_BYTE ||
            guarded->data[-(ptrdiff_t)i - 1] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

void guarded_free(struct guarded *guarded)
{
    free(guarded->base);
    guarded->base = NULL;
}
