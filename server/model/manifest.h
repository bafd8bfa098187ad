/* manifest.h - one model's config.json: which layer it is and where its weights are.
 *
 *     {"layer": {"kind": "speech_mha", "num_heads": 8, "d_model": 512},
 *      "weights": {"file": "model.safetensors", "prefix": "", "names": {}},
 *      "empty_rows": "zero", "weights_dtype": "f32"}
 *
 * Only "layer" is required. Unknown keys are refused. */
#ifndef AD_MODEL_MANIFEST_H
#define AD_MODEL_MANIFEST_H

#include "attention.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define AD_MANIFEST_MAX_BYTES ((size_t)1 << 20) /* of a config.json */

struct ad_manifest_name {
    char *parameter; /* ours */
    char *file_name; /* the file's */
};

/* Owned by the caller; immutable after ad_manifest_parse. */
struct ad_manifest {
    struct attn_spec spec;
    char *file;   /* plain name inside the version's folder; default model.safetensors */
    char *prefix; /* default "" */
    struct ad_manifest_name *names;
    size_t n_names;
    bool has_weights; /* "weights" was given */
};

/* Parse n_bytes of config.json; where names the file in messages. AD_INVALID: the message holds the
 * file and the key's path (line and column for a syntax error), what was expected and what came.
 * AD_INTERNAL: out of memory. On failure there is nothing to reset. */
enum ad_status ad_manifest_parse(struct ad_manifest *manifest, const char *text,
                                 size_t n_bytes, const char *where,
                                 struct ad_error *error) AD_MUST_CHECK;

void ad_manifest_reset(struct ad_manifest *manifest); /* frees; all zeros afterwards */

#endif
