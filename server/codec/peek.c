/* peek.c - what has to be known of a request before a worker decodes it.
 *
 * Runs on the I/O thread, so it must be quick: the numbers of tensors, most of a large JSON part, are passed
 * over at nearly the speed of memory. */
#include "codec/peek.h"
#include "codec/marks.h"
#include "codec/scan.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A place in the JSON; at <= end always. */
struct walk {
    const char *at, *end;
    size_t n_left; /* bytes that may still be looked at one by one */
};

/* Where the walk has to be at the latest when it goes on byte by byte. */
static const char *limit_of(const struct walk *walk)
{
    size_t n = (size_t)(walk->end - walk->at);
    return walk->at + (n < walk->n_left ? n : walk->n_left);
}

static char here(const struct walk *walk)
{
    return walk->at < walk->end ? *walk->at : '\0';
}

static void skip_blanks(struct walk *walk)
{
    while (walk->at < walk->end && strchr(" \t\r\n", *walk->at) && *walk->at) {
        walk->at++;
    }
}

/* Behind blanks, a character that must come. */
static bool take(struct walk *walk, char c)
{
    skip_blanks(walk);
    if (here(walk) != c || walk->at == walk->end) {
        return false;
    }
    walk->at++;
    return true;
}

/* A string as it is written; false: there is none, or it does not end. */
static bool take_string(struct walk *walk, const char **text, size_t *n)
{
    if (!take(walk, '"')) {
        return false;
    }
    *text = walk->at;
    const char *limit = limit_of(walk);
    while (walk->at < limit && *walk->at != '"') {
        walk->at += *walk->at == '\\' && limit - walk->at > 1 ? 2 : 1;
    }
    *n = (size_t)(walk->at - *text);
    walk->n_left -= *n;
    return take(walk, '"');
}

/* A list or an object, whatever is in it. */
static bool skip_nested(struct walk *walk)
{
    size_t depth = 0, n;
    const char *text;
    do {
        walk->at = ad_marks_skip(walk->at, walk->end, &depth);
        if (depth > 0 && !take_string(walk, &text, &n)) {
            return false;
        }
    } while (depth > 0);
    return true;
}

/* Any value. */
static bool skip_value(struct walk *walk)
{
    size_t n;
    const char *text;
    skip_blanks(walk);
    char c = here(walk);
    if (c == '[' || c == '{') {
        return skip_nested(walk);
    }
    if (c == '"') {
        return take_string(walk, &text, &n);
    }
    const char *from = walk->at, *limit = limit_of(walk);
    while (walk->at < limit && *walk->at != ',' && *walk->at != '}' && *walk->at != ']') {
        walk->at++;
    }
    walk->n_left -= (size_t)(walk->at - from);
    return walk->at < limit;
}

static bool is_name(const char *text, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(text, name, n) == 0;
}

/* An integer that is followed by the end of the value, else nothing. */
static void read_number(struct walk walk, uint64_t *number)
{
    uint64_t sum = 0;
    skip_blanks(&walk);
    const char *first = walk.at;
    while (here(&walk) >= '0' && here(&walk) <= '9') {
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*walk.at - '0'), &sum)) {
            return;
        }
        walk.at++;
    }
    bool any = walk.at > first;
    skip_blanks(&walk);
    if (any && (here(&walk) == ',' || here(&walk) == '}')) {
        *number = sum;
    }
}

/* Walk over an object's members; those of the outer one lead to `parameters`, those of that to the
 * numbers. */
/* NOLINTNEXTLINE(misc-no-recursion): an object in an object, and no deeper */
static bool walk_object(struct walk *walk, struct ad_request *request, bool inner)
{
    if (!take(walk, '{')) {
        return false;
    }
    do {
        const char *name;
        size_t n;
        if (!take_string(walk, &name, &n) || !take(walk, ':')) {
            return false;
        }
        if (inner && is_name(name, n, "timeout")) {
            read_number(*walk, &request->timeout_us);
        } else if (inner && is_name(name, n, "priority")) {
            read_number(*walk, &request->priority);
        } else if (!inner && is_name(name, n, "parameters")) {
            struct walk parameters = *walk;
            (void)walk_object(&parameters, request, true);
        }
        if (!skip_value(walk)) {
            return false;
        }
    } while (take(walk, ','));
    return true;
}

void ad_peek_parameters(struct ad_request *request)
{
    const char *json = request->body.data;
    /* more than that is no envelope that would be taken */
    struct walk walk = {json, json + request->n_json, AD_SCAN_MAX_ENVELOPE};
    (void)walk_object(&walk, request, false);
}
