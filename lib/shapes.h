/* shapes.h - do the inputs of a call fit the layer and each other? */
#ifndef ATTNI_SHAPES_H
#define ATTNI_SHAPES_H

#include "plan.h"

/* Fill the plan's sizes, mask and dense relations from its inputs, or refuse the input that does
 * not fit. For layers of rows and of heads. */
enum attn_status attni_shapes_check(attn_plan *plan,
                                    struct attn_error *error) ATTN_MUST_CHECK;

/* "input 'NAME': expected EXPECTED, got SHAPE". */
enum attn_status attni_shapes_refuse(const char *name, const char *expected,
                                     const struct attn_tensor *tensor,
                                     struct attn_error *error);

#endif
