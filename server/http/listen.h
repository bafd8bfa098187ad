/* listen.h - the socket that the server listens on. */
#ifndef AD_HTTP_LISTEN_H
#define AD_HTTP_LISTEN_H

#include "base/error.h"

#include <stdint.h>

/* Open a listening socket. address is an IPv4 or IPv6 literal, or localhost; "::"
 * takes IPv4 too; port 0 is any free one. *port receives the one it is bound to.
 * AD_INVALID: not an address; AD_UNAVAILABLE: it cannot be bound. The caller closes
 * *fd. */
enum ad_status ad_listen_open(const char *address, uint16_t wanted_port, int *fd,
                              uint16_t *port, struct ad_error *error) AD_MUST_CHECK;

#endif
