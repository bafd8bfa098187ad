/* pages.h - memory that several sequences may share: counted, and never moved. */
#ifndef ATTNI_PAGES_H
#define ATTNI_PAGES_H

#include "attention.h"

/* Positions of a page of a sequence that grows: a multiple of every panel of columns. */
#define ATTNI_PAGE_ROWS ((size_t)64)

struct attni_page;

/* A page of so many floats, with one owner; NULL: out of memory. */
struct attni_page *attni_page_create(size_t n_floats) ATTN_MUST_CHECK;

/* One owner more, or less; the last one frees it. NULL is fine. */
void attni_page_keep(struct attni_page *page);
void attni_page_drop(struct attni_page *page);

/* Whether the caller, an owner, is the only one: nobody else can become one meanwhile. */
bool attni_page_is_own(const struct attni_page *page);

float *attni_page_floats(struct attni_page *page);
size_t attni_page_bytes(const struct attni_page *page);

#endif
