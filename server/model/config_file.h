/* config_file.h - a small regular file as a whole. */
#ifndef AD_MODEL_CONFIG_FILE_H
#define AD_MODEL_CONFIG_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Read the file at path into *text, n_bytes and a NUL after them, to be freed. Links are followed.
 * AD_NOT_FOUND: no such file. AD_INVALID: not a regular file, longer than max_bytes, or unreadable.
 * AD_INTERNAL: out of memory. */
enum ad_status ad_config_file_read(const char *path, size_t max_bytes, char **text,
                                   size_t *n_bytes, struct ad_error *error) AD_MUST_CHECK;

#endif
