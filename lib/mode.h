/* mode.h - what a call does beyond inference, and does that make sense? */
#ifndef ATTNI_MODE_H
#define ATTNI_MODE_H

#include "plan.h"

/* Refuse a mode that contradicts itself; of one of another size nothing else is read. */
enum attn_status attni_mode_check(const struct attn_mode *mode,
                                  struct attn_error *error) ATTN_MUST_CHECK;

/* Check draws and cotangents against the shapes of the layer's own outputs (without an axis of draws),
 * and the batch against what training does with it. */
enum attn_status attni_mode_fit(const attn_plan *plan, const struct attn_tensor own[2],
                                struct attn_error *error) ATTN_MUST_CHECK;

#endif
