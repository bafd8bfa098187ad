/* index_request.c - the body of POST /v2/repository/index.
 *
 * Three forms are allowed, so they are matched as they stand: this is no JSON parser,
 * and anything that it does not know is refused. Pure; any thread. */
#include "http/index_request.h"

#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

/* Skip white space, then take the word if it comes next. */
static bool take(struct cursor *cursor, const char *word)
{
    while (cursor->at < cursor->end && memchr(" \t\r\n", *cursor->at, 4)) {
        cursor->at++;
    }
    size_t n = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < n || memcmp(cursor->at, word, n) != 0) {
        return false;
    }
    cursor->at += n;
    return true;
}

static bool at_end(struct cursor *cursor)
{
    return take(cursor, "") && cursor->at == cursor->end;
}

/* What follows the opening brace, up to the closing one. */
static bool take_members(struct cursor *cursor, bool *ready_only)
{
    if (take(cursor, "}")) {
        return true;
    }
    if (!take(cursor, "\"ready\"") || !take(cursor, ":")) {
        return false;
    }
    *ready_only = take(cursor, "true");
    return (*ready_only || take(cursor, "false")) && take(cursor, "}");
}

enum ad_status ad_index_request_parse(const char *text, size_t n, bool *ready_only,
                                      struct ad_error *error)
{
    struct cursor cursor = {text ? text : "", text ? text + n : ""};
    *ready_only = false;
    if (at_end(&cursor)) {
        return AD_OK;
    }
    if (take(&cursor, "{") && take_members(&cursor, ready_only) && at_end(&cursor)) {
        return AD_OK;
    }
    return ad_fail(error, AD_INVALID,
                   "request body: expected nothing, {} or {\"ready\": true or false}");
}
