/* tiles.h - how attention is cut into tasks and tiles, and the scratch that a task takes. */
#ifndef ATTNI_TILES_H
#define ATTNI_TILES_H

#include "plan.h"

/* Cut a call whose shapes are known (plan->tiles). */
void attni_tiles_cut(attn_plan *plan);

/* Keys that a task attends to at a time: whole tiles, or all keys. */
size_t attni_tiles_of_task(const attn_plan *plan);

/* Lay out the scratch of one task (plan->tiles.at); its bytes. False when that overflows. */
bool attni_tiles_lay_out(attn_plan *plan, size_t *n_bytes);

/* n rounded up to whole panels of the kernels. */
size_t attni_tiles_padded(size_t n);

/* Keys of a tile: a multiple of `least`, from `least` to `most`, such that its keys and values together
 * are about so many floats; no longer than the keys are, since rows of scores further apart than they
 * need be would crowd a cache. */
size_t attni_tiles_keys(const attn_plan *plan, size_t floats, size_t least, size_t most);

#endif
