/* routes.h - which paths there are, and who answers them. */
#ifndef AD_HTTP_ROUTES_H
#define AD_HTTP_ROUTES_H

#include "base/buffer.h"
#include "base/error.h"
#include "http/headers.h"
#include "http/keys.h"
#include "http/path.h"
#include "http/reply.h"
#include "http/service.h"
#include "model/loader.h"
#include "sched/request.h"

#include <stdbool.h>

/* What a path means: its route's variable segments. Strings are the path's. */
struct ad_target {
    const char *model;   /* NULL: the route has none */
    const char *version; /* NULL: none was given */
    const char *region;  /* of shared memory; NULL: the route has none */
    const char *id;      /* of a sequence; NULL: the route has none */
};

/* What a handler is asked. All of it is borrowed. */
struct ad_ask {
    const struct ad_target *target;
    const struct ad_headers *headers;
    const struct ad_buffer *body; /* of a POST */
    bool posted;                  /* POST, else GET or HEAD */
    const struct ad_key *key;     /* by which it was let in; NULL: none was needed */
};

/* Answers on the I/O thread; fills reply, or returns a failure in error. */
typedef enum ad_status ad_handler(const struct ad_service *service,
                                  const struct ad_ask *ask, struct ad_reply *reply,
                                  struct ad_error *error);

#define AD_ROUTE_TEXT_SIZE 64 /* for any pattern with a slash before it */

/* HEAD is GET without the body. Static. */
struct ad_route {
    const char
        *pattern;     /* segments joined by '/'; {model}, {version}, {region} and {id} are
                            variable, and {model} may have an end behind it */
    ad_handler *get;  /* NULL: not GET */
    ad_handler *post; /* NULL: not POST, unless infer or command */
    enum ad_form form; /* of an infer request's body, unless its headers say more */
    bool admin;        /* for operators: on the admin listener, where there is one */
    bool open;         /* needs no key and no certificate: health */
    bool infer;        /* POST goes to a worker */
    bool moves;        /* infer is true, and GET, POST and DELETE move a sequence */
    bool gradient;     /* infer is true, and gradients are wanted */
    bool command;      /* POST goes to the loader */
    enum ad_command_kind kind;
};

/* Does POST on it have an answer? */
static inline bool ad_route_posts(const struct ad_route *route)
{
    return route->post || route->infer || route->command;
}

/* The route of a path, or NULL; *target receives what its variable segments hold. The end of a segment that
 * is the route's ("M:predict") is cut off in the path. */
const struct ad_route *ad_route_find(struct ad_path *path, struct ad_target *target);

/* AD_METHOD: the route does not take the verb, but those of ad_route_allow. */
enum ad_status ad_route_check_verb(const struct ad_route *route, const char *verb,
                                   struct ad_error *error) AD_MUST_CHECK;

const char *ad_route_allow(const struct ad_route *route); /* "GET, HEAD"; static */

#endif
