/* warmup.h - the requests that a version is sent before it is ready. */
#ifndef AD_MODEL_WARMUP_H
#define AD_MODEL_WARMUP_H

#include "attention.h"
#include "base/error.h"
#include "model/manifest.h"

#define AD_WARMUP_MAX_BYTES \
    ((size_t)256 << 20) /* of all inputs of one, and of all its outputs */

/* Run the manifest's warm-ups on the layer, on the calling thread alone. Random data are the same
 * each time, in [-1, 1); masks and indices are zeros whatever the config says. AD_INVALID: names the
 * warm-up and what is wrong. AD_INTERNAL: out of memory. */
enum ad_status ad_warmup_run(const struct ad_manifest *manifest, const attn_layer *layer,
                             struct ad_error *error) AD_MUST_CHECK;

#endif
