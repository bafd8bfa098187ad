/* load_reply.c - reads replies: status line, the few headers that matter, a body of known length.
 * One thread. Nothing is sent before a reply is complete, so more bytes than it has are a fault. */
#include "bench/load_reply.h"
#include "bench/cases.h"
#include "bench/load_request.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIRST_CAPACITY ((size_t)64 << 10)
#define MOST_HEAD ((size_t)32 << 10)

char *load_reply_room(struct load_reply *reply, size_t *room)
{
    size_t wanted = FIRST_CAPACITY;
    if (reply->n_head > 0) {
        wanted = reply->n_head + reply->n_body + 1; /* a byte too many is noticed */
    }
    if (wanted > reply->capacity) {
        reply->bytes = realloc(reply->bytes, wanted);
        if (!reply->bytes) {
            die("out of memory");
        }
        reply->capacity = wanted;
    }
    *room = reply->capacity - reply->n;
    return reply->bytes + reply->n;
}

/* The value of a header line, or NULL when it has another name. */
static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return NULL;
    }
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static bool read_size(const char *digits, size_t *size)
{
    if (!isdigit((unsigned char)*digits)) {
        return false;
    }
    unsigned long long value = strtoull(digits, NULL, 10);
    *size = (size_t)value;
    return value <= MOST_BYTES;
}

/* One line without its end. */
static bool read_line(struct load_reply *reply, const char *line, bool *has_length)
{
    const char *value = value_of(line, "Content-Length");
    if (value) {
        *has_length = true;
        return read_size(value, &reply->n_body);
    }
    value = value_of(line, "Inference-Header-Content-Length");
    if (value) {
        return read_size(value, &reply->n_json);
    }
    value = value_of(line, "Connection");
    if (value) {
        reply->close = strncasecmp(value, "close", 5) == 0;
    }
    return true;
}

/* bytes: the head, which is followed by a body or by room for a zero. */
static bool read_head(struct load_reply *reply)
{
    bool has_length = false;
    char *line = reply->bytes;
    char *const end = line + reply->n_head;
    if (reply->n_head < 16 || memcmp(line, "HTTP/1.1 ", 9) != 0) {
        return false;
    }
    reply->status = (unsigned)strtoul(line + 9, NULL, 10);
    while (line < end) {
        char *stop = memchr(line, '\r', (size_t)(end - line));
        if (!stop) {
            return false;
        }
        *stop = '\0';
        if (!read_line(reply, line, &has_length)) {
            return false;
        }
        line = stop + 2;
    }
    return has_length && reply->n_json <= reply->n_body && reply->status >= 200 &&
           reply->status < 600;
}

enum load_progress load_reply_advance(struct load_reply *reply, size_t n)
{
    reply->n += n;
    if (reply->n_head == 0) {
        const char *end = memmem(reply->bytes, reply->n, "\r\n\r\n", 4);
        if (!end) {
            return reply->n < MOST_HEAD ? REPLY_MORE : REPLY_BROKEN;
        }
        reply->n_head = (size_t)(end - reply->bytes) + 4;
        if (!read_head(reply)) {
            return REPLY_BROKEN;
        }
    }
    size_t n_all = reply->n_head + reply->n_body;
    return reply->n < n_all ? REPLY_MORE : reply->n == n_all ? REPLY_DONE : REPLY_BROKEN;
}

void load_reply_clear(struct load_reply *reply)
{
    *reply = (struct load_reply){.bytes = reply->bytes, .capacity = reply->capacity};
}
