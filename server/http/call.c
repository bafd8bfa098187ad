/* call.c - one HTTP request from its headers to its reply. Runs on the connection's
 * I/O thread.
 *
 * The library takes a reply at two moments only: before the body, which ends the
 * connection, and after it. A client that writes its body before it reads would not
 * see a reply of the first kind. So only what is too large, or where the end of the
 * body is unclear, or whose client waits for our consent (Expect), is refused before
 * the body. The body of any other refused request is read and thrown away, as much of
 * it as a good request may have, and the connection stays in use. */
#include "http/call.h"
#include "http/infer.h"

#include <stdlib.h>
#include <string.h>

#define CONTROL_BODY_LIMIT ((uint64_t)64 << 10) /* where no worker answers */
#define FIRST_RESERVE \
    ((uint64_t)256 << 10) /* an announced length costs no more than this */

struct ad_call *ad_call_create(struct ad_service *service,
                               struct MHD_Connection *connection)
{
    struct ad_call *call = calloc(1, sizeof *call);
    if (!call) {
        return NULL;
    }
    call->service = service;
    call->connection = connection;
    call->n_discardable = service->options->http_max_input_size;
    ad_buffer_init(&call->body);
    return call;
}

void ad_call_free(struct ad_call *call)
{
    if (!call) {
        return;
    }
    if (call->parked) {
        atomic_fetch_sub(&call->service->n_parked, 1);
    }
    ad_buffer_reset(&call->body);
    ad_request_free(call->request);
    free(call);
}

/* Queue the reply, with what holds for all replies. */
static enum MHD_Result send_reply(struct ad_call *call, struct ad_reply *reply)
{
    if (call->route && reply->status == AD_METHOD) {
        reply->allow = ad_route_allow(call->route);
    }
    reply->retry = reply->retry || call->retry;
    reply->close = reply->close || atomic_load(&call->service->stopping);
    if (call->route && call->route->infer) {
        ad_infer_log(call, reply);
    }
    ad_request_free(call->request);
    call->request = NULL;
    ad_buffer_reset(&call->body);
    return ad_reply_send(call->connection, reply);
}

static enum MHD_Result send_error(struct ad_call *call, bool close)
{
    struct ad_reply reply = {.close = close};
    ad_reply_set_error(&reply, &call->error);
    return send_reply(call, &reply);
}

static enum MHD_Result note_header(void *context, enum MHD_ValueKind kind,
                                   const char *name, const char *value)
{
    (void)kind;
    ad_headers_note(context, name, value);
    return MHD_YES;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static enum ad_status fail_too_large(struct ad_call *call, const char *prefix,
                                     uint64_t n_bytes)
{
    if (call->body_limit < call->service->options->http_max_input_size) {
        return ad_fail(&call->error, AD_TOO_LARGE,
                       "request body of %s%llu bytes is over the limit of %llu bytes for "
                       "this path",
                       prefix, (unsigned long long)n_bytes,
                       (unsigned long long)call->body_limit);
    }
    return ad_fail(&call->error, AD_TOO_LARGE,
                   "request body of %s%llu bytes is over the limit of %llu bytes "
                   "(--http-max-input-size)",
                   prefix, (unsigned long long)n_bytes,
                   (unsigned long long)call->body_limit);
}

/* Find out who answers, and everything that speaks against it before the body is
 * there. */
static enum ad_status check_request(struct ad_call *call, const char *url,
                                    const char *verb, uint64_t body_length)
{
    const struct ad_options *options = call->service->options;
    enum ad_status status = ad_path_parse(&call->path, url, &call->error);
    if (status) {
        return status;
    }
    call->route = ad_route_find(&call->path, &call->target);
    if (!call->route) {
        return ad_fail(&call->error, AD_NOT_FOUND, "Not Found: no such path: %.200s",
                       url);
    }
    status = ad_route_check_verb(call->route, verb, &call->error);
    if (status) {
        return status;
    }
    call->posted = strcmp(verb, "POST") == 0;
    call->body_limit = options->http_max_input_size;
    if (!call->route->infer) {
        call->body_limit = smaller(call->body_limit, CONTROL_BODY_LIMIT);
    }
    if (body_length > call->body_limit) {
        return fail_too_large(call, "", body_length);
    }
    return call->route->infer ? ad_infer_begin(call) : AD_OK;
}

/* May the body of a refused request be read and thrown away? */
static bool is_discardable(const struct ad_call *call, uint64_t body_length)
{
    bool waits = call->headers.expect != NULL; /* for our consent, and need not send it */
    return !waits && body_length <= call->service->options->http_max_input_size &&
           call->error.status != AD_TOO_LARGE;
}

enum MHD_Result ad_call_begin(struct ad_call *call, const char *url, const char *verb,
                              const char *version)
{
    uint64_t body_length = 0;
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, note_header,
                              &call->headers);
    if (ad_headers_check_framing(&call->headers, version, &call->error) != AD_OK) {
        return send_error(call, true);
    }
    bool has_body = ad_headers_body(&call->headers, &body_length);
    if (check_request(call, url, verb, body_length) != AD_OK) {
        if (has_body && !is_discardable(call, body_length)) {
            return send_error(call, true);
        }
        return MHD_YES;
    }
    /* Also makes sure that an empty body is a string. */
    if (!ad_buffer_reserve(&call->body, (size_t)smaller(body_length, FIRST_RESERVE))) {
        ad_fail(&call->error, AD_INTERNAL, "out of memory");
    }
    return MHD_YES;
}

static enum MHD_Result discard(struct ad_call *call, size_t n)
{
    ad_buffer_reset(&call->body);
    if (n > call->n_discardable) {
        return MHD_NO;
    }
    call->n_discardable -= n;
    return MHD_YES;
}

enum MHD_Result ad_call_receive(struct ad_call *call, const char *bytes, size_t n)
{
    call->n_received += n;
    if (call->error.status) {
        return discard(call, n);
    }
    /* Only a chunked body can get over the limit here. */
    if (n > call->body_limit - call->body.size) {
        (void)fail_too_large(call, "at least ", call->n_received);
        return discard(call, n);
    }
    if (!ad_buffer_append(&call->body, bytes, n)) {
        ad_fail(&call->error, AD_INTERNAL,
                "out of memory for a request body of %zu bytes", call->n_received);
        return discard(call, n);
    }
    return MHD_YES;
}

static enum MHD_Result answer_control(struct ad_call *call)
{
    struct ad_reply reply = {.status = AD_OK};
    ad_handler *handler = call->posted ? call->route->post : call->route->get;
    const struct ad_ask ask = {&call->target, &call->headers, &call->body, call->posted};
    if (handler(call->service, &ask, &reply, &call->error) != AD_OK) {
        ad_reply_reset(&reply);
        return send_error(call, false);
    }
    return send_reply(call, &reply);
}

enum MHD_Result ad_call_finish(struct ad_call *call)
{
    if (call->error.status == AD_OK && !call->route->infer) {
        return answer_control(call);
    }
    if (call->error.status == AD_OK && !call->parked) {
        if (ad_infer_submit(call) == AD_OK) {
            return MHD_YES;
        }
    }
    if (call->error.status) {
        return send_error(call, false);
    }
    struct ad_reply reply = {.status = AD_OK};
    ad_infer_take_reply(call, &reply);
    return send_reply(call, &reply);
}
