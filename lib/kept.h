/* kept.h - keys and values that a sequence keeps, as its calls see them. */
#ifndef ATTNI_KEPT_H
#define ATTNI_KEPT_H

#include "pages.h"
#include "plan.h"

/* Floats of a context that stays lie in one page: keys, then values, projected as a call would have them
 * in scratch, or as they came. Those of a sequence that grows lie in pages of ATTNI_PAGE_ROWS
 * positions: [sample][head][position][width] of keys, then of values. */
struct attn_cache {
    const attn_layer *layer;
    bool grows;
    bool started;                  /* a call has succeeded */
    size_t n_batch;                /* of keys */
    size_t length;                 /* positions kept */
    size_t width, value_width;     /* of a head */
    struct attn_tensor key, value; /* a context's, as they came, but for the data */
    struct attni_page **pages;     /* owned, as the list is */
    size_t n_pages;
    size_t values_at; /* floats of a page before its values */
    attn_plan *plan;  /* that has been made and not yet freed; NULL: none */
    bool planned;     /* it has not been run */
};

/* Put what is kept in the place of inputs that the call no longer brings, or refuse those that it does. */
enum attn_status attni_kept_inputs(attn_plan *plan,
                                   struct attn_error *error) ATTN_MUST_CHECK;

/* Check the call's rows against what is kept. */
enum attn_status attni_kept_fit(const attn_plan *plan,
                                struct attn_error *error) ATTN_MUST_CHECK;

/* Allocate, once all sizes are known, what the call fills. */
enum attn_status attni_kept_allocate(attn_plan *plan,
                                     struct attn_error *error) ATTN_MUST_CHECK;

/* Refuse a plan that its sequence has gone on from. */
enum attn_status attni_kept_check(const attn_plan *plan,
                                  struct attn_error *error) ATTN_MUST_CHECK;

/* Whether a call brings keys or values (1, 2) that need projecting. */
bool attni_kept_brings(const attn_plan *plan, size_t which);

/* Where keys or values (1, 2) of a context that stays are. */
float *attni_kept_context(const attn_plan *plan, size_t which);

/* Copy the new keys and values of a sample of a sequence that grows to its pages; and all keys or values
 * (1, 2) as the core reads them. */
void attni_kept_store(const attn_plan *plan, const struct attni_rows *key,
                      const struct attni_rows *value, size_t sample);
struct attni_rows attni_kept_rows(const attn_plan *plan, size_t which);

/* The call has succeeded: the sequence goes on from it. Plans without a sequence are left alone. */
void attni_kept_commit(const attn_plan *plan);

/* Free what a plan holds of a sequence. */
void attni_kept_release(attn_plan *plan);

#endif
