/* reply.h - an answer on its way out; the only place where a status becomes an HTTP
 * code. */
#ifndef AD_HTTP_REPLY_H
#define AD_HTTP_REPLY_H

#include "base/buffer.h"
#include "base/error.h"
#include "http/timing.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Owner: whoever fills it, until ad_reply_send. {0} is an empty one. */
struct ad_reply {
    enum ad_status status;
    struct ad_buffer body;   /* owned */
    size_t n_json;           /* leading bytes of body that are JSON; the rest is binary */
    const char *allow;       /* for AD_METHOD: the verbs that the path takes; static */
    const char *disposition; /* Content-Disposition; static; NULL: none */
    const char *content_type; /* static; NULL: JSON, or what a binary part makes of it */
    const char *request_id;   /* X-Request-Id; NULL: none */
    const char *coding;       /* Content-Encoding; NULL: none */
    size_t n_uncoded;         /* with a coding: what body.size was, as n_json counts */
    bool varies;              /* with what the client sent as Accept-Encoding */
    const char
        *accept_encoding; /* for AD_MEDIA: the codings that the path takes; static */
    char timing[AD_TIMING_SIZE]; /* Server-Timing; "": none */
    const char *allow_origin;    /* Access-Control-Allow-Origin; NULL: none */
    const char *allow_methods; /* to a preflight, with allow_headers; NULL: it is none */
    const char *allow_headers;
    bool vary_origin;     /* the reply depends on Origin */
    bool empty;           /* no body at all */
    bool no_content;      /* the same, and the code says so */
    bool retry;           /* waiting a second may help */
    unsigned retry_after; /* seconds; 0: as retry says */
    bool close;           /* the connection cannot or should not be used any further */
};

unsigned ad_reply_code(enum ad_status status);
unsigned
ad_reply_number(const struct ad_reply *reply); /* the code that it is sent with */

/* Make the reply {"error": message}, with its status, and "code" where the error has one. */
void ad_reply_set_error(struct ad_reply *reply, const struct ad_error *error);

/* What is sent where there is no memory for a reply: 500, after which the connection ends. To be freed with
 * MHD_destroy_response; may be sent by any number of threads at once. NULL: out of memory. */
struct MHD_Response *ad_reply_create_last_resort(void);
enum MHD_Result ad_reply_send_last_resort(struct MHD_Connection *connection,
                                          struct MHD_Response *last_resort) AD_MUST_CHECK;

/* Queue the reply, which is empty afterwards; its body goes out without a copy. */
enum MHD_Result ad_reply_send(struct MHD_Connection *connection, struct ad_reply *reply,
                              struct MHD_Response *last_resort) AD_MUST_CHECK;

void ad_reply_reset(struct ad_reply *reply);

#endif
