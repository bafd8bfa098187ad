/* scan.h - the folders inside a folder. */
#ifndef AD_MODEL_SCAN_H
#define AD_MODEL_SCAN_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned by the caller; free it with ad_names_reset. */
struct ad_names {
    char **items;
    size_t n;
    size_t capacity;
};

/* The names of the folders inside path, sorted by bytes; links are followed, names that start with
 * '.' are left out. An entry that cannot be looked at is logged and left out.
 * AD_NOT_FOUND: path does not exist. AD_INVALID: it cannot be read. AD_INTERNAL: out of memory. */
enum ad_status ad_scan_folders(const char *path, const struct ad_log *log,
                               struct ad_names *names,
                               struct ad_error *error) AD_MUST_CHECK;

void ad_names_reset(struct ad_names *names); /* frees; empty afterwards */

/* Whether a name can be a model's: UTF-8 without control characters or '/', 1 to 255 bytes, of which
 * the first is no '.'. */
bool ad_scan_is_servable(const char *name);

/* The number that a version's folder spells, or 0: 1 to 2^63-1 in decimal, without leading zeros. */
uint64_t ad_scan_version(const char *name);

#endif
