/* failing_malloc.h - make the n-th allocation of a test fail, and see that none is left over. The
 * program that includes it (once) has these in place of the C library's own; not under a sanitizer,
 * which has its own: tests then ask FAILING_MALLOC and pass. The sanitizers look for leaks
 * themselves. Per thread, so other threads of a test are left alone. */
#ifndef TESTS_UNIT_LIB_FAILING_MALLOC_H
#define TESTS_UNIT_LIB_FAILING_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAILING_MALLOC 0
#elif defined(__has_feature)
#define FAILING_MALLOC \
    (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define FAILING_MALLOC 1
#endif

/* What is counted from failing_malloc_begin to failing_malloc_end. */
struct failing_malloc {
    bool active;
    bool failed;      /* the allocation that was to fail came */
    size_t countdown; /* allocations that succeed before that */
    long n_live;      /* allocated less freed */
};

static _Thread_local struct failing_malloc failing_malloc;

/* Allocations from now on succeed n times, then fail once. */
static inline void failing_malloc_begin(size_t n)
{
    failing_malloc = (struct failing_malloc){.active = true, .countdown = n};
}

/* Whether the failure came. *n_live: blocks allocated since and not freed. */
static inline bool failing_malloc_end(long *n_live)
{
    failing_malloc.active = false;
    *n_live = failing_malloc.n_live;
    return failing_malloc.failed;
}

#if FAILING_MALLOC

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static bool failing_malloc_fails(void)
{
    if (!failing_malloc.active || failing_malloc.failed ||
        failing_malloc.countdown-- > 0) {
        return false;
    }
    failing_malloc.failed = true;
    return true;
}

static void *failing_malloc_count(void *block)
{
    failing_malloc.n_live += block != NULL;
    return block;
}

void *malloc(size_t size)
{
    return failing_malloc_fails() ? NULL : failing_malloc_count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return failing_malloc_fails() ? NULL : failing_malloc_count(__libc_calloc(n, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return failing_malloc_fails()
               ? NULL
               : failing_malloc_count(__libc_memalign(alignment, size));
}

void *realloc(void *block, size_t size)
{
    if (failing_malloc_fails()) {
        return NULL;
    }
    void *moved = __libc_realloc(block, size);
    return block ? moved : failing_malloc_count(moved);
}

void free(void *block)
{
    failing_malloc.n_live -= block != NULL;
    __libc_free(block);
}

#endif
#endif
