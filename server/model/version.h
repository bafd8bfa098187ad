/* version.h - a loaded version's life: made by the thread that loads, freed by whoever releases it
 * last. Used inside the model folder alone. */
#ifndef AD_MODEL_VERSION_H
#define AD_MODEL_VERSION_H

#include "model/repository.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a version is still in memory: outlives it, for those who hold this. */
struct ad_presence {
    atomic_size_t references;
    atomic_bool gone;
};

struct ad_presence *ad_presence_hold(struct ad_presence *presence); /* NULL is fine */
void ad_presence_release(struct ad_presence *presence);             /* NULL is fine */
bool ad_presence_is_gone(const struct ad_presence *presence);       /* NULL: it is */

/* A version without a layer, one reference. stats NULL: new ones, else they are held. NULL: out of
 * memory. */
struct ad_version *ad_version_create(const char *model, uint64_t number,
                                     struct ad_stats *stats);

#endif
