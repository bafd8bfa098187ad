/* index_request.h - the body of POST /v2/repository/index: nothing, {} or {"ready":
 * bool}. */
#ifndef AD_HTTP_INDEX_REQUEST_H
#define AD_HTTP_INDEX_REQUEST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* *ready_only: list only what is ready. text may be NULL when n is 0. AD_INVALID:
 * anything else. */
enum ad_status ad_index_request_parse(const char *text, size_t n, bool *ready_only,
                                      struct ad_error *error) AD_MUST_CHECK;

#endif
