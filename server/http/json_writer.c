/* json_writer.c - JSON text for the small replies. Owner: the caller; no thread of its
 * own. */
#include "http/json_writer.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ad_json ad_json_to(struct ad_buffer *out)
{
    return (struct ad_json){.out = out};
}

static void put(struct ad_json *json, const char *bytes, size_t n)
{
    if (!json->failed && !ad_buffer_append(json->out, bytes, n)) {
        json->failed = true;
    }
}

static void start_value(struct ad_json *json)
{
    if (json->comma) {
        put(json, ",", 1);
    }
    json->comma = true;
}

void ad_json_open(struct ad_json *json, char bracket)
{
    start_value(json);
    put(json, &bracket, 1);
    json->comma = false;
}

void ad_json_close(struct ad_json *json, char bracket)
{
    put(json, &bracket, 1);
    json->comma = true;
}

/* One character of a string: length bytes at text, or one byte that is not UTF-8
 * (length 0). */
static void put_character(struct ad_json *json, const char *text, size_t length)
{
    char escaped[8];
    unsigned char first = (unsigned char)text[0];
    if (length == 0) {
        put(json, "\xef\xbf\xbd", 3); /* U+FFFD */
    } else if (first == '"' || first == '\\') {
        put(json, "\\", 1);
        put(json, text, 1);
    } else if (ad_utf8_is_control(text, length)) {
        int n = snprintf(escaped, sizeof escaped, "\\u%04x", ad_utf8_code(text, length));
        put(json, escaped, (size_t)n);
    } else {
        put(json, text, length);
    }
}

static void put_string(struct ad_json *json, const char *text)
{
    size_t n = strlen(text);
    put(json, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(text + i, n - i);
        put_character(json, text + i, length);
        i += length > 0 ? length : 1;
    }
    put(json, "\"", 1);
}

void ad_json_key(struct ad_json *json, const char *name)
{
    start_value(json);
    put_string(json, name);
    put(json, ":", 1);
    json->comma = false;
}

void ad_json_string(struct ad_json *json, const char *text)
{
    start_value(json);
    put_string(json, text);
}

void ad_json_integer(struct ad_json *json, int64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number);
    start_value(json);
    put(json, digits, (size_t)n);
}

void ad_json_bool(struct ad_json *json, bool value)
{
    const char *text = value ? "true" : "false";
    start_value(json);
    put(json, text, strlen(text));
}

void ad_json_string_member(struct ad_json *json, const char *name, const char *text)
{
    ad_json_key(json, name);
    ad_json_string(json, text);
}

void ad_json_bool_member(struct ad_json *json, const char *name, bool value)
{
    ad_json_key(json, name);
    ad_json_bool(json, value);
}

void ad_json_integer_member(struct ad_json *json, const char *name, int64_t number)
{
    ad_json_key(json, name);
    ad_json_integer(json, number);
}

void ad_json_members(struct ad_json *json, const char *object)
{
    const size_t n = strlen(object);
    if (n > 2) {
        start_value(json);
        put(json, object + 1, n - 2);
    }
}

bool ad_json_ok(const struct ad_json *json)
{
    return !json->failed;
}
