/* headers.h - what the headers of a request say about its body.
 *
 * The HTTP library takes the first of several Content-Length headers and prefers
 * Transfer-Encoding over it; behind a proxy that decides otherwise, that would let one
 * request hide inside another. So all of them are looked at here, and whatever is
 * ambiguous is refused. */
#ifndef AD_HTTP_HEADERS_H
#define AD_HTTP_HEADERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values are borrowed from the connection and live as long as the request. */
struct ad_headers {
    const char *host;
    const char *content_length; /* NULL: none; so for the others */
    const char *transfer_encoding;
    const char *content_encoding;
    const char *json_length; /* Inference-Header-Content-Length */
    const char *expect;
    const char *accept;
    const char *accept_encoding;
    const char *authorization;
    const char *api_key; /* X-API-Key */
    const char *origin;
    const char *requested_method;  /* Access-Control-Request-Method */
    const char *requested_headers; /* Access-Control-Request-Headers */
    const char *forwarded;
    const char *forwarded_for; /* X-Forwarded-For */
    const char *sequence_id;   /* X-Sequence-Id */
    const char *request_id;    /* X-Request-Id */
    const char *traceparent;   /* W3C trace context */
    const char *server_timing; /* any value: the client wants the header of that name */
    const char *repeated; /* name of a header that came twice with different values */
    const char *bad_name; /* a header name that is not a token */
};

/* Note one header; called for each. value may be NULL. */
void ad_headers_note(struct ad_headers *headers, const char *name, const char *value);

/* Does the header of that name bring a key, whose value nobody is to find later? */
bool ad_headers_brings_key(const char *name);

/* Is it clear where the body ends? version is "HTTP/1.1" and the like. After a failure
 * the connection cannot be used any further. AD_INVALID, or AD_UNSUPPORTED for a
 * coding. */
enum ad_status ad_headers_check_framing(const struct ad_headers *headers,
                                        const char *version,
                                        struct ad_error *error) AD_MUST_CHECK;

/* Is the body encoded as an infer request may be? AD_MEDIA: another Content-Encoding;
 * AD_INVALID: a malformed Inference-Header-Content-Length. */
enum ad_status ad_headers_check_infer(const struct ad_headers *headers,
                                      struct ad_error *error) AD_MUST_CHECK;

/* The same for any other request: AD_MEDIA, a Content-Encoding. */
enum ad_status ad_headers_check_uncoded(const struct ad_headers *headers,
                                        struct ad_error *error) AD_MUST_CHECK;

/* The number that value holds: digits, and white space behind them; false when it is none or too
 * large. */
bool ad_headers_number(const char *value, uint64_t *number);

/* True when a body follows (chunked, or of a length other than 0); *length is 0 when
 * chunked. */
bool ad_headers_body(const struct ad_headers *headers, uint64_t *length);

#endif
