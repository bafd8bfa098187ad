/* fuzz_access.c - what decides who is let in, out of any bytes. The first byte says which: k a file of
 * keys, n the networks of proxies, o the origins, a line with an origin and one with headers, f the
 * lines of Forwarded, x those of X-Forwarded-For. */
#include "base/utf8.h"
#include "http/client.h"
#include "http/cors.h"
#include "http/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Success has no message, and a failure one of a line. */
static void check_error(enum ad_status status, const struct ad_error *error)
{
    size_t n = strlen(error->message);
    require(status == error->status && (status == AD_OK || status == AD_INVALID),
            "another status");
    require((n > 0) == (status != AD_OK), "a message and no failure, or none");
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(error->message + i, n - i);
        require(length > 0 && !ad_utf8_is_control(error->message + i, length),
                "more than a line");
        i += length;
    }
}

static void check_key(const struct ad_keys *keys, const struct ad_key *key)
{
    int64_t wait_ns = 0;
    require(ad_keys_find_hash(keys, key->hash) == key, "a key is not found");
    require(key->name && key->name[0] && key->bucket, "half a key");
    require(key->listed || ad_key_allows(key, "any"), "all models, but not this one");
    for (size_t i = 0; i < key->n_models; i++) {
        require(ad_key_allows(key, key->models[i]), "a listed model is refused");
    }
    require(!ad_key_allows(key, "any") || !key->listed || key->n_models > 0,
            "no models, but this one");
    if (key->limit.interval_ns > 0) {
        require(key->limit.capacity_ns >= key->limit.interval_ns, "less than a token");
        require(ad_bucket_take(key->bucket, &key->limit, INT64_MAX / 4, &wait_ns),
                "a full bucket gives nothing");
    }
}

static void fuzz_keys(const char *text, size_t n)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_keys *keys = NULL;
    struct ad_keys *again = NULL;
    enum ad_status status = ad_keys_parse(text, n, "fuzz.json", NULL, &keys, &error);
    check_error(status, &error);
    require((keys != NULL) == (status == AD_OK), "keys and a failure, or neither");
    for (size_t i = 0; keys && i < keys->n; i++) {
        check_key(keys, &keys->items[i]);
    }
    if (keys) {
        require(ad_keys_parse(text, n, "fuzz.json", keys, &again, NULL) == AD_OK,
                "not the same again");
        require(again->items[0].bucket == keys->items[0].bucket, "another bucket");
    }
    ad_keys_release(keys);
    ad_keys_release(again);
}

static void fuzz_networks(const char *text)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_proxies proxies;
    check_error(ad_proxies_parse(text, &proxies, &error), &error);
    for (size_t i = 0; i < proxies.n; i++) {
        require(ad_proxies_trust(&proxies, &proxies.networks[i].address) ||
                    proxies.networks[i].n_bits < 96, /* of IPv4 these hold nothing */
                "a network without its own address");
    }
    ad_proxies_reset(&proxies);
}

/* Up to the next end of a line; NULL when there is none. */
static char *take_line(char **rest)
{
    char *line = *rest;
    char *end = line ? strchr(line, '\n') : NULL;
    if (end) {
        *end = '\0';
    }
    *rest = end ? end + 1 : NULL;
    return line;
}

static void fuzz_origins(char *text)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_cors cors;
    const char *list = take_line(&text);
    const char *origin = take_line(&text);
    const char *headers = take_line(&text);
    check_error(ad_cors_parse(list, &cors, &error), &error);
    const char *allowed = ad_cors_allow(&cors, origin);
    require(!allowed || ad_cors_is_on(&cors), "allowed although nothing is");
    require(!allowed || strcmp(allowed, "*") == 0 || allowed == origin,
            "an origin that nobody sent");
    require(!allowed || !strpbrk(allowed, " \t\r\n,;\"<>"), "no origin");
    const char *names = ad_cors_headers(headers);
    require(names[0] != '\0' && !strpbrk(names, "\r\n:;\""), "no names of headers");
    for (size_t i = 0; i < cors.origins.n; i++) {
        require(ad_cors_allow(&cors, cors.origins.items[i]) == cors.origins.items[i],
                "a listed origin is refused");
    }
    ad_cors_reset(&cors);
}

static void fuzz_forwarded(enum ad_forwarding kind, char *text)
{
    const char *lines[MAX_LINES];
    struct ad_proxies proxies;
    struct ad_address found;
    size_t n = 0;
    require(ad_proxies_parse("10.0.0.0/8, 2001:db8::/33", &proxies, NULL) == AD_OK,
            "no proxies");
    while (n < MAX_LINES && text) {
        lines[n++] = take_line(&text);
    }
    if (ad_client_find(&proxies, kind, lines, n, &found)) {
        char shown[AD_CLIENT_SIZE];
        struct ad_address again;
        ad_address_text(&found, shown);
        const char *const line = shown;
        require(ad_client_find(&proxies, AD_X_FORWARDED_FOR, &line, 1, &again) &&
                    memcmp(&found, &again, sizeof found) == 0,
                "not an address");
    }
    ad_proxies_reset(&proxies);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data + 1;
    if (size == 0) {
        return 0;
    }
    if (data[0] == 'k') {
        fuzz_keys(bytes, size - 1);
        return 0;
    }
    /* all others are texts; a NUL ends them */
    char *text = malloc(size);
    require(text != NULL, "no memory");
    memcpy(text, bytes, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'n') {
        fuzz_networks(text);
    } else if (data[0] == 'o') {
        fuzz_origins(text);
    } else if (data[0] == 'f' || data[0] == 'x') {
        fuzz_forwarded(data[0] == 'f' ? AD_FORWARDED : AD_X_FORWARDED_FOR, text);
    }
    free(text);
    return 0;
}
