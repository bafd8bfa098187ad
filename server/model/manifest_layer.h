/* manifest_layer.h - the "layer" object of config.json -> a spec. */
#ifndef AD_MODEL_MANIFEST_LAYER_H
#define AD_MODEL_MANIFEST_LAYER_H

#include "attention.h"
#include "base/error.h"
#include "model/manifest_json.h"

#include <jansson.h>

/* Fill *spec from {"kind": ..., options ...}. layer may be NULL or of any type: that is reported.
 * Borrows all. AD_INVALID names the option; AD_INTERNAL: out of memory. */
enum ad_status ad_manifest_read_layer(const struct ad_place *place, json_t *layer,
                                      struct attn_spec *spec,
                                      struct ad_error *error) AD_MUST_CHECK;

#endif
