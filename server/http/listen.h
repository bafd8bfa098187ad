/* listen.h - a socket that a listener listens on. */
#ifndef AD_HTTP_LISTEN_H
#define AD_HTTP_LISTEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Where a TCP listener is bound to, but for its port. */
struct ad_endpoint {
    struct sockaddr_storage address;
    socklen_t size;
    bool v6_only; /* of an IPv6 address: :: does not take IPv4 */
};

/* Read an IPv4 or IPv6 literal, or localhost (127.0.0.1). AD_INVALID: it is none; the message names
 * the option. */
enum ad_status ad_endpoint_parse(const char *option, const char *text,
                                 struct ad_endpoint *endpoint,
                                 struct ad_error *error) AD_MUST_CHECK;

bool ad_endpoint_is_v4(const struct ad_endpoint *endpoint);

/* Make its address one of that port. */
void ad_endpoint_set_port(struct ad_endpoint *endpoint, uint16_t port);

#define AD_LISTEN_NAME_SIZE 128 /* for any address, and any path of a unix socket */

/* What an open socket is bound to: an IP address, a path, or a name that is in no folder, with @ in front.
 * *port is 0 for a unix socket. AD_INTERNAL: the system does not say. */
enum ad_status ad_listen_name(int fd, char text[AD_LISTEN_NAME_SIZE], uint16_t *port,
                              struct ad_error *error) AD_MUST_CHECK;

/* A TCP socket that others have opened becomes as ours are. */
void ad_listen_tune(int fd);

/* Open a listening socket at port, 0 for any free one; *bound receives the one it is bound to. text
 * is the address as messages show it. AD_UNAVAILABLE: it cannot be bound. The caller closes *fd. */
enum ad_status ad_listen_tcp(const struct ad_endpoint *endpoint, const char *text,
                             uint16_t port, int *fd, uint16_t *bound,
                             struct ad_error *error) AD_MUST_CHECK;

/* Could a socket file be at path, with that mode (octal digits)? Whether one is in use is not asked.
 * AD_INVALID: a mode that is none, a path that is too long, a file of another kind. */
enum ad_status ad_listen_check_unix(const char *path, const char *mode,
                                    struct ad_error *error) AD_MUST_CHECK;

/* Check, and listen; a socket on which nobody listens is taken for a left-over and removed.
 * AD_UNAVAILABLE: another process listens on it, or it cannot be made. The caller closes *fd and
 * removes the file. */
enum ad_status ad_listen_unix(const char *path, const char *mode, int *fd,
                              struct ad_error *error) AD_MUST_CHECK;

#endif
