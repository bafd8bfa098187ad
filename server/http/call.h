/* call.h - one HTTP request from its headers to its reply.
 *
 * Owner: the connection's I/O thread, which makes it when the headers have come and
 * frees it when the reply has gone or the connection ended. While it is parked
 * (parking.h), a worker's on_done may write `request`, and hands it back; one whose
 * connection has ended it frees. */
#ifndef AD_HTTP_CALL_H
#define AD_HTTP_CALL_H

#include "base/buffer.h"
#include "base/error.h"
#include "http/access.h"
#include "http/connections.h"
#include "http/headers.h"
#include "http/parking.h"
#include "http/path.h"
#include "http/reply.h"
#include "http/request_id.h"
#include "http/routes.h"
#include "http/service.h"
#include "model/loader.h"
#include "sched/request.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ad_call {
    struct ad_service *service;
    struct MHD_Connection *connection; /* NULL: it has ended, with client and headers */
    struct ad_connection *client;
    struct ad_headers headers;
    struct ad_path path;
    const struct ad_route *route; /* NULL: refused before one was found */
    struct ad_target target;
    bool posted;    /* the verb is POST, else GET or HEAD */
    bool preflight; /* a browser asks for permission; it needs no key */
    bool refused;   /* for want of a certificate, key, right or token, as error says */
    struct ad_pass pass; /* by what it was let in */
    struct ad_buffer body;
    uint64_t body_limit;
    uint64_t body_length;  /* as announced; 0: it was not */
    struct ad_error error; /* why it is refused; the rest of the body is then discarded */
    bool retry;            /* refused for now only */
    uint64_t n_discardable; /* bytes that may still be discarded before we hang up */

    size_t n_received;           /* bytes of the whole body, for the log */
    bool parked;                 /* handed over and counted in service->n_parked */
    struct ad_parking parking;   /* how it waits meanwhile */
    bool concluded;              /* counted, and written to the log */
    char id[AD_REQUEST_ID_SIZE]; /* the client's X-Request-Id, or ours */
    const char *verb;            /* static */

    /* An infer or gradient request. */
    struct ad_request *request; /* ours until pushed, and again after on_done */
    bool counted;               /* in its version's statistics */
    bool is_coming;             /* counted in service->n_coming */

    /* A load or unload. */
    struct ad_command *command; /* after on_done; NULL before */
};

/* NULL when out of memory. */
struct ad_call *ad_call_create(struct ad_service *service,
                               struct MHD_Connection *connection,
                               struct ad_connection *client);
void ad_call_free(struct ad_call *call); /* NULL is fine */

/* Answer a request, of which the headers are there, that there is no memory to create a call for. */
enum MHD_Result ad_call_refuse(struct ad_service *service,
                               struct MHD_Connection *connection,
                               const char *verb) AD_MUST_CHECK;

/* Free one whose connection has ended while its work was in hand. */
void ad_call_outlive(struct ad_call *call);

/* The three steps, as the HTTP library calls them: the headers are there, a piece of
 * the body, all of it (and again, when the connection has been resumed). MHD_NO hangs
 * up. */
enum MHD_Result ad_call_begin(struct ad_call *call, const char *url, const char *verb,
                              const char *version) AD_MUST_CHECK;
enum MHD_Result ad_call_receive(struct ad_call *call, const char *bytes,
                                size_t n) AD_MUST_CHECK;
enum MHD_Result ad_call_finish(struct ad_call *call) AD_MUST_CHECK;

#endif
