/* path.h - the raw path of a request -> its decoded segments.
 *
 * Splitting comes before decoding, so that an escaped '/' never makes a segment. */
#ifndef AD_HTTP_PATH_H
#define AD_HTTP_PATH_H

#include "base/error.h"

#include <stddef.h>

#define AD_PATH_MAX_SEGMENTS 7   /* v2/models/M/versions/V/sequences/ID */
#define AD_PATH_SEGMENT_SIZE 256 /* of the longest file name, and so model name */

struct ad_path {
    char segments[AD_PATH_MAX_SEGMENTS][AD_PATH_SEGMENT_SIZE];
    size_t n_segments;
};

/* AD_INVALID: a bad escape, a NUL, control character or '/' inside a segment, or a
 * segment that is "." or "..". What is behind "sequences" is an id, which may be any
 * text but for a NUL. AD_NOT_FOUND: more or longer segments than any route
 * has, or an empty one. "/v2/" is "/v2"; no other path may end in '/'. The absolute
 * form (http://host/path) is taken too. */
enum ad_status ad_path_parse(struct ad_path *path, const char *raw,
                             struct ad_error *error) AD_MUST_CHECK;

#endif
