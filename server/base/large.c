/* large.c - memory that is touched once from end to end. Any thread. */
#include "base/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LINE ((size_t)64)

void *ad_large_alloc(size_t n_bytes)
{
    size_t alignment = n_bytes < AD_LARGE_FROM ? LINE : AD_LARGE;
    if (n_bytes > PTRDIFF_MAX - AD_LARGE) {
        return NULL;
    }
    void *memory =
        aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
    if (memory && alignment == AD_LARGE) {
        /* advice: a system that refuses it is slower, and that is all */
        (void)madvise(memory, n_bytes / AD_LARGE * AD_LARGE, MADV_HUGEPAGE);
    }
    return memory;
}

void ad_large_drop(void *memory)
{
    (void)madvise(memory, AD_LARGE, MADV_DONTNEED);
}
