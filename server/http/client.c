/* client.c - whose request it is, when it comes through proxies. Any thread; see client.h. */
#include "http/client.h"
#include "base/words.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"
#define V4_BITS 96 /* what precedes an IPv4 address inside IPv6 */

static const unsigned char v4_prefix[V4_BITS / 8] = {[10] = 0xff, [11] = 0xff};

/* ---- addresses ------------------------------------------------------------------------------- */

/* Part of a header's value. */
struct piece {
    const char *text;
    size_t n;
};

static bool is_v4(const struct ad_address *address)
{
    return memcmp(address->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

static struct ad_address from_v4(const void *bytes)
{
    struct ad_address address;
    memcpy(address.bytes, v4_prefix, sizeof v4_prefix);
    memcpy(address.bytes + sizeof v4_prefix, bytes, 4);
    return address;
}

bool ad_address_of(const struct sockaddr *peer, struct ad_address *address)
{
    if (peer && peer->sa_family == AF_INET) {
        *address = from_v4(&((const struct sockaddr_in *)(const void *)peer)->sin_addr);
        return true;
    }
    if (peer && peer->sa_family == AF_INET6) {
        memcpy(address->bytes,
               &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr,
               sizeof address->bytes);
        return true;
    }
    return false;
}

void ad_address_text(const struct ad_address *address, char text[AD_CLIENT_SIZE])
{
    const bool v4 = is_v4(address);
    text[0] = '\0';
    (void)inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? sizeof v4_prefix : 0),
                    text, AD_CLIENT_SIZE);
}

/* An address without anything around it. */
static bool read_bare(struct piece piece, struct ad_address *address)
{
    char text[AD_CLIENT_SIZE];
    unsigned char v4[4];
    if (piece.n == 0 || piece.n >= sizeof text) {
        return false;
    }
    memcpy(text, piece.text, piece.n);
    text[piece.n] = '\0';
    if (inet_pton(AF_INET, text, v4) == 1) {
        *address = from_v4(v4);
        return true;
    }
    return inet_pton(AF_INET6, text, address->bytes) == 1;
}

static bool is_port(const char *text, size_t n)
{
    bool digits = n >= 1 && n <= 5;
    for (size_t i = 0; i < n && digits; i++) {
        digits = text[i] >= '0' && text[i] <= '9';
    }
    return digits;
}

/* 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80. */
static bool read_node(struct piece node, struct ad_address *address)
{
    const char *colon = memchr(node.text, ':', node.n);
    if (node.n > 0 && node.text[0] == '[') {
        const char *end = memchr(node.text, ']', node.n);
        size_t n = end ? (size_t)(end - node.text) : 0;
        const struct piece inside = {node.text + 1, end ? n - 1 : 0};
        size_t n_rest = end ? node.n - n - 1 : 0;
        return end && memchr(inside.text, ':', inside.n) &&
               (n_rest == 0 || (end[1] == ':' && is_port(end + 2, n_rest - 1))) &&
               read_bare(inside, address);
    }
    size_t n = colon ? (size_t)(colon - node.text) : node.n;
    if (colon && memchr(node.text, '.', n)) {
        return is_port(colon + 1, node.n - n - 1) &&
               read_bare((struct piece){node.text, n}, address);
    }
    return read_bare(node, address);
}

/* ---- trusted networks ------------------------------------------------------------------------ */

/* Does it lie in the network? IPv4 addresses lie in networks of IPv4 alone: ::/0 is all of IPv6. */
static bool contains(const struct ad_network *network, const struct ad_address *address)
{
    const size_t n_bytes = network->n_bits / 8;
    const unsigned n_rest = network->n_bits % 8;
    if (network->n_bits < V4_BITS && is_v4(address)) {
        return false;
    }
    return memcmp(network->address.bytes, address->bytes, n_bytes) == 0 &&
           (n_rest == 0 ||
            (network->address.bytes[n_bytes] ^ address->bytes[n_bytes]) >> (8 - n_rest) ==
                0);
}

bool ad_proxies_trust(const struct ad_proxies *proxies, const struct ad_address *address)
{
    bool trusted = !address && proxies->local;
    for (size_t i = 0; address && i < proxies->n && !trusted; i++) {
        trusted = contains(&proxies->networks[i], address);
    }
    return trusted;
}

/* The length of a prefix, digits without a leading zero; false: it is not one of at most `most`. */
static bool read_bits(const char *text, unsigned most, unsigned *n_bits)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 3 || text[n] != '\0' || (text[0] == '0' && n > 1)) {
        return false;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum = 10 * sum + (unsigned)(text[i] - '0');
    }
    *n_bits = sum;
    return sum <= most;
}

static void clear_rest(struct ad_network *network)
{
    for (unsigned bit = network->n_bits; bit < 128; bit++) {
        network->address.bytes[bit / 8] &= (unsigned char)~(0x80U >> bit % 8);
    }
}

