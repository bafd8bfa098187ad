/* keys.c - a table of keys, and how one is found in it. Any thread; see keys.h. */
#include "http/keys.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ad_keys *ad_keys_create(size_t n)
{
    size_t n_bytes = 0;
    if (__builtin_mul_overflow(n, sizeof(struct ad_key), &n_bytes) ||
        __builtin_add_overflow(n_bytes, sizeof(struct ad_keys), &n_bytes)) {
        return NULL;
    }
    struct ad_keys *keys = calloc(1, n_bytes);
    if (keys) {
        atomic_init(&keys->n_users, 1);
        keys->n = n;
    }
    return keys;
}

void ad_keys_hold(struct ad_keys *keys)
{
    atomic_fetch_add_explicit(&keys->n_users, 1, memory_order_relaxed);
}

static void reset_key(struct ad_key *key)
{
    for (size_t i = 0; i < key->n_models; i++) {
        free(key->models[i]);
    }
    free(key->models);
    free(key->name);
    ad_bucket_release(key->bucket);
}

void ad_keys_release(struct ad_keys *keys)
{
    if (!keys ||
        atomic_fetch_sub_explicit(&keys->n_users, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < keys->n; i++) {
        reset_key(&keys->items[i]);
    }
    explicit_bzero(keys, sizeof *keys + keys->n * sizeof keys->items[0]);
    free(keys);
}

bool ad_key_hash(const char *text, size_t n, unsigned char hash[AD_KEY_HASH_SIZE])
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, text, n, hash) == 0;
}

/* Without a branch that depends on the bytes. */
static uint64_t difference(const unsigned char a[AD_KEY_HASH_SIZE],
                           const unsigned char b[AD_KEY_HASH_SIZE])
{
    uint64_t differ = 0;
    for (size_t i = 0; i < AD_KEY_HASH_SIZE; i += sizeof(uint64_t)) {
        uint64_t word_a, word_b;
        memcpy(&word_a, a + i, sizeof word_a);
        memcpy(&word_b, b + i, sizeof word_b);
        differ |= word_a ^ word_b;
    }
    return differ;
}

/* All keys are looked at, and the place of the one that fits is kept by arithmetic. Who measures the
 * time could at best learn how the hash of a guess compares to ours, and cannot choose hashes; so this
 * is a second wall behind the first. */
const struct ad_key *ad_keys_find_hash(const struct ad_keys *keys,
                                       const unsigned char hash[AD_KEY_HASH_SIZE])
{
    size_t found = 0; /* one more than the place */
    for (size_t i = 0; i < keys->n; i++) {
        size_t fits = difference(keys->items[i].hash, hash) == 0;
        found |= (0 - fits) & (i + 1);
    }
    return found > 0 ? &keys->items[found - 1] : NULL;
}

const struct ad_key *ad_keys_find(const struct ad_keys *keys, const char *text, size_t n)
{
    unsigned char hash[AD_KEY_HASH_SIZE];
    if (n == 0 || n > AD_KEY_MAX_SIZE || !ad_key_hash(text, n, hash)) {
        return NULL;
    }
    const struct ad_key *key = ad_keys_find_hash(keys, hash);
    explicit_bzero(hash, sizeof hash);
    return key;
}

/* Does the name fit the pattern: the same, or what comes before its '*' begins it? */
static bool fits(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return n > 0 && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0
                                          : strcmp(pattern, name) == 0;
}

bool ad_key_allows(const struct ad_key *key, const char *model)
{
    bool allowed = !key->listed;
    for (size_t i = 0; i < key->n_models && !allowed; i++) {
        allowed = fits(key->models[i], model);
    }
    return allowed;
}
