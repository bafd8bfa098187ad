/* pages.c - counted memory. Owners may be on any thread; what is written to a page is written by the only
 * owner of it. */
#include "pages.h"

#include "tensor.h"

#include <stdatomic.h>

struct attni_page {
    atomic_size_t n_owners;
    size_t n_bytes;
};

/* Before the floats, so that they begin on a cache line. */
#define HEADER_BYTES ((size_t)64)

_Static_assert(sizeof(struct attni_page) <= HEADER_BYTES, "a page's header is too large");

struct attni_page *attni_page_create(size_t n_floats)
{
    size_t n_bytes;
    if (!attni_multiply(n_floats, sizeof(float), &n_bytes) ||
        !attni_add(n_bytes, HEADER_BYTES, &n_bytes)) {
        return NULL;
    }
    struct attni_page *page = attn_alloc(n_bytes);
    if (page) {
        atomic_init(&page->n_owners, 1);
        page->n_bytes = n_bytes;
    }
    return page;
}

void attni_page_keep(struct attni_page *page)
{
    if (page) {
        atomic_fetch_add_explicit(&page->n_owners, 1, memory_order_relaxed);
    }
}

void attni_page_drop(struct attni_page *page)
{
    if (page &&
        atomic_fetch_sub_explicit(&page->n_owners, 1, memory_order_acq_rel) == 1) {
        attn_free(page);
    }
}

bool attni_page_is_own(const struct attni_page *page)
{
    return atomic_load_explicit(&page->n_owners, memory_order_acquire) == 1;
}

float *attni_page_floats(struct attni_page *page)
{
    return (float *)(void *)((unsigned char *)page + HEADER_BYTES);
}

size_t attni_page_bytes(const struct attni_page *page)
{
    return page->n_bytes;
}
