/* layout.h - which folders of a repository are models, and what these are called. Used inside the model
 * folder alone, by the thread that loads.
 *
 * A repository is many models, one a folder, each called as its folder is; or it is one model itself,
 * whose config.json lies in its root. The only model may be given another name: then its folder's is
 * nobody's. */
#ifndef AD_MODEL_LAYOUT_H
#define AD_MODEL_LAYOUT_H

#include "base/error.h"
#include "base/log.h"
#include "model/scan.h"

#include <stdbool.h>

struct ad_layout {
    char *root;               /* immutable, as are the next two */
    char *name;               /* for the only model; NULL: its folder's */
    const struct ad_log *log; /* for what has changed */

    bool is_model; /* the root itself is the only model */
    char *only;    /* what the only model is called; NULL: all by their folders */
    char *folder;  /* the only model's; NULL while only is */
    bool ignored;  /* name, for there are several models: that was logged */
};

/* AD_INVALID: the name cannot be a model's. AD_INTERNAL: out of memory. There is nothing to reset
 * then. log outlives the layout. */
enum ad_status ad_layout_init(struct ad_layout *layout, const char *root,
                              const char *name, const struct ad_log *log,
                              struct ad_error *error) AD_MUST_CHECK;
void ad_layout_reset(struct ad_layout *layout);

/* Look at the disk: what the models are called, sorted by bytes. skipped: the log for entries that are
 * no models; NULL: none. A root that was one model stays that while its config.json is missing,
 * until a folder in it has one. AD_NOT_FOUND, AD_INVALID: the root cannot be read, or it is one model
 * and many at once; AD_INTERNAL: out of memory. *layout is as before then. */
enum ad_status ad_layout_look(struct ad_layout *layout, const struct ad_log *skipped,
                              struct ad_names *names,
                              struct ad_error *error) AD_MUST_CHECK;

/* *path = the folder of the model of that name, be it there or not; to be freed. AD_INTERNAL: out of
 * memory. */
enum ad_status ad_layout_path(const struct ad_layout *layout, const char *name,
                              char **path, struct ad_error *error) AD_MUST_CHECK;

/* Whether on disk there can be a model of that name: where there is an only one, that alone. */
bool ad_layout_may_have(const struct ad_layout *layout, const char *name);

#endif
