/* edge.c - what speaks against a request wherever it goes. Runs on the connection's I/O thread. */
#include "http/edge.h"

#include <string.h>

static size_t head_size(const struct ad_call *call)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        call->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

enum ad_status ad_edge_check_head(struct ad_call *call, const char *version)
{
    uint64_t limit = call->service->options->http_max_header_size;
    size_t size = head_size(call);
    if (size > limit) {
        return ad_fail(&call->error, AD_HEADERS_TOO_LARGE,
                       "request line and headers of %zu bytes are over the limit of %llu "
                       "bytes (--http-max-header-size)",
                       size, (unsigned long long)limit);
    }
    if (call->client->bad_target) {
        return ad_fail(&call->error, AD_INVALID,
                       "the request's target has a space in it: write %%20");
    }
    if (!call->headers.host && strcmp(version, "HTTP/1.0") != 0) {
        return ad_fail(&call->error, AD_INVALID, "%s needs a Host header", version);
    }
    return AD_OK;
}

/* With an admin listener each route has its place; what only tells about models has both. */
static enum ad_status check_side(struct ad_call *call)
{
    const struct ad_route *route = call->route;
    bool on_admin = call->client->side == AD_SIDE_ADMIN;
    if (!route || !call->service->apart) {
        return AD_OK;
    }
    if (route->admin && !on_admin) {
        return ad_fail(
            &call->error, AD_NOT_FOUND,
            "Not Found: /%s is served on the admin listener (--http-admin-address)",
            route->pattern);
    }
    if (on_admin && route->infer) {
        return ad_fail(&call->error, AD_NOT_FOUND,
                       "Not Found: /%s is not served on the admin listener",
                       route->pattern);
    }
    return AD_OK;
}

enum ad_status ad_edge_check_route(struct ad_call *call)
{
    bool is_open = call->route && call->route->open;
    enum ad_status status = AD_OK;
    if (!is_open && ad_connection_is_extra(call->client)) {
        call->retry = true;
        return ad_fail_code(
            &call->error, AD_UNAVAILABLE, "connections",
            "too many connections: the limit is %llu "
            "(--http-max-connections); try again",
            (unsigned long long)call->service->options->http_max_connections);
    }
    if (!is_open && call->client->peer.session) {
        status = ad_tls_check_peer(call->service->tls, &call->client->peer, &call->error);
        call->refused = status != AD_OK && call->route;
    }
    return status ? status : check_side(call);
}

bool ad_edge_closes(const struct ad_call *call)
{
    uint64_t most = call->service->options->http_max_requests_per_connection;
    return call->client->is_extra || (most > 0 && call->client->n_requests >= most);
}