static enum ad_status read_network(const char *word, struct ad_network *network,
                                   struct ad_error *error)
{
    const char *slash = strchr(word, '/');
    const struct piece address = {word, slash ? (size_t)(slash - word) : strlen(word)};
    bool good = read_bare(address, &network->address);
    const bool short_form = good && !memchr(address.text, ':', address.n);
    network->n_bits = 128;
    if (good && slash) {
        good = read_bits(slash + 1, short_form ? 32 : 128, &network->n_bits);
        network->n_bits += short_form ? V4_BITS : 0;
    }
    if (!good) {
        return ad_fail(
            error, AD_INVALID,
            "--trusted-proxies: expected an address, a network like 10.0.0.0/8 "
            "or the word unix, got '%.200s'",
            word);
    }
    const struct ad_address given = network->address;
    clear_rest(network);
    if (memcmp(&given, &network->address, sizeof given) != 0) {
        char text[AD_CLIENT_SIZE];
        ad_address_text(&network->address, text);
        return ad_fail(error, AD_INVALID,
                       "--trusted-proxies: '%.200s' has bits behind its prefix; the "
                       "network is %s/%u",
                       word, text,
                       is_v4(&given) && network->n_bits >= V4_BITS
                           ? network->n_bits - V4_BITS
                           : network->n_bits);
    }
    return AD_OK;
}

static enum ad_status read_words(const struct ad_words *words, struct ad_proxies *proxies,
                                 struct ad_error *error)
{
    enum ad_status status = AD_OK;
    proxies->networks = calloc(words->n, sizeof *proxies->networks);
    if (!proxies->networks) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < words->n && !status; i++) {
        if (strcmp(words->items[i], "unix") == 0) {
            proxies->local = true;
        } else {
            status =
                read_network(words->items[i], &proxies->networks[proxies->n++], error);
        }
    }
    if (status) {
        ad_proxies_reset(proxies);
    }
    return status;
}

enum ad_status ad_proxies_parse(const char *list, struct ad_proxies *proxies,
                                struct ad_error *error)
{
    struct ad_words words = {NULL, 0};
    *proxies = (struct ad_proxies){NULL, 0, false};
    if (!ad_words_split(list, &words)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    enum ad_status status = words.n > 0 ? read_words(&words, proxies, error) : AD_OK;
    ad_words_reset(&words);
    return status;
}

void ad_proxies_reset(struct ad_proxies *proxies)
{
    free(proxies->networks);
    *proxies = (struct ad_proxies){NULL, 0, false};
}

/* ---- headers --------------------------------------------------------------------------------- */

static struct piece trim(struct piece piece)
{
    while (piece.n > 0 && strchr(BLANKS, piece.text[0])) {
        piece.text++;
        piece.n--;
    }
    while (piece.n > 0 && strchr(BLANKS, piece.text[piece.n - 1])) {
        piece.n--;
    }
    return piece;
}

/* Cut off what is behind the last comma. False: nothing is left. */
static bool take_last(struct piece *list, struct piece *item)
{
    if (!list->text) {
        return false;
    }
    size_t start = list->n;
    while (start > 0 && list->text[start - 1] != ',') {
        start--;
    }
    *item = trim((struct piece){list->text + start, list->n - start});
    *list = start > 0 ? (struct piece){list->text, start - 1} : (struct piece){NULL, 0};
    return true;
}

/* A value with or without quotes around it; an address has nothing that needs a backslash. */
static bool unquote(struct piece *value)
{
    bool quoted =
        value->n >= 2 && value->text[0] == '"' && value->text[value->n - 1] == '"';
    if (quoted) {
        *value = (struct piece){value->text + 1, value->n - 2};
    }
    return !memchr(value->text, '"', value->n);
}

/* The value of for= among by=...;for=...;proto=... False: it is not there once. */
static bool find_for(struct piece item, struct piece *value)
{
    static const char name[] = "for=";
    const size_t n_name = sizeof name - 1;
    bool found = false;
    for (size_t start = 0; start <= item.n;) {
        const char *end = memchr(item.text + start, ';', item.n - start);
        size_t n = end ? (size_t)(end - item.text) - start : item.n - start;
        const struct piece pair = trim((struct piece){item.text + start, n});
        if (pair.n >= n_name && strncasecmp(pair.text, name, n_name) == 0) {
            if (found) {
                return false;
            }
            found = true;
            *value = (struct piece){pair.text + n_name, pair.n - n_name};
        }
        start += n + 1;
    }
    return found;
}

static bool read_item(enum ad_forwarding kind, struct piece item,
                      struct ad_address *address)
{
    if (kind == AD_X_FORWARDED_FOR) {
        return read_node(item, address);
    }
    struct piece value = {NULL, 0};
    return find_for(item, &value) && unquote(&value) && read_node(value, address);
}

/* Lists are cut at every comma and each item at every semicolon, in quotes or not. An address holds
 * neither, so the item that a proxy wrote is whole whatever a client wrote before it; a quote that the
 * client left open would otherwise swallow it. */
bool ad_client_find(const struct ad_proxies *proxies, enum ad_forwarding kind,
                    const char *const *values, size_t n_values,
                    struct ad_address *address)
{
    bool found = false;
    for (size_t i = n_values; i-- > 0;) {
        struct piece list = {values[i], strlen(values[i])};
        struct piece item = {NULL, 0};
        while (take_last(&list, &item)) {
            struct ad_address next;
            if (item.n == 0) {
                continue;
            }
            if (!read_item(kind, item, &next)) {
                return found;
            }
            *address = next;
            found = true;
            if (!ad_proxies_trust(proxies, address)) {
                return true;
            }
        }
    }
    return found;
}
