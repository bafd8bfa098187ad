/* keys.h - who may ask for what: the keys of --api-keys.
 *
 * The file holds the SHA-256 of each key and never a key, so that who reads it can ask for nothing:
 *
 *     {"keys": [{"name": "team-a", "sha256": "<64 hex digits>", "models": ["mha", "causal*"],
 *                "rate": 100, "burst": 200, "admin": false}]}
 *
 * A plain hash without salt is enough only because a key is random, of 128 bits and more
 * (openssl rand -hex 32): it cannot be guessed, so a hash that is made slowly would protect nothing.
 *
 * A table is immutable once read, so any thread may look into it while it holds it; who takes a token
 * writes to a bucket alone, which tables share. */
#ifndef AD_HTTP_KEYS_H
#define AD_HTTP_KEYS_H

#include "base/error.h"
#include "http/rate.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define AD_KEY_HASH_SIZE 32
#define AD_KEY_NAME_SIZE 64  /* of the longest name, without its NUL */
#define AD_KEY_MAX_SIZE 4096 /* of a key; what is longer is none */
#define AD_KEYS_FILE_SIZE ((size_t)1 << 20)

struct ad_key {
    char *name; /* for the log and for messages to its holder */
    unsigned char hash[AD_KEY_HASH_SIZE];
    bool listed;     /* it may use the listed models alone; else all */
    char **models;   /* names, or beginnings of names that end in '*' */
    size_t n_models; /* may be 0 */
    bool admin;      /* it may use the operators' routes */
    struct ad_limit limit;
    struct ad_bucket *bucket; /* a reference */
};

struct ad_keys {
    atomic_size_t n_users;
    size_t n; /* at least 1 */
    struct ad_key items[];
};

/* Read a file, or its content at hand, which messages call by name. A key that `before` (NULL: none)
 * knows by its hash goes on with that one's bucket. The caller gets a reference. AD_INVALID,
 * AD_NOT_FOUND: it cannot be read, or is not as above; unknown members, and a name or hash that comes
 * twice, are refused. AD_INTERNAL: out of memory. */
enum ad_status ad_keys_read(const char *path, const struct ad_keys *before,
                            struct ad_keys **keys, struct ad_error *error) AD_MUST_CHECK;
enum ad_status ad_keys_parse(const char *text, size_t n_bytes, const char *name,
                             const struct ad_keys *before, struct ad_keys **keys,
                             struct ad_error *error) AD_MUST_CHECK;

/* A table of n empty keys with one user; the last one to release it frees it. NULL: out of memory. */
struct ad_keys *ad_keys_create(size_t n);
void ad_keys_hold(struct ad_keys *keys);
void ad_keys_release(struct ad_keys *keys); /* NULL is fine */

/* SHA-256 of n bytes; false when that fails, which says that the library is broken. */
bool ad_key_hash(const char *text, size_t n,
                 unsigned char hash[AD_KEY_HASH_SIZE]) AD_MUST_CHECK;

/* The key whose text that is, which is the table's; NULL: none. The time that it takes depends on the
 * length of the text and the number of keys, not on which one it is or nearly is. */
const struct ad_key *ad_keys_find(const struct ad_keys *keys, const char *text, size_t n);

/* The key with that hash; NULL: none. */
const struct ad_key *ad_keys_find_hash(const struct ad_keys *keys,
                                       const unsigned char hash[AD_KEY_HASH_SIZE]);

/* May it use the model of that name, which need not exist? */
bool ad_key_allows(const struct ad_key *key, const char *model);

#endif
