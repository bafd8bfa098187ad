/* load.h - one model's folder -> its loaded versions. */
#ifndef AD_MODEL_LOAD_H
#define AD_MODEL_LOAD_H

#include "base/error.h"
#include "base/log.h"
#include "model/repository.h"

/* Load <root>/<name> into *model, one log line a version. A model or version that is broken has its
 * reason in *model and is no failure. AD_INTERNAL: out of memory; there is nothing to reset then. */
enum ad_status ad_model_load(const char *root, const char *name, const struct ad_log *log,
                             struct ad_model *model,
                             struct ad_error *error) AD_MUST_CHECK;

/* Free what a model holds; versions that are still referred to live on. */
void ad_model_reset(struct ad_model *model);

#endif
