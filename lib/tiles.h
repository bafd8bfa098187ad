/* tiles.h - how attention is cut into tasks and tiles, and the scratch that a task takes. */
#ifndef ATTNI_TILES_H
#define ATTNI_TILES_H

#include "plan.h"

/* Cut a call whose shapes are known (plan->tiles). */
void attni_tiles_cut(attn_plan *plan);

/* Lay out the scratch of one task (plan->tiles.at); its bytes. False when that overflows. */
bool attni_tiles_lay_out(attn_plan *plan, size_t *n_bytes);

#endif
