/* error.h - why something could not be served: a status and one line for whoever asked.
 *
 * Everything in the daemon that can fail returns an enum ad_status and writes the reason to the
 * caller's struct ad_error (which may be NULL). The first failure stays. Only http/reply.c turns a
 * status into an HTTP code. */
#ifndef AD_BASE_ERROR_H
#define AD_BASE_ERROR_H

#include <stdarg.h>

#define AD_MUST_CHECK __attribute__((warn_unused_result))

#define AD_STATUS_LIST(X)                                                              \
    X(AD_OK, "ok")                                                                     \
    X(AD_INVALID, "bad request") /* the caller's request or configuration is wrong */  \
    X(AD_UNAUTHORIZED, "unauthorized") /* no key or certificate, or a wrong one */     \
    X(AD_FORBIDDEN, "forbidden")       /* who asks is known, and may not */            \
    X(AD_NOT_FOUND, "not found")       /* no such path, model, version or file */      \
    X(AD_METHOD, "method not allowed") /* the path is known, the verb is not */        \
    X(AD_CONFLICT, "conflict")         /* a sequence that is lost or busy */           \
    X(AD_TOO_LARGE, "too large")       /* over a configured limit, which is named */   \
    X(AD_HEADERS_TOO_LARGE, "headers too large") /* over --http-max-header-size */     \
    X(AD_RATE_LIMITED, "too many requests")      /* a key over its rate */             \
    X(AD_MEDIA, "unsupported encoding")  /* Content-Encoding that is not offered */    \
    X(AD_NONFINITE, "not representable") /* NaN or infinity that JSON cannot carry */  \
    X(AD_UNSUPPORTED, "not offered") /* an extension that this daemon does not have */ \
    X(AD_CANCELED, "canceled")       /* the client has gone */                         \
    X(AD_UNAVAILABLE, "unavailable") /* not now: queue full, not loaded, stopping */   \
    X(AD_INTERNAL, "internal error") /* our fault, memory included */

enum ad_status {
#define AD_STATUS_ENUM(name, text) name,
    AD_STATUS_LIST(AD_STATUS_ENUM)
#undef AD_STATUS_ENUM
};

struct ad_error {
    enum ad_status status; /* AD_OK while nothing has failed */
    const char *code;      /* for programs, "sequence_lost"; static; NULL: none */
    char message[1024];    /* one line, complete on its own, valid UTF-8 */
};

/* The text of a status. Static. */
const char *ad_status_text(enum ad_status status);

/* Record a failure unless one is recorded already, and return status either way. Bytes of the
 * message that are not valid UTF-8, and control characters, become '?'. error may be NULL. */
enum ad_status ad_fail(struct ad_error *error, enum ad_status status, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

/* The same with a code. */
enum ad_status ad_fail_code(struct ad_error *error, enum ad_status status,
                            const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void ad_error_clear(struct ad_error *error);

#endif
