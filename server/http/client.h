/* client.h - whose request it is, when it comes through proxies.
 *
 * A proxy writes down for whom it asks, in Forwarded (RFC 7239) or X-Forwarded-For, behind what the
 * client itself may have written there. So the list is read from its end, and only as long as whoever
 * wrote an item is trusted. An IPv4 address inside IPv6 (::ffff:10.0.0.1) is that IPv4 address
 * everywhere. Pure; what is parsed is immutable; any thread. */
#ifndef AD_HTTP_CLIENT_H
#define AD_HTTP_CLIENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define AD_CLIENT_SIZE 46 /* of an address as text, with its NUL */

struct ad_address {
    unsigned char bytes[16]; /* IPv6, or IPv4 inside it */
};

struct ad_network {
    struct ad_address address; /* no bit is set behind the prefix */
    unsigned n_bits;           /* of the prefix, 0 to 128 */
};

struct ad_proxies {
    struct ad_network *networks;
    size_t n;
    bool local; /* who comes through the unix socket is trusted too */
};

/* What --trusted-proxies says: addresses, networks (10.0.0.0/8) and the word unix, parted by commas;
 * list NULL: none. AD_INVALID: an item that is none of these. On failure there is nothing to reset. */
enum ad_status ad_proxies_parse(const char *list, struct ad_proxies *proxies,
                                struct ad_error *error) AD_MUST_CHECK;
void ad_proxies_reset(struct ad_proxies *proxies);

/* address NULL: a unix socket. */
bool ad_proxies_trust(const struct ad_proxies *proxies, const struct ad_address *address);

/* False: it has none, for it comes through a unix socket. */
bool ad_address_of(const struct sockaddr *peer, struct ad_address *address);
void ad_address_text(const struct ad_address *address, char text[AD_CLIENT_SIZE]);

enum ad_forwarding { AD_FORWARDED, AD_X_FORWARDED_FOR };

/* The client's address in the values of one of the two headers, in the order in which they came: the
 * last that is not a trusted proxy's, or the first of all where each is. An item that holds no address
 * ends the search, and what was found behind it counts. False: nothing was found. */
bool ad_client_find(const struct ad_proxies *proxies, enum ad_forwarding kind,
                    const char *const *values, size_t n_values,
                    struct ad_address *address);

#endif
