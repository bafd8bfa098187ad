/* logging_request.h - the log's settings as the protocol's logging extension writes them. */
#ifndef AD_HTTP_LOGGING_REQUEST_H
#define AD_HTTP_LOGGING_REQUEST_H

#include "base/error.h"
#include "base/log_control.h"
#include "http/json_writer.h"

#include <stddef.h>

/* The body of POST /v2/logging: nothing, or an object with any of
 *     {"log_file": "a.log", "log_info": true, "log_warning": true, "log_error": true,
 *      "log_verbose_level": 0, "log_format": "default", "ISO8601" or "json"}.
 * text may be NULL when n is 0. AD_INVALID: the message names the setting, what it has to be and what
 * came. */
enum ad_status ad_logging_request_parse(const char *text, size_t n,
                                        struct ad_log_change *change,
                                        struct ad_error *error) AD_MUST_CHECK;

/* All settings, as GET and POST answer. */
void ad_logging_write(struct ad_json *json, const struct ad_log_settings *settings);

#endif
