/* memory.c - memory for many numbers. Any thread. */
#include "attention.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Of a cache line, and of the pages to ask for. */
#define LINE ((size_t)64)
#define LARGE_PAGE ((size_t)2 << 20)

void *attn_alloc(size_t n_bytes)
{
    if (n_bytes > PTRDIFF_MAX - LARGE_PAGE) {
        return NULL;
    }
    size_t rounded = n_bytes == 0 ? LINE : (n_bytes + LINE - 1) / LINE * LINE;
    if (rounded < LARGE_PAGE) {
        return aligned_alloc(LINE, rounded);
    }
    void *memory =
        aligned_alloc(LARGE_PAGE, (rounded + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
    if (memory) {
        /* whole large pages alone: no more than is asked for becomes resident. A system without them
         * refuses, which costs time and nothing else */
        (void)madvise(memory, rounded / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    }
    return memory;
}

void attn_free(void *memory)
{
    free(memory);
}
