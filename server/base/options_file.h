/* options_file.h - options out of a JSON file. */
#ifndef AD_BASE_OPTIONS_FILE_H
#define AD_BASE_OPTIONS_FILE_H

#include "base/error.h"
#include "base/options_value.h"

#include <stddef.h>

/* Read the file that path names. AD_INVALID: it cannot be read, is not what it should be, or holds
 * something that no option takes. */
enum ad_status ad_options_read_file(struct ad_options_reader *reader,
                                    const char *path) AD_MUST_CHECK;

/* The same with the file's content at hand; name is what messages call it. */
enum ad_status ad_options_read_json(struct ad_options_reader *reader, const char *bytes,
                                    size_t n, const char *name) AD_MUST_CHECK;

#endif
