/* http_replies.h - what a server wrote on one connection: whole replies, each of a kind that it gives. */
#ifndef TESTS_FUZZ_HTTP_REPLIES_H
#define TESTS_FUZZ_HTTP_REPLIES_H

#include "base/utf8.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reply {
    unsigned code;
    bool is_json, is_plain; /* application/json; without a coding */
    bool has_length;
    size_t length;
};

static inline void reply_require(bool condition, const char *what, const char *at,
                                 const char *end)
{
    if (!condition) {
        fprintf(stderr, "%s: %.*s\n", what, (int)(end - at < 400 ? end - at : 400), at);
        abort();
    }
}

static inline bool reply_is_known(unsigned code)
{
    static const unsigned known[] = {100, 200, 204, 400, 401, 403, 404, 405, 409, 413,
                                     414, 415, 422, 429, 431, 499, 501, 503, 505};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] == code) {
            return true;
        }
    }
    return false;
}

/* The end of the line that begins at `at`. */
static inline const char *reply_line(const char *at, const char *end)
{
    const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
    reply_require(line_end != NULL, "a line without an end", at, end);
    for (const char *byte = at; byte < line_end; byte++) {
        reply_require((unsigned char)*byte >= ' ' && *byte != 0x7f, "a control character",
                      at, end);
    }
    return line_end;
}

static inline void reply_header(struct reply *reply, const char *line, size_t n)
{
    static const char length[] = "Content-Length: ", type[] = "Content-Type: ";
    const char *colon = memchr(line, ':', n);
    reply_require(colon && colon > line, "a header without a name", line, line + n);
    if (strncasecmp(line, length, sizeof length - 1) == 0) {
        reply_require(!reply->has_length, "two lengths", line, line + n);
        reply->has_length = true;
        reply->length = strtoul(line + sizeof length - 1, NULL, 10);
    } else if (strncasecmp(line, type, sizeof type - 1) == 0) {
        reply->is_json = strncmp(line + sizeof type - 1, "application/json", 16) == 0;
    } else if (strncasecmp(line, "Content-Encoding:", 17) == 0) {
        reply->is_plain = false;
    }
    reply_require(strncasecmp(line, "Transfer-Encoding:", 18) != 0, "in chunks", line,
                  line + n);
}

/* {"error": "a line"} */
static inline void reply_error(const struct reply *reply, const char *body)
{
    json_t *root = json_loadb(body, reply->length, 0, NULL);
    const char *message = json_string_value(json_object_get(root, "error"));
    reply_require(message && message[0], "no error", body, body + reply->length);
    for (size_t i = 0, n = strlen(message); i < n;) {
        size_t length = ad_utf8_length(message + i, n - i);
        reply_require(length > 0 && !ad_utf8_is_control(message + i, length),
                      "more than a line", body, body + reply->length);
        i += length;
    }
    json_decref(root);
}

/* One reply; what is behind it. */
static inline const char *reply_check(const char *at, const char *end)
{
    struct reply reply = {.is_plain = true};
    const char *start = at, *line_end = reply_line(at, end);
    reply_require(line_end - at > 13 && strncmp(at, "HTTP/1.", 7) == 0 && at[8] == ' ' &&
                      at[12] == ' ',
                  "no status", start, end);
    reply.code = (unsigned)strtoul(at + 9, NULL, 10);
    reply_require(reply_is_known(reply.code), "another status", start, end);
    for (at = line_end + 2; (line_end = reply_line(at, end)) > at; at = line_end + 2) {
        reply_header(&reply, at, (size_t)(line_end - at));
    }
    at += 2;
    /* to HEAD the length is that of a body that does not come */
    bool is_head = at == end || (end - at >= 7 && strncmp(at, "HTTP/1.", 7) == 0);
    if (reply.code == 100 || reply.code == 204 || is_head) {
        return at;
    }
    reply_require(reply.has_length && reply.length <= (size_t)(end - at),
                  "another length", start, end);
    if (reply.code >= 400 && reply.is_json && reply.is_plain) {
        reply_error(&reply, at);
    }
    return at + reply.length;
}

#endif
