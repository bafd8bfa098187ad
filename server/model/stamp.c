/* stamp.c - see by their times, sizes and identities whether a model's files have changed.
 *
 * A file that is replaced by renaming another one over it has a new identity; one that is written in
 * place a new time. Files are stamped before they are read, so that what is written meanwhile shows
 * the next time. No state; runs on the thread that loads. */
#include "model/stamp.h"

#include "model/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define UNSURE_NS (NS_PER_S / 10) /* several ticks of any kernel's clock */

static bool is_recent(const struct timespec *modified)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return false;
    }
    const int64_t seconds = (int64_t)now.tv_sec - (int64_t)modified->tv_sec;
    if (seconds < -1 || seconds > 1) {
        return false; /* also a time far in the future, which would never become old */
    }
    const int64_t ns = seconds * NS_PER_S + (now.tv_nsec - modified->tv_nsec);
    return ns > -UNSURE_NS && ns < UNSURE_NS;
}

struct ad_stamp ad_stamp_of(const char *path)
{
    struct ad_stamp stamp = {0};
    struct stat about;
    if (stat(path, &about) == 0) {
        stamp.device = about.st_dev;
        stamp.inode = about.st_ino;
        stamp.size = about.st_size;
        stamp.modified = about.st_mtim;
        stamp.unsure = is_recent(&about.st_mtim);
    }
    return stamp;
}

bool ad_stamp_is_there(const struct ad_stamp *stamp)
{
    return stamp->inode != 0 || stamp->device != 0;
}

bool ad_stamp_same(const struct ad_stamp *a, const struct ad_stamp *b)
{
    return !a->unsure && !b->unsure && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct ad_version_stamp *x = a;
    const struct ad_version_stamp *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* The stamp of <folder>/<name>/<file>, or with name NULL <folder>/<file>; false: out of memory. */
static bool stamp_weights(const char *folder, const char *name, const char *file,
                          struct ad_stamp *stamp)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s%s", folder, name ? name : "", name ? "/" : "", file) <
        0) {
        return false;
    }
    *stamp = ad_stamp_of(path);
    free(path);
    return true;
}

/* Without folders: the file beside config.json, if it is there. False: out of memory. */
static bool stamp_flat(const char *folder, struct ad_stamps *stamps)
{
    struct ad_version_stamp *version = &stamps->versions[0];
    if (!stamp_weights(folder, NULL, stamps->file, &version->weights)) {
        return false;
    }
    stamps->is_flat = ad_stamp_is_there(&version->weights);
    version->number = 1;
    stamps->n_versions = stamps->is_flat ? 1 : 0;
    return true;
}

static enum ad_status stamp_versions(const struct ad_names *names, const char *folder,
                                     const char *file, bool needs_weights,
                                     struct ad_stamps *stamps, struct ad_error *error)
{
    stamps->file = strdup(file);
    stamps->needs_weights = needs_weights;
    stamps->versions = calloc(names->n + 1, sizeof *stamps->versions);
    bool enough = stamps->file && stamps->versions;
    for (size_t i = 0; i < names->n && enough; i++) {
        struct ad_version_stamp *version = &stamps->versions[stamps->n_versions];
        version->number = ad_scan_version(names->items[i]);
        if (version->number == 0) {
            continue;
        }
        stamps->n_versions++;
        enough = !needs_weights ||
                 stamp_weights(folder, names->items[i], file, &version->weights);
    }
    if (enough && needs_weights && stamps->n_versions == 0) {
        enough = stamp_flat(folder, stamps);
    }
    if (!enough) {
        return ad_fail(error, AD_INTERNAL, "%s: out of memory", folder);
    }
    qsort(stamps->versions, stamps->n_versions, sizeof *stamps->versions,
          compare_numbers);
    return AD_OK;
}

enum ad_status ad_stamps_take_versions(struct ad_stamps *stamps, const char *folder,
                                       const char *file, bool needs_weights,
                                       const struct ad_log *log, struct ad_error *error)
{
    struct ad_names names;
    enum ad_status status = ad_scan_folders(folder, log, &names, error);
    if (status) {
        return status;
    }
    struct ad_stamps taken = {.taken = true, .config = stamps->config};
    status = stamp_versions(&names, folder, file, needs_weights, &taken, error);
    ad_names_reset(&names);
    if (status) {
        ad_stamps_reset(&taken);
        return status;
    }
    ad_stamps_reset(stamps);
    *stamps = taken;
    return AD_OK;
}

static bool same_versions(const struct ad_stamps *a, const struct ad_stamps *b)
{
    if (a->n_versions != b->n_versions || a->is_flat != b->is_flat) {
        return false;
    }
    for (size_t i = 0; i < a->n_versions; i++) {
        if (a->versions[i].number != b->versions[i].number ||
            !ad_stamp_same(&a->versions[i].weights, &b->versions[i].weights)) {
            return false;
        }
    }
    return true;
}

bool ad_stamps_hold(const struct ad_stamps *stamps, const char *folder)
{
    char *path = NULL;
    if (!stamps->taken || asprintf(&path, "%s/config.json", folder) < 0) {
        return false;
    }
    const struct ad_stamp config = ad_stamp_of(path);
    free(path);
    if (!ad_stamp_same(&stamps->config, &config)) {
        return false;
    }
    if (!stamps->file) {
        return true;
    }
    struct ad_stamps now = {0};
    const bool same =
        ad_stamps_take_versions(&now, folder, stamps->file, stamps->needs_weights, NULL,
                                NULL) == AD_OK &&
        same_versions(stamps, &now);
    ad_stamps_reset(&now);
    return same;
}

void ad_stamps_reset(struct ad_stamps *stamps)
{
    free(stamps->file);
    free(stamps->versions);
    memset(stamps, 0, sizeof *stamps);
}

const struct ad_version_stamp *ad_stamps_find(const struct ad_stamps *stamps,
                                              uint64_t number)
{
    for (size_t i = 0; i < stamps->n_versions; i++) {
        if (stamps->versions[i].number == number) {
            return &stamps->versions[i];
        }
    }
    return NULL;
}
