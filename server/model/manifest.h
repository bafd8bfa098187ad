/* manifest.h - one model's config.json: which layer it is, where its weights are, how it is served.
 *
 *     {"layer": {"kind": "speech_mha", "num_heads": 8, "d_model": 512},
 *      "weights": {"file": "model.safetensors", "prefix": "", "names": {}},
 *      "empty_rows": "zero", "weights_dtype": "f32",
 *      "dynamic_batching": {...}, "queue_policy": {...},           (see settings.h)
 *      "version_policy": {"latest": {"num_versions": 2}},
 *      "warmup": [{"name": "first", "count": 3,
 *                  "inputs": {"query": {"shape": [1, 16, 512], "data": "random"}}}]}
 *
 * Only "layer" is required. Unknown keys are refused. */
#ifndef AD_MODEL_MANIFEST_H
#define AD_MODEL_MANIFEST_H

#include "attention.h"
#include "base/error.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_MANIFEST_MAX_BYTES ((size_t)1 << 20) /* of a config.json */
#define AD_MANIFEST_MAX_VERSIONS 1024           /* named by a policy */
#define AD_MANIFEST_MAX_WARMUPS 64
#define AD_MANIFEST_MAX_COUNT 1000 /* of one warm-up */

struct ad_manifest_name {
    char *parameter; /* ours */
    char *file_name; /* the file's */
};

enum ad_policy_kind {
    AD_POLICY_ALL,
    AD_POLICY_LATEST,  /* the highest n_latest */
    AD_POLICY_SPECIFIC /* those named */
};

struct ad_version_policy {
    enum ad_policy_kind kind;
    uint64_t n_latest;
    uint64_t *versions; /* ascending, none twice */
    size_t n_versions;
};

struct ad_warmup_input {
    char *name;
    size_t rank;
    size_t shape[ATTN_MAX_RANK];
    bool random; /* else zeros */
};

/* A request that a version is sent before it is ready. */
struct ad_warmup {
    char *name;
    uint64_t count; /* 1 or more */
    struct ad_warmup_input *inputs;
    size_t n_inputs;
};

/* Owned by the caller; immutable after ad_manifest_parse. */
struct ad_manifest {
    struct attn_spec spec;
    char *file;   /* plain name inside the version's folder; default model.safetensors */
    char *prefix; /* default "" */
    struct ad_manifest_name *names;
    size_t n_names;
    bool has_weights; /* "weights" was given */
    struct ad_model_settings settings;
    struct ad_version_policy policy; /* default: all */
    struct ad_warmup *warmups;
    size_t n_warmups;
};

/* Parse n_bytes of config.json; where names the file in messages. AD_INVALID: the message holds the
 * file and the key's path (line and column for a syntax error), what was expected and what came.
 * AD_INTERNAL: out of memory. On failure there is nothing to reset. */
enum ad_status ad_manifest_parse(struct ad_manifest *manifest, const char *text,
                                 size_t n_bytes, const char *where,
                                 struct ad_error *error) AD_MUST_CHECK;

void ad_manifest_reset(struct ad_manifest *manifest); /* frees; all zeros afterwards */

/* The policy and the warm-ups as Triton's model configuration has them, one JSON object:
 * {"version_policy": {...}, "model_warmup": [...]}, the latter only where there are some; inputs are
 * the layer's, for their types. NULL: out of memory; free() it. */
char *ad_manifest_show(const struct ad_manifest *manifest, const struct attn_port *inputs,
                       size_t n_inputs);

#endif
