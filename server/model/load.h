/* load.h - one model's folder, or what is given in its place -> its loaded versions. */
#ifndef AD_MODEL_LOAD_H
#define AD_MODEL_LOAD_H

#include "base/error.h"
#include "base/log.h"
#include "model/repository.h"
#include "model/table.h"

#include <stdbool.h>
#include <stddef.h>

/* What to load. All of it is borrowed. */
struct ad_source {
    const char *folder; /* the model's */
    const char *name;
    const char *config; /* instead of config.json; NULL: that is read */
    size_t n_config;
    const struct ad_override_file *files; /* instead of those on disk; n_files 0: none */
    size_t n_files;
    const struct ad_slots *old; /* what there was: its statistics are taken over */
    bool reuse; /* a version whose files are what they were is not made again */
    const struct ad_log *log;
};

/* What came of it. Owned by the caller; free it with ad_made_reset. */
struct ad_made {
    struct ad_slots slots; /* of the versions to serve, loaded or with their reason */
    struct ad_stamps stamps;
    struct ad_error
        why; /* why no version could be loaded: the model's own fault, or that of its
                            highest version; AD_OK: one was */
    bool lacks_memory; /* a version was too large for the memory there is */
};

/* Load, one log line a version that was made. A model or version that is broken has its reason in
 * *made and is no failure. AD_INTERNAL: out of memory; there is nothing to reset then. */
enum ad_status ad_model_make(const struct ad_source *source, struct ad_made *made,
                             struct ad_error *error) AD_MUST_CHECK;

void ad_made_reset(struct ad_made *made);

#endif
