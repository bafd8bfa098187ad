/* cors.c - which pages may use the API from a browser. Any thread; see cors.h. */
#include "http/cors.h"

#include <string.h>
#include <strings.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define TOKEN LETTERS DIGITS "!#$%&'*+-.^_`|~"
#define MAX_REQUESTED 1024 /* bytes of Access-Control-Request-Headers that we repeat */

static const char known_headers[] =
    "Authorization, X-API-Key, Content-Type, Content-Encoding, "
    "Inference-Header-Content-Length, X-Request-Id, X-Sequence-Id, traceparent";

/* What follows the host: nothing, or a port that a browser would write. */
static bool is_port(const char *text, size_t n_scheme, const char *scheme)
{
    if (text[0] == '\0') {
        return true;
    }
    size_t n = strlen(text + 1);
    bool is_default = (n_scheme == 4 && strncasecmp(scheme, "http", 4) == 0 &&
                       strcmp(text, ":80") == 0) ||
                      (n_scheme == 5 && strncasecmp(scheme, "https", 5) == 0 &&
                       strcmp(text, ":443") == 0);
    return text[0] == ':' && n > 0 && n <= 5 && strspn(text + 1, DIGITS) == n &&
           text[1] != '0' && !is_default;
}

/* scheme://host[:port], as browsers write it: no path, no port that the scheme has anyway. */
static bool is_origin(const char *text)
{
    size_t n_scheme = strspn(text, LETTERS DIGITS "+-.");
    if (n_scheme == 0 || strncmp(text + n_scheme, "://", 3) != 0) {
        return false;
    }
    const char *host = text + n_scheme + 3;
    size_t n = 0;
    if (host[0] == '[') {
        n = 1 + strspn(host + 1, "0123456789abcdefABCDEF:.");
        if (n == 1 || host[n] != ']') {
            return false;
        }
        n++;
    } else {
        n = strspn(host, LETTERS DIGITS "-._");
    }
    return n > 0 && is_port(host + n, n_scheme, text);
}

static enum ad_status check_words(struct ad_cors *cors, struct ad_error *error)
{
    for (size_t i = 0; i < cors->origins.n; i++) {
        const char *word = cors->origins.items[i];
        if (strcmp(word, "*") == 0 && cors->origins.n > 1) {
            return ad_fail(error, AD_INVALID,
                           "--cors-allow-origins: '*' is every origin and stands alone");
        }
        if (strcmp(word, "*") != 0 && !is_origin(word)) {
            return ad_fail(error, AD_INVALID,
                           "--cors-allow-origins: expected '*' or origins like "
                           "https://example.org:8443 (no path, no default port), got "
                           "'%.200s'",
                           word);
        }
    }
    return AD_OK;
}

enum ad_status ad_cors_parse(const char *list, struct ad_cors *cors,
                             struct ad_error *error)
{
    *cors = (struct ad_cors){.all = false};
    if (!ad_words_split(list, &cors->origins)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    enum ad_status status = check_words(cors, error);
    bool all =
        !status && cors->origins.n == 1 && strcmp(cors->origins.items[0], "*") == 0;
    if (status || all) {
        ad_words_reset(&cors->origins);
    }
    cors->all = all;
    return status;
}

void ad_cors_reset(struct ad_cors *cors)
{
    ad_words_reset(&cors->origins);
    cors->all = false;
}

bool ad_cors_is_on(const struct ad_cors *cors)
{
    return cors->all || cors->origins.n > 0;
}

const char *ad_cors_allow(const struct ad_cors *cors, const char *origin)
{
    /* also where there is no Origin: a cache may give the answer to who has one */
    if (cors->all) {
        return "*";
    }
    for (size_t i = 0; origin && i < cors->origins.n; i++) {
        if (strcasecmp(cors->origins.items[i], origin) == 0) {
            return origin;
        }
    }
    return NULL;
}

/* Names of headers, parted by commas. */
static bool are_names(const char *list)
{
    size_t n = strlen(list);
    return n > 0 && n <= MAX_REQUESTED && strspn(list, TOKEN ", \t") == n &&
           strpbrk(list, TOKEN) != NULL;
}

const char *ad_cors_headers(const char *requested)
{
    return requested && are_names(requested) ? requested : known_headers;
}
