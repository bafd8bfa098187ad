/* edge.h - what speaks against a request wherever it goes: who sends it, by which listener, in what
 * form. Called on the I/O thread of its connection. */
#ifndef AD_HTTP_EDGE_H
#define AD_HTTP_EDGE_H

#include "base/error.h"
#include "http/call.h"

#include <stdbool.h>

/* Is the head of the request as it should be? version is "HTTP/1.1" and the like. AD_INVALID: no Host,
 * or a target with a space in it; AD_HEADERS_TOO_LARGE. */
enum ad_status ad_edge_check_head(struct ad_call *call,
                                  const char *version) AD_MUST_CHECK;

/* May this client ask for call->route (NULL: the path has none) here? AD_UNAVAILABLE: its connection
 * is one too many; AD_NOT_FOUND: another listener serves the route; AD_UNAUTHORIZED: it has no
 * certificate that is trusted. */
enum ad_status ad_edge_check_route(struct ad_call *call) AD_MUST_CHECK;

/* Does the connection end with this reply? */
bool ad_edge_closes(const struct ad_call *call);

#endif
