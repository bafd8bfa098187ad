/* listeners.h - everything that the options want listened on. */
#ifndef AD_HTTP_LISTENERS_H
#define AD_HTTP_LISTENERS_H

#include "base/error.h"
#include "base/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ad_listener {
    char *name;    /* owned: the address, or the path of a unix socket */
    bool admin;    /* for operators */
    bool is_unix;  /* a unix socket, which has no port */
    uint16_t port; /* it is bound to */
    int fd;        /* owned until whoever serves it takes it and sets -1 */
};

/* Owner: the server. {0} is an empty one. The first is a TCP listener and not the admin one. */
struct ad_listeners {
    struct ad_listener *items;
    size_t n;
    dev_t device; /* of the unix socket's file, to know it again, as is the next */
    ino_t inode;
};

/* Can the options be read? Opens nothing, so that what is in use does not matter. AD_INVALID. */
enum ad_status ad_listeners_check(const struct ad_options *options,
                                  struct ad_error *error) AD_MUST_CHECK;

/* Open all of them. Several addresses share one port: with port 0, one that is free at all of them
 * is looked for. :: takes IPv4 too, unless an IPv4 address is listed beside it. On failure *listeners
 * is empty. */
enum ad_status ad_listeners_open(const struct ad_options *options,
                                 struct ad_listeners *listeners,
                                 struct ad_error *error) AD_MUST_CHECK;

/* Close those that are not taken, remove the unix socket's file; empty afterwards. */
void ad_listeners_close(struct ad_listeners *listeners);

#endif
