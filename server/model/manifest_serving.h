/* manifest_serving.h - how config.json says a model is to be served: batching, queue, versions.
 *
 * Used by manifest.c alone. */
#ifndef AD_MODEL_MANIFEST_SERVING_H
#define AD_MODEL_MANIFEST_SERVING_H

#include "base/error.h"
#include "model/manifest.h"
#include "model/manifest_json.h"

#include <jansson.h>

/* Fill settings and policy from the document; what it leaves out has its default. AD_INVALID names
 * the key. What was filled is the manifest's to reset, also on failure. */
enum ad_status ad_manifest_read_serving(const struct ad_place *document, json_t *root,
                                        struct ad_manifest *manifest,
                                        struct ad_error *error) AD_MUST_CHECK;

#endif
