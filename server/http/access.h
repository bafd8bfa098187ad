/* access.h - who may ask: the keys, the pages and the proxies that the options name.
 *
 * Owner: the server. Pages and proxies are immutable; the keys are a table that a reload replaces while
 * requests go on, each with the table that it was let in by. Any thread may check. */
#ifndef AD_HTTP_ACCESS_H
#define AD_HTTP_ACCESS_H

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "http/client.h"
#include "http/cors.h"
#include "http/headers.h"
#include "http/keys.h"
#include "http/routes.h"

#include <stdint.h>

struct ad_access;

/* As the options say, which must outlive it, as must the log. AD_INVALID, AD_NOT_FOUND: one of them
 * cannot be understood, or the file of keys cannot be read. */
enum ad_status ad_access_create(const struct ad_options *options,
                                const struct ad_log *log, struct ad_access **access,
                                struct ad_error *error) AD_MUST_CHECK;

/* Read the keys again; the tokens that a key has left stay. A failure changes nothing. Not to be called
 * by two threads at once. */
enum ad_status ad_access_reload(struct ad_access *access,
                                struct ad_error *error) AD_MUST_CHECK;
void ad_access_free(struct ad_access *access); /* NULL is fine */

const struct ad_cors *ad_access_cors(const struct ad_access *access);
const struct ad_proxies *ad_access_proxies(const struct ad_access *access);

/* By what a request was let in. {0}: nothing yet, or no key was needed. */
struct ad_pass {
    struct ad_keys *keys;     /* a reference */
    const struct ad_key *key; /* in keys; NULL: none that we know */
    unsigned retry_after;     /* seconds, when it is over its rate */
};

/* May this request be served? Takes a token where the route computes. pass is filled also when it is
 * refused. AD_INVALID: two different keys; AD_UNAUTHORIZED, AD_FORBIDDEN, AD_RATE_LIMITED. */
enum ad_status ad_access_check(struct ad_access *access, const struct ad_headers *headers,
                               const struct ad_route *route,
                               const struct ad_target *target, int64_t now_ns,
                               struct ad_pass *pass,
                               struct ad_error *error) AD_MUST_CHECK;
void ad_pass_reset(struct ad_pass *pass);

#endif
