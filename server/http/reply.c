/* reply.c - an answer on its way out. Runs on the I/O thread of the connection. */
#include "http/reply.h"
#include "http/cors.h"
#include "http/json_writer.h"

#include <stdio.h>
#include <stdlib.h>

/* Nobody reads it; the log and the counters do. The number is the one that proxies use. */
#define CLIENT_CLOSED_REQUEST 499

unsigned ad_reply_code(enum ad_status status)
{
    switch (status) {
    case AD_OK:
        return MHD_HTTP_OK;
    case AD_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case AD_UNAUTHORIZED:
        return MHD_HTTP_UNAUTHORIZED;
    case AD_FORBIDDEN:
        return MHD_HTTP_FORBIDDEN;
    case AD_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case AD_METHOD:
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    case AD_CONFLICT:
        return MHD_HTTP_CONFLICT;
    case AD_CANCELED:
        return CLIENT_CLOSED_REQUEST;
    case AD_TOO_LARGE:
        return MHD_HTTP_CONTENT_TOO_LARGE;
    case AD_HEADERS_TOO_LARGE:
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    case AD_RATE_LIMITED:
        return MHD_HTTP_TOO_MANY_REQUESTS;
    case AD_MEDIA:
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case AD_NONFINITE:
        return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case AD_UNSUPPORTED:
        return MHD_HTTP_NOT_IMPLEMENTED;
    case AD_UNAVAILABLE:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case AD_INTERNAL:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

unsigned ad_reply_number(const struct ad_reply *reply)
{
    return reply->no_content ? MHD_HTTP_NO_CONTENT : ad_reply_code(reply->status);
}

void ad_reply_set_error(struct ad_reply *reply, const struct ad_error *error)
{
    ad_buffer_reset(&reply->body);
    reply->status = error->status;
    struct ad_json json = ad_json_to(&reply->body);
    ad_json_open(&json, '{');
    ad_json_string_member(&json, "error", error->message);
    if (error->code) {
        ad_json_string_member(&json, "code", error->code);
    }
    ad_json_close(&json, '}');
    if (!ad_json_ok(&json)) {
        ad_buffer_reset(&reply->body);
    }
    reply->n_json = reply->body.size;
}

void ad_reply_reset(struct ad_reply *reply)
{
    ad_buffer_reset(&reply->body);
    *reply = (struct ad_reply){0};
}

static struct MHD_Response *create_no_memory(void)
{
    static char text[] = "{\"error\":\"out of memory\"}";
    return MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
}

/* The body becomes the response's. NULL: out of memory, and the body is still the
 * reply's. */
static struct MHD_Response *create_response(struct ad_reply *reply)
{
    static char nothing[] = "";
    if ((reply->empty || reply->no_content) && !reply->body.data) {
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    }
    if (!reply->body.data) {
        reply->status = reply->status ? reply->status : AD_INTERNAL;
        return create_no_memory();
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(
            reply->body.size, reply->body.data, free, reply->body.data);
    if (response) {
        ad_buffer_init(&reply->body);
    }
    return response;
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* What tells a browser whether the page may see the reply. */
static bool add_cors(struct MHD_Response *response, const struct ad_reply *reply)
{
    return (!reply->vary_origin ||
            add_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN)) &&
           (!reply->allow_origin ||
            (add_header(response, "Access-Control-Allow-Origin", reply->allow_origin) &&
             add_header(response, "Access-Control-Expose-Headers", AD_CORS_EXPOSED))) &&
           (!reply->allow_methods ||
            (add_header(response, "Access-Control-Allow-Methods", reply->allow_methods) &&
             add_header(response, "Access-Control-Allow-Headers", reply->allow_headers) &&
             add_header(response, "Access-Control-Max-Age", AD_CORS_MAX_AGE)));
}

static bool add_retry(struct MHD_Response *response, const struct ad_reply *reply)
{
    char seconds[16];
    if (!reply->retry && reply->retry_after == 0) {
        return true;
    }
    snprintf(seconds, sizeof seconds, "%u",
             reply->retry_after > 0 ? reply->retry_after : 1);
    return add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
}

static bool add_headers(struct MHD_Response *response, const struct ad_reply *reply,
                        bool binary)
{
    char n_json[24];
    snprintf(n_json, sizeof n_json, "%zu", reply->n_json);
    const char *type = reply->content_type ? reply->content_type
                       : binary            ? "application/octet-stream"
                                           : "application/json";
    return (reply->empty || reply->no_content ||
            add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type)) &&
           (!binary || add_header(response, "Inference-Header-Content-Length", n_json)) &&
           (!reply->disposition ||
            add_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
                       reply->disposition)) &&
           (!reply->allow || add_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow)) &&
           (!reply->coding ||
            add_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, reply->coding)) &&
           (!reply->varies ||
            add_header(response, MHD_HTTP_HEADER_VARY, "Accept-Encoding")) &&
           (!reply->accept_encoding ||
            add_header(response, MHD_HTTP_HEADER_ACCEPT_ENCODING,
                       reply->accept_encoding)) &&
           (!reply->request_id ||
            add_header(response, "X-Request-Id", reply->request_id)) &&
           (!reply->timing[0] || add_header(response, "Server-Timing", reply->timing)) &&
           add_retry(response, reply) && add_cors(response, reply) &&
           /* 401 has to name a way of getting in (RFC 9110, 11.6.1) */
           (reply->status != AD_UNAUTHORIZED ||
            add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer")) &&
           (!reply->close || add_header(response, MHD_HTTP_HEADER_CONNECTION, "close"));
}

struct MHD_Response *ad_reply_create_last_resort(void)
{
    struct MHD_Response *response = create_no_memory();
    if (response &&
        add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json") &&
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close")) {
        return response;
    }
    if (response) {
        MHD_destroy_response(response);
    }
    return NULL;
}

enum MHD_Result ad_reply_send_last_resort(struct MHD_Connection *connection,
                                          struct MHD_Response *last_resort)
{
    return MHD_queue_response(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, last_resort);
}

enum MHD_Result ad_reply_send(struct MHD_Connection *connection, struct ad_reply *reply,
                              struct MHD_Response *last_resort)
{
    size_t n_body = reply->coding ? reply->n_uncoded : reply->body.size;
    bool binary = !reply->content_type && n_body > reply->n_json;
    struct MHD_Response *response = create_response(reply);
    enum MHD_Result result =
        response && add_headers(response, reply, binary)
            ? MHD_queue_response(connection, ad_reply_number(reply), response)
            : ad_reply_send_last_resort(connection, last_resort);
    if (response) {
        MHD_destroy_response(response);
    }
    ad_reply_reset(reply);
    return result;
}
