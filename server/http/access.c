/* access.c - who may ask. Any thread may check; main creates, reloads and frees. See access.h. */
#include "http/access.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NS_PER_S INT64_C(1000000000)

struct ad_access {
    const struct ad_options *options; /* immutable, as is the log */
    const struct ad_log *log;
    struct ad_cors cors; /* immutable, as are the proxies */
    struct ad_proxies proxies;
    pthread_mutex_t lock; /* held for as long as it takes to copy a pointer */
    struct ad_keys
        *keys; /* guarded by lock; a reference; NULL, for good: none are needed */
};

/* ---- creation and reload --------------------------------------------------------------------- */

static void log_keys(const struct ad_access *access, size_t n)
{
    const struct ad_log_field fields[] = {ad_log_text("file", access->options->api_keys),
                                          ad_log_number("keys", (int64_t)n)};
    ad_log_write(access->log, AD_LOG_INFO, "API keys read", fields,
                 sizeof fields / sizeof fields[0]);
}

enum ad_status ad_access_reload(struct ad_access *access, struct ad_error *error)
{
    struct ad_keys *keys = NULL;
    const char *path = access->options->api_keys;
    if (!path) {
        return AD_OK;
    }
    /* only we replace the table, so it can be looked at without the lock */
    enum ad_status status = ad_keys_read(path, access->keys, &keys, error);
    if (status) {
        return status;
    }
    const size_t n = keys->n;
    pthread_mutex_lock(&access->lock);
    struct ad_keys *before = access->keys;
    access->keys = keys;
    pthread_mutex_unlock(&access->lock);
    ad_keys_release(before);
    log_keys(access, n);
    return AD_OK;
}

enum ad_status ad_access_create(const struct ad_options *options,
                                const struct ad_log *log, struct ad_access **access,
                                struct ad_error *error)
{
    *access = NULL;
    struct ad_access *created = calloc(1, sizeof *created);
    if (!created) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    created->options = options;
    created->log = log;
    pthread_mutex_init(&created->lock, NULL);
    enum ad_status status =
        ad_cors_parse(options->cors_allow_origins, &created->cors, error);
    status = status
                 ? status
                 : ad_proxies_parse(options->trusted_proxies, &created->proxies, error);
    status = status ? status : ad_access_reload(created, error);
    if (status) {
        ad_access_free(created);
        return status;
    }
    *access = created;
    return AD_OK;
}

void ad_access_free(struct ad_access *access)
{
    if (!access) {
        return;
    }
    ad_cors_reset(&access->cors);
    ad_proxies_reset(&access->proxies);
    ad_keys_release(access->keys);
    pthread_mutex_destroy(&access->lock);
    free(access);
}

const struct ad_cors *ad_access_cors(const struct ad_access *access)
{
    return &access->cors;
}

const struct ad_proxies *ad_access_proxies(const struct ad_access *access)
{
    return &access->proxies;
}

/* ---- one request ----------------------------------------------------------------------------- */

struct text {
    const char *at; /* NULL: there is none */
    size_t n;
};

/* Without blanks around it. */
static struct text trimmed(const char *value)
{
    struct text text = {value + strspn(value, " \t"), 0};
    text.n = strlen(text.at);
    while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t')) {
        text.n--;
    }
    return text;
}

/* What follows Bearer. Another scheme is somebody else's: a proxy's, say. */
static struct text bearer_of(const char *authorization)
{
    static const char scheme[] = "Bearer";
    const size_t n = sizeof scheme - 1;
    if (!authorization || strncasecmp(authorization, scheme, n) != 0 ||
        (authorization[n] != ' ' && authorization[n] != '\0')) {
        return (struct text){NULL, 0};
    }
    return trimmed(authorization + n);
}

static enum ad_status find_key_text(const struct ad_headers *headers, struct text *text,
                                    struct ad_error *error)
{
    *text = bearer_of(headers->authorization);
    if (!headers->api_key) {
        return AD_OK;
    }
    const struct text other = trimmed(headers->api_key);
    if (text->at && (text->n != other.n || memcmp(text->at, other.at, other.n) != 0)) {
        return ad_fail(error, AD_INVALID,
                       "Authorization and X-API-Key hold two different keys");
    }
    *text = other;
    return AD_OK;
}

/* Which key is it? */
static enum ad_status identify(const struct ad_headers *headers, struct ad_pass *pass,
                               struct ad_error *error)
{
    struct text text;
    enum ad_status status = find_key_text(headers, &text, error);
    if (status) {
        return status;
    }
    if (!text.at || text.n == 0) {
        return ad_fail(error, AD_UNAUTHORIZED,
                       "this needs a key: Authorization: Bearer KEY, or X-API-Key: KEY");
    }
    pass->key = ad_keys_find(pass->keys, text.at, text.n);
    return pass->key ? AD_OK
                     : ad_fail(error, AD_UNAUTHORIZED, "the key is not one that we know");
}

/* Operators' routes are a right of their own; the list of models is about all others. Whether a model
 * that is not listed exists makes no difference. */
static enum ad_status authorize(const struct ad_key *key, const struct ad_route *route,
                                const struct ad_target *target, struct ad_error *error)
{
    if (route->admin && !key->admin) {
        return ad_fail(error, AD_FORBIDDEN, "key '%s' may not use operators' routes",
                       key->name);
    }
    if (!route->admin && target->model && !ad_key_allows(key, target->model)) {
        return ad_fail(error, AD_FORBIDDEN, "key '%s' may not use model '%.200s'",
                       key->name, target->model);
    }
    return AD_OK;
}

/* Only what computes costs a token: who looks at a model is not kept from using it. */
static enum ad_status take_token(const struct ad_route *route, int64_t now_ns,
                                 struct ad_pass *pass, struct ad_error *error)
{
    const struct ad_key *key = pass->key;
    int64_t wait_ns = 0;
    if (!route->infer || key->limit.interval_ns == 0 ||
        ad_bucket_take(key->bucket, &key->limit, now_ns, &wait_ns)) {
        return AD_OK;
    }
    pass->retry_after = (unsigned)((wait_ns + NS_PER_S - 1) / NS_PER_S);
    return ad_fail(error, AD_RATE_LIMITED, "key '%s' is over its rate; try again in %u s",
                   key->name, pass->retry_after);
}

/* A reference to the table as it is now. */
static struct ad_keys *hold_keys(struct ad_access *access)
{
    pthread_mutex_lock(&access->lock);
    struct ad_keys *keys = access->keys;
    ad_keys_hold(keys);
    pthread_mutex_unlock(&access->lock);
    return keys;
}

enum ad_status ad_access_check(struct ad_access *access, const struct ad_headers *headers,
                               const struct ad_route *route,
                               const struct ad_target *target, int64_t now_ns,
                               struct ad_pass *pass, struct ad_error *error)
{
    *pass = (struct ad_pass){NULL, NULL, 0};
    if (!access->options->api_keys || route->open) {
        return AD_OK;
    }
    pass->keys = hold_keys(access);
    enum ad_status status = identify(headers, pass, error);
    status = status ? status : authorize(pass->key, route, target, error);
    return status ? status : take_token(route, now_ns, pass, error);
}

void ad_pass_reset(struct ad_pass *pass)
{
    ad_keys_release(pass->keys);
    *pass = (struct ad_pass){NULL, NULL, 0};
}
