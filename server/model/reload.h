/* reload.h - load a model into its place in the table. Used inside the model folder alone. */
#ifndef AD_MODEL_RELOAD_H
#define AD_MODEL_RELOAD_H

#include "base/error.h"
#include "model/load.h"
#include "model/table.h"

/* Load what source says (its folder, name, old and log are filled in here) and swap it in, unless what
 * serves is better: see repository.h. The model is wanted from now on. AD_NOT_FOUND, AD_INVALID: it
 * has failed, and the reason is in the table. AD_INTERNAL: out of memory, the versions are as before
 * and will be looked at again. */
enum ad_status ad_reload(struct ad_repository *repository, struct ad_entry *entry,
                         struct ad_source *source, struct ad_error *error) AD_MUST_CHECK;

#endif
