/* addresses.c - how many connections are open from each address: a hash table of those that have one.
 * Owner: the connections, which guard it. */
#include "http/addresses.h"
#include "http/client.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK_BYTES 8 /* of an IPv6 address */

struct ad_address_count {
    struct ad_address_count *next;
    unsigned char bytes[AD_ADDRESS_BYTES];
    size_t n; /* over 0 */
};

struct ad_source ad_source_of(const struct sockaddr *address)
{
    struct ad_source key = {.known = false};
    struct ad_address whole;
    struct in6_addr in6;
    key.known = ad_address_of(address, &whole);
    if (key.known) {
        memcpy(&in6, whole.bytes, sizeof in6);
        memcpy(key.bytes, whole.bytes,
               IN6_IS_ADDR_V4MAPPED(&in6) ? AD_ADDRESS_BYTES : NETWORK_BYTES);
    }
    return key;
}

/* FNV-1a. Who owns many networks can fill one bucket, but no longer than connections are allowed. */
static size_t bucket_of(const struct ad_source *address)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < AD_ADDRESS_BYTES; i++) {
        hash = (hash ^ address->bytes[i]) * 16777619u;
    }
    return (hash ^ hash >> 16) % AD_ADDRESSES_BUCKETS;
}

/* Where the count is linked, or the end of its list. */
static struct ad_address_count **find(struct ad_address_count **at,
                                      const struct ad_source *address)
{
    while (*at && memcmp((*at)->bytes, address->bytes, AD_ADDRESS_BYTES) != 0) {
        at = &(*at)->next;
    }
    return at;
}

size_t ad_addresses_count(const struct ad_addresses *addresses,
                          const struct ad_source *address)
{
    struct ad_address_count *first = addresses->buckets[bucket_of(address)];
    struct ad_address_count **found = find(&first, address);
    return address->known && *found ? (*found)->n : 0;
}

bool ad_addresses_add(struct ad_addresses *addresses, const struct ad_source *address)
{
    if (!address->known) {
        return true;
    }
    struct ad_address_count **at = find(&addresses->buckets[bucket_of(address)], address);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at) {
            return false;
        }
        memcpy((*at)->bytes, address->bytes, AD_ADDRESS_BYTES);
    }
    (*at)->n++;
    return true;
}

void ad_addresses_remove(struct ad_addresses *addresses, const struct ad_source *address)
{
    struct ad_address_count **at = find(&addresses->buckets[bucket_of(address)], address);
    if (address->known && *at && --(*at)->n == 0) {
        struct ad_address_count *gone = *at;
        *at = gone->next;
        free(gone);
    }
}

void ad_addresses_reset(struct ad_addresses *addresses)
{
    for (size_t i = 0; i < AD_ADDRESSES_BUCKETS; i++) {
        while (addresses->buckets[i]) {
            struct ad_address_count *gone = addresses->buckets[i];
            addresses->buckets[i] = gone->next;
            free(gone);
        }
    }
}
