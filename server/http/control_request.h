/* control_request.h - POST /v2/repository/models/{m}/load and unload: name and body -> a command. */
#ifndef AD_HTTP_CONTROL_REQUEST_H
#define AD_HTTP_CONTROL_REQUEST_H

#include "base/error.h"
#include "model/loader.h"

#include <stddef.h>

/* The body is empty, {} or
 *     load    {"parameters": {"config": "<config.json>", "file:1/model.safetensors": "<base64>"}}
 *     unload  {"parameters": {"unload_dependents": bool}}, which nothing here has
 * and anything else is refused. kind is AD_COMMAND_LOAD or AD_COMMAND_UNLOAD. *command is the
 * caller's. AD_INVALID: the model's name could lead out of the repository or is no name, or the
 * body is bad; nothing has touched the disk. AD_INTERNAL: out of memory. */
enum ad_status ad_control_request_parse(enum ad_command_kind kind, const char *model,
                                        const char *body, size_t n,
                                        struct ad_command **command,
                                        struct ad_error *error) AD_MUST_CHECK;

#endif
