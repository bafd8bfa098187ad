/* listeners.h - everything that the options want listened on. */
#ifndef AD_HTTP_LISTENERS_H
#define AD_HTTP_LISTENERS_H

#include "base/error.h"
#include "base/options.h"
#include "base/passed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct ad_listener {
    char *name;    /* owned: the address, or the path of a unix socket */
    bool admin;    /* for operators */
    bool is_unix;  /* a unix socket, which has no port */
    bool passed;   /* somebody else has opened it, and may go on to use it */
    uint16_t port; /* it is bound to */
    struct sockaddr_storage address; /* the same with its address; of size bytes */
    socklen_t size;
    int fd; /* owned until whoever serves it takes it and sets -1 */
};

#define AD_LISTENERS_ADMIN "admin"

/* Owner: the server. {0} is an empty one. The first is not an admin one. */
struct ad_listeners {
    struct ad_listener *items;
    size_t n;
    dev_t device; /* of the unix socket's file, to know it again, as is the next */
    ino_t inode;
};

/* Can the options be read? Opens nothing, so that what is in use does not matter. AD_INVALID. */
enum ad_status ad_listeners_check(const struct ad_options *options,
                                  struct ad_error *error) AD_MUST_CHECK;

/* Open all of them, or take what was passed: a socket named AD_LISTENERS_ADMIN in place of the admin
 * listener, others in place of all public ones. passed may be NULL: nothing was. Several addresses
 * share one port: with port 0, one that is free at all of them is looked for. :: takes IPv4 too, unless
 * an IPv4 address is listed beside it. On failure *listeners is empty. */
enum ad_status ad_listeners_open(const struct ad_options *options,
                                 struct ad_passed *passed, struct ad_listeners *listeners,
                                 struct ad_error *error) AD_MUST_CHECK;

/* Is one of them for operators? */
bool ad_listeners_have_admin(const struct ad_listeners *listeners);

/* Close those that are not taken, remove the unix socket's file; empty afterwards. */
void ad_listeners_close(struct ad_listeners *listeners);

#endif
