/* manifest_warmup.h - the "warmup" array of config.json. Used by manifest.c alone. */
#ifndef AD_MODEL_MANIFEST_WARMUP_H
#define AD_MODEL_MANIFEST_WARMUP_H

#include "base/error.h"
#include "model/manifest.h"
#include "model/manifest_json.h"

#include <jansson.h>

/* Fill the manifest's warm-ups from the document. Which inputs there are is the layer's to say, and
 * not looked at here. AD_INVALID names the key. What was filled is the manifest's to reset, also on
 * failure. */
enum ad_status ad_manifest_read_warmups(const struct ad_place *document, json_t *root,
                                        struct ad_manifest *manifest,
                                        struct ad_error *error) AD_MUST_CHECK;

void ad_manifest_free_warmups(struct ad_manifest *manifest);

#endif
