/* addresses.h - how many connections are open from each address. Not thread-safe. */
#ifndef AD_HTTP_ADDRESSES_H
#define AD_HTTP_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define AD_ADDRESS_BYTES 16
#define AD_ADDRESSES_BUCKETS 1024

/* Whom a connection counts for. An IPv4 address counts as such however it came. Whoever has one IPv6
 * address has all that share its first 64 bits, so these count as one. */
struct ad_source {
    unsigned char bytes[AD_ADDRESS_BYTES];
    bool known; /* false: a unix socket, whose clients have none */
};

struct ad_address_count;

/* Owner: whoever embeds it. Begins as zeros. */
struct ad_addresses {
    struct ad_address_count *buckets[AD_ADDRESSES_BUCKETS];
};

/* address is as long as its family has it. */
struct ad_source ad_source_of(const struct sockaddr *address);

size_t ad_addresses_count(const struct ad_addresses *addresses,
                          const struct ad_source *address);

/* One more; false when out of memory, and it is not counted. One that is not known is not counted. */
bool ad_addresses_add(struct ad_addresses *addresses, const struct ad_source *address);

/* One less of those that were added. */
void ad_addresses_remove(struct ad_addresses *addresses, const struct ad_source *address);

void ad_addresses_reset(struct ad_addresses *addresses);

#endif
