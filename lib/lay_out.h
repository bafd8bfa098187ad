/* lay_out.h - where everything that a call needs lies in its scratch. */
#ifndef ATTNI_LAY_OUT_H
#define ATTNI_LAY_OUT_H

#include "plan.h"

/* Floats of projected rows that exist at once, if it can be helped: 32 MB. */
#define ATTNI_ROUND_FLOATS ((size_t)8 << 20)

/* Cut a checked call into rounds and tiles, and lay out its scratch. No result depends on
 * most_floats, a soft bound: a round has at least one sample, or one head of it. ATTN_TOO_LARGE. */
enum attn_status attni_lay_out(attn_plan *plan, size_t most_floats,
                               struct attn_error *error) ATTN_MUST_CHECK;

#endif
