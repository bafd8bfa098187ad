/* stamp.h - what a model's files looked like, to see whether they have changed since. */
#ifndef AD_MODEL_STAMP_H
#define AD_MODEL_STAMP_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* One file, links followed. All zeros: there is none. */
struct ad_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    /* Written just before it was looked at. Another write within the same tick of the file system's
     * clock would not show: such a stamp is never the same as another. */
    bool unsure;
};

struct ad_version_stamp {
    uint64_t number;
    struct ad_stamp weights; /* all zeros where none are read */
};

/* One model's files. Owned by the caller; {0} is: never looked at. */
struct ad_stamps {
    bool taken;
    struct ad_stamp config;
    char *file; /* of a version's weights; NULL: versions have not been looked at */
    bool needs_weights;
    bool is_flat; /* the only version's weights lie in the model's folder itself */
    struct ad_version_stamp
        *versions; /* all folders that are versions, ascending; or 1 */
    size_t n_versions;
};

/* The stamp of the file at path; what cannot be looked at is not there. */
struct ad_stamp ad_stamp_of(const char *path);
bool ad_stamp_is_there(const struct ad_stamp *stamp);
bool ad_stamp_same(const struct ad_stamp *a, const struct ad_stamp *b);

/* Fill in file and versions of a model's folder. Where it has no folders that are versions, and file
 * lies in it and is needed, that is version 1. On failure (that of ad_scan_folders) *stamps is as
 * before. */
enum ad_status ad_stamps_take_versions(struct ad_stamps *stamps, const char *folder,
                                       const char *file, bool needs_weights,
                                       const struct ad_log *log,
                                       struct ad_error *error) AD_MUST_CHECK;

/* Whether the model's files are still what they were. Does not read them. False also where that
 * cannot be told. */
bool ad_stamps_hold(const struct ad_stamps *stamps, const char *folder);

void ad_stamps_reset(struct ad_stamps *stamps); /* frees; all zeros afterwards */

/* The version of that number, or NULL. */
const struct ad_version_stamp *ad_stamps_find(const struct ad_stamps *stamps,
                                              uint64_t number);

#endif
