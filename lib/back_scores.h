/* back_scores.h - the backward of masked scores alone. */
#ifndef ATTNI_BACK_SCORES_H
#define ATTNI_BACK_SCORES_H

#include "run.h"

/* Bytes of scratch that a task takes; false when that overflows. */
bool attni_back_scores_lay_out(const attn_plan *plan, size_t *n_bytes);

/* Everything that is wanted, on all workers. */
void attni_back_scores(struct attni_run *run, float *const *outputs);

#endif
