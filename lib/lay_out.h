/* lay_out.h - where everything that a call needs lies in its scratch. */
#ifndef ATTNI_LAY_OUT_H
#define ATTNI_LAY_OUT_H

#include "cursor.h"
#include "plan.h"

/* Floats of projected rows that exist at once, if it can be helped: 32 MB. */
#define ATTNI_ROUND_FLOATS ((size_t)8 << 20)

/* Cut a checked call into rounds and tiles, and lay out its scratch. No result depends on
 * most_floats, a soft bound: a round has at least one sample, or one head of it. ATTN_TOO_LARGE. */
enum attn_status attni_lay_out(attn_plan *plan, size_t most_floats,
                               struct attn_error *error) ATTN_MUST_CHECK;

/* The same for a plan of gradients, which keeps everything projected (back_lay_out.c). ATTN_TOO_LARGE. */
enum attn_status attni_lay_out_back(attn_plan *plan,
                                    struct attn_error *error) ATTN_MUST_CHECK;

/* Whether a plan of gradients has anything to walk over. Where it has not, gradients of parameters are 0,
 * and axes may be as long as they like. */
bool attni_lay_out_back_works(const attn_plan *plan);

/* The rows and tiles of a forward, and the sorting of edges, for both. */
void attni_lay_out_attention(attn_plan *plan, size_t most_floats,
                             struct attni_cursor *shared, struct attni_cursor *worker);
void attni_lay_out_edges(attn_plan *plan, struct attni_cursor *cursor);

/* Whether all that is projected exists at once. */
bool attni_lay_out_is_one_round(const attn_plan *plan);

/* Whether, moreover, tasks attend to all keys at once. */
bool attni_lay_out_is_one_pass(const attn_plan *plan);

#endif
