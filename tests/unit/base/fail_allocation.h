/* fail_allocation.h - lets the n-th allocation of a test program fail, whoever makes it. Included
 * by one source file of a program, because it defines malloc and its kin.
 *
 *     for (long n = 1;; n++) {
 *         fail_allocation(n);
 *         ... what is tested ...
 *         if (!allocation_failed()) break;      (it made fewer than n allocations)
 *         ... it must have failed cleanly ...
 *     }
 *
 * The sanitizers bring a malloc of their own, so there no allocation fails. */
#ifndef TESTS_UNIT_BASE_FAIL_ALLOCATION_H
#define TESTS_UNIT_BASE_FAIL_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* How many allocations are left, the failing one included; 0 or less: none fails any more. */
static long allocations_left;
static bool allocation_has_failed;

static inline void fail_allocation(long n)
{
    allocation_has_failed = false;
    allocations_left = n;
}

/* True when the allocation has been asked for; from here on none fails. */
static inline bool allocation_failed(void)
{
    allocations_left = 0;
    return allocation_has_failed;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool is_to_fail(void)
{
    if (allocations_left <= 0 || --allocations_left > 0) {
        return false;
    }
    allocation_has_failed = true;
    return true;
}

void *malloc(size_t size)
{
    return is_to_fail() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return is_to_fail() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    return is_to_fail() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return is_to_fail() ? NULL : __libc_memalign(alignment, size);
}

#endif

#endif
