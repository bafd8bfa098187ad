/* repository.h - the models on disk, loaded: <root>/<model>/config.json and
 * <root>/<model>/<version>/model.safetensors.
 *
 * The root may be one model itself: config.json lies in it. That is called as the root's folder, or as
 * --model-name says, which renames the only folder of a root just as well.
 *
 * A folder is a model unless its name starts with '.' or cannot be asked for (not UTF-8, control
 * characters), which is logged. Versions are decimal, 1 to 2^63-1, without leading zeros; other
 * entries of a model's folder are ignored. Without such folders, a weights file beside config.json is
 * version 1. A layer without parameters reads no weights file: its
 * versions are its folders all the same, or version 1 when it has none. Of the versions found, the
 * config's version_policy picks those to serve. The default version is the highest that is ready. A
 * model or version that cannot be loaded is kept with its reason.
 *
 * Any thread may acquire, release and view: what they see is swapped under a lock that is never
 * held while a file is read or a layer made. Loading is one thread's at a time (the loader's, see
 * loader.h; main's before that runs). A load makes all versions of a model aside and swaps them in
 * at once. It has failed when no version could be made, or not one that serves: then those that
 * serve stay as they are, and their reason says why. */
#ifndef AD_MODEL_REPOSITORY_H
#define AD_MODEL_REPOSITORY_H

#include "attention.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stats.h"
#include "model/settings.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ad_presence; /* see version.h */

/* One loaded version: immutable but for its count. */
struct ad_version {
    char *model; /* its model's name */
    uint64_t number;
    char text[24]; /* the number in decimal */
    attn_layer *layer;
    struct ad_model_settings settings;
    char *
        config; /* {"version_policy": ..., "model_warmup": ...}: JSON, for GET .../config */
    struct attn_port inputs[ATTN_MAX_PORTS];
    size_t n_inputs;
    struct attn_port outputs[ATTN_MAX_PORTS];
    size_t n_outputs;
    struct ad_stats *stats; /* held; the same object after a reload of the version */
    int64_t load_ns;        /* how long loading took, warm-up included */
    struct ad_presence *presence; /* the repository's */
    atomic_size_t n_body_bytes;   /* of request bodies: its share of sched/budget.h's */
    atomic_size_t references;
};

/* As the repository index spells them. */
enum ad_version_state {
    AD_VERSION_READY,
    AD_VERSION_UNAVAILABLE,
    AD_VERSION_LOADING,
    AD_VERSION_UNLOADING /* unloaded, and requests still use it */
};

enum ad_control_mode {
    AD_CONTROL_NONE,    /* what is there at the start */
    AD_CONTROL_POLL,    /* what is there, looked at every so often */
    AD_CONTROL_EXPLICIT /* what was asked for */
};

struct ad_repository; /* see table.h */

struct ad_repository_config {
    const char *root;
    const char *name; /* what its only model is called; NULL: as its folder */
    enum ad_control_mode mode;
    const char *const *startup; /* EXPLICIT: models to load at the start; {"*"}: all */
    size_t n_startup;
    const struct ad_log *log; /* outlives the repository */
    /* A version serves no new request: called once, without a lock, when it was replaced or
     * unloaded, on the thread that loads. May be NULL. */
    void (*on_retired)(void *context, struct ad_version *version);
    void *context;
};

/* Open root and load what the mode says, one log line each. Fails only when root itself cannot be
 * read (AD_NOT_FOUND, AD_INVALID) or is one model and many at once (AD_INVALID), a name cannot be a
 * model's (AD_INVALID) or memory runs out; a broken model is kept with its reason. */
enum ad_status ad_repository_open(const struct ad_repository_config *config,
                                  struct ad_repository **repository,
                                  struct ad_error *error) AD_MUST_CHECK;

void ad_repository_free(struct ad_repository *repository); /* NULL is fine */

/* A version to serve: by its decimal text, or the default for version == NULL; n_... bytes, not
 * NUL-terminated. AD_NOT_FOUND: no such model or version; AD_UNAVAILABLE: known but not loaded, with
 * the reason. On success the caller holds a reference. Takes well under a microsecond. */
enum ad_status ad_repository_acquire(struct ad_repository *repository, const char *model,
                                     size_t n_model, const char *version,
                                     size_t n_version, struct ad_version **acquired,
                                     struct ad_error *error) AD_MUST_CHECK;

void ad_version_hold(struct ad_version *version);
void ad_version_release(struct ad_version *version); /* NULL is fine */

struct ad_view_version {
    uint64_t number;
    char text[24];
    enum ad_version_state state;
    char *reason;               /* why it is not ready, or why its reload failed; NULL */
    struct ad_version *version; /* held; NULL unless ready */
};

struct ad_view_model {
    char *name;
    enum ad_version_state state; /* ready when a version is */
    char *
        reason; /* why nothing of it can be served, or why its reload failed: a broken config.json,
                     or that of its highest version; NULL, also for one never asked for */
    struct ad_view_version *versions; /* ascending by number */
    size_t n_versions;
};

/* What there is, at one moment. Strings and held versions are the view's. */
struct ad_view {
    struct ad_view_model *models; /* ascending by name */
    size_t n_models;
};

/* model NULL: all, else that one (n_models is 0 where there is no such). AD_INTERNAL: out of memory;
 * there is nothing to reset then. */
enum ad_status ad_repository_view(struct ad_repository *repository, const char *model,
                                  struct ad_view *view,
                                  struct ad_error *error) AD_MUST_CHECK;
void ad_view_reset(struct ad_view *view);

/* strict: true when every version of every model that is to be served is ready. Otherwise always
 * true: a broken model does not keep the others from being served. */
bool ad_repository_ready(struct ad_repository *repository, bool strict);

const char *ad_repository_root(const struct ad_repository *repository);
enum ad_control_mode ad_repository_mode(const struct ad_repository *repository);

/* ---- the loader's ---------------------------------------------------------------------------- */

/* A file that a load brings along instead of reading it from disk: "1/model.safetensors". */
struct ad_override_file {
    char *path;
    void *bytes;
    size_t n_bytes;
};

/* Load or reload one model. config NULL: its config.json. With files, for which config is needed,
 * nothing is read from disk and there need be no folder; its versions are those that files name.
 * AD_NOT_FOUND: no such folder or file. AD_INVALID: the name, the config or the weights are bad. */
enum ad_status ad_repository_load(struct ad_repository *repository, const char *model,
                                  const char *config, size_t n_config,
                                  const struct ad_override_file *files, size_t n_files,
                                  struct ad_error *error) AD_MUST_CHECK;

/* AD_NOT_FOUND: no such model. One that is not loaded stays so. */
enum ad_status ad_repository_unload(struct ad_repository *repository, const char *model,
                                    struct ad_error *error) AD_MUST_CHECK;

/* Look at the disk. Modes NONE and POLL: load what is new or has changed, unload what has gone.
 * EXPLICIT: learn which models there are. A root that has become one model, or many, has new names:
 * what had others has gone. everything: reload all that is to be served too, changed
 * or not, but for what came with files of its own. What is wrong with a model is its reason and no
 * failure; AD_NOT_FOUND, AD_INVALID: root cannot be read or understood, and everything serves on. */
enum ad_status ad_repository_rescan(struct ad_repository *repository, bool everything,
                                    struct ad_error *error) AD_MUST_CHECK;

/* A rescan that is under way loads no further model, and a later one none: a stop must not wait for a
 * thousand of them. Any thread. */
void ad_repository_abandon(struct ad_repository *repository);

#endif
