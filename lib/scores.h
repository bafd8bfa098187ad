/* scores.h - layers that return their scores: leading axes broadcast, no softmax, no values. */
#ifndef ATTNI_SCORES_H
#define ATTNI_SCORES_H

#include "plan.h"

/* Fill plan->free, n_queries, n_keys and the main output's shape from the inputs, or refuse. */
enum attn_status attni_scores_check(attn_plan *plan, struct attn_tensor *output,
                                    struct attn_error *error) ATTN_MUST_CHECK;

/* Independent tasks of the forward, and one of them. out: the main output. */
size_t attni_scores_n_tasks(const attn_plan *plan);
void attni_scores_run(const attn_plan *plan, float *out, size_t task);

#endif
