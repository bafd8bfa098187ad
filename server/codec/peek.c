/* peek.c - what has to be known of a request before a worker decodes it.
 *
 * Runs on the I/O thread, so it must be quick: a JSON part that is large is searched for the two names
 * first, at the speed of memory, and walked only when one of them is there. */
#include "codec/peek.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Up to this size the walk costs less than it matters. */
#define WALKED ((size_t)16 << 10)

/* A place in the JSON; at <= end always. */
struct walk {
    const char *at, *end;
};

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
    while (walk->at < walk->end && *walk->at != '"') {
        walk->at += *walk->at == '\\' && walk->end - walk->at > 1 ? 2 : 1;
    }
    *n = (size_t)(walk->at - *text);
    return take(walk, '"');
}

/* Any value, however deep. */
static bool skip_value(struct walk *walk)
{
    size_t depth = 0, n;
    const char *text;
    skip_blanks(walk);
    while (walk->at < walk->end) {
        char c = *walk->at;
        if (c == '"') {
            if (!take_string(walk, &text, &n)) {
                return false;
            }
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            return true;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        walk->at++;
    }
    return false;
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

static bool has(const char *json, size_t n, const char *name)
{
    return memmem(json, n, name, strlen(name)) != NULL;
}

void ad_peek_parameters(struct ad_request *request)
{
    const char *json = request->body.data;
    size_t n = request->n_json;
    if (n > WALKED && !has(json, n, "\"timeout\"") && !has(json, n, "\"priority\"")) {
        return;
    }
    struct walk walk = {json, json + n};
    (void)walk_object(&walk, request, false);
}
