/* cors.h - which pages may use the API from a browser, and what a preflight may ask.
 *
 * A browser lets a page read the answers of another origin only where the answers say so, and asks
 * before it sends what a form could not send (the Fetch standard calls it CORS). Nothing of it keeps
 * anybody but a browser out. Credentials of the browser's own (cookies, certificates) are never asked
 * for; a key that the page sends is none of these. Immutable; any thread. */
#ifndef AD_HTTP_CORS_H
#define AD_HTTP_CORS_H

#include "base/error.h"
#include "base/words.h"

#include <stdbool.h>

struct ad_cors {
    struct ad_words origins; /* "https://example.org:8443"; none: nothing is allowed */
    bool all;                /* any origin; origins is then empty */
};

/* What --cors-allow-origins says; list NULL: nothing. AD_INVALID: a word that is no origin, or other
 * words beside '*'. On failure there is nothing to reset. */
enum ad_status ad_cors_parse(const char *list, struct ad_cors *cors,
                             struct ad_error *error) AD_MUST_CHECK;
void ad_cors_reset(struct ad_cors *cors);

/* Is any origin allowed? */
bool ad_cors_is_on(const struct ad_cors *cors);

/* Access-Control-Allow-Origin for a request with this Origin (NULL: it has none): "*", or origin
 * itself, or NULL where it is not allowed. */
const char *ad_cors_allow(const struct ad_cors *cors, const char *origin);

/* Access-Control-Allow-Headers for a preflight that asks for these (NULL: for none): the same where
 * they are names of headers, else those that we know; requested itself or static. */
const char *ad_cors_headers(const char *requested);

#define AD_CORS_EXPOSED                                                           \
    "Inference-Header-Content-Length, X-Request-Id, Server-Timing, Retry-After, " \
    "WWW-Authenticate, Allow"
#define AD_CORS_MAX_AGE "7200" /* seconds; browsers believe no more */

#endif
