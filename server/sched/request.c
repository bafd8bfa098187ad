/* request.c - the life of one inference request.
 *
 * Owner: whoever holds the request (see request.h). No thread of its own. */
#include "sched/request.h"

#include <stdlib.h>

struct ad_request *ad_request_create(void)
{
    struct ad_request *request = calloc(1, sizeof *request);
    if (!request) {
        return NULL;
    }
    request->mode.size = sizeof request->mode;
    ad_buffer_init(&request->body);
    ad_buffer_init(&request->reply);
    ad_arena_init(&request->arena);
    return request;
}

void ad_request_free(struct ad_request *request)
{
    if (!request) {
        return;
    }
    ad_version_release(request->version);
    ad_buffer_reset(&request->body);
    ad_buffer_reset(&request->reply);
    ad_arena_reset(&request->arena);
    free(request);
}
