/* repository.h - the models on disk, loaded: <root>/<model>/config.json and
 * <root>/<model>/<version>/model.safetensors.
 *
 * A folder is a model unless its name starts with '.' or cannot be asked for (not UTF-8, control
 * characters), which is logged. Versions are decimal, 1 to 2^63-1, without leading zeros; other
 * entries of a model's folder are ignored. A layer without parameters reads no weights file: its
 * versions are its folders all the same, or version 1 when it has none. The default version is the
 * highest that loaded. A model or version that cannot be loaded is kept with its reason.
 *
 * Owner: main. After ad_repository_load the repository is read-only and may be used from any
 * thread; versions are counted, so that a later reload can swap them. */
#ifndef AD_MODEL_REPOSITORY_H
#define AD_MODEL_REPOSITORY_H

#include "attention.h"
#include "base/error.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One loaded version: immutable but for its count. */
struct ad_version {
    char *model; /* its model's name */
    uint64_t number;
    char text[24];     /* the number in decimal */
    attn_layer *layer; /* NULL: not loaded, see reason */
    char *reason;      /* why it is not loaded; NULL when it is */
    struct attn_port inputs[ATTN_MAX_PORTS];
    size_t n_inputs;
    struct attn_port outputs[ATTN_MAX_PORTS];
    size_t n_outputs;
    atomic_size_t references; /* the repository's own included */
};

struct ad_model {
    char *name;
    char *
        reason; /* why none of it can be served: a broken config.json, or that of its highest
                     version when no version loaded; else NULL */
    struct ad_version **versions; /* ascending by number */
    size_t n_versions;
};

struct ad_repository {
    char *root;
    struct ad_model *models; /* ascending by name */
    size_t n_models;
};

/* Load all models below root, one log line each. Fails only when root itself cannot be read
 * (AD_NOT_FOUND, AD_INVALID) or memory runs out; a broken model is kept with its reason. */
enum ad_status ad_repository_load(const char *root, const struct ad_log *log,
                                  struct ad_repository **repository,
                                  struct ad_error *error) AD_MUST_CHECK;

void ad_repository_free(struct ad_repository *repository); /* NULL is fine */

/* The model of that name (n bytes, not NUL-terminated), or NULL. */
const struct ad_model *ad_repository_find(const struct ad_repository *repository,
                                          const char *name, size_t n_name);

/* A model's version to serve: by its decimal text (n bytes), or the default for text == NULL.
 * AD_NOT_FOUND: no such version; AD_UNAVAILABLE: known but not loaded, with the reason. On success
 * the caller holds a reference. */
enum ad_status ad_model_acquire(const struct ad_model *model, const char *version,
                                size_t n_version, struct ad_version **acquired,
                                struct ad_error *error) AD_MUST_CHECK;

void ad_version_release(struct ad_version *version); /* NULL is fine */

/* strict: true when every version of every model is loaded. Otherwise always true: a broken model
 * does not keep the others from being served. */
bool ad_repository_ready(const struct ad_repository *repository, bool strict);

#endif
