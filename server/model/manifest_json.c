/* manifest_json.c - messages about JSON values: where they stand, what they are.
 *
 * Values of a config can be long and deep; a message shows the start of a string and says no more
 * of an object than that it is one. No state; any thread. */
#include "model/manifest_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 48 /* of a key or a string */

struct ad_place ad_place_member(const struct ad_place *parent, const char *key)
{
    return (struct ad_place){parent->file, parent, key, 0};
}

struct ad_place ad_place_element(const struct ad_place *parent, size_t index)
{
    return (struct ad_place){parent->file, parent, NULL, index};
}

/* How many bytes of text to show: all, or fewer that do not cut a character in two. */
static int shown(const char *text)
{
    size_t n = strnlen(text, SHOWN_BYTES + 1);
    if (n > SHOWN_BYTES) {
        n = SHOWN_BYTES;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    return (int)n;
}

/* Append the keys from the document down to place: weights.names.bias, layer.output_shape[1]. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than our readers nest places */
static void write_path(const struct ad_place *place, char *path, size_t size)
{
    if (!place->parent) {
        path[0] = '\0';
        return;
    }
    write_path(place->parent, path, size);
    size_t used = strlen(path);
    if (!place->key) {
        snprintf(path + used, size - used, "[%zu]", place->index);
        return;
    }
    const char *key = place->key[0] != '\0' ? place->key : "\"\"";
    const int n = shown(key);
    snprintf(path + used, size - used, "%s%.*s%s", used > 0 ? "." : "", n, key,
             key[n] != '\0' ? "..." : "");
}

enum ad_status ad_place_fail(const struct ad_place *place, struct ad_error *error,
                             const char *format, ...)
{
    char path[4 * SHOWN_BYTES + 32];
    write_path(place, path, sizeof path);
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return ad_fail(error, AD_INVALID, "%s: %s%s%s", place->file, path,
                   path[0] != '\0' ? ": " : "", message);
}

struct rendering {
    char text[SHOWN_BYTES + 8];
};

static struct rendering render(const json_t *value)
{
    struct rendering out = {"nothing"};
    if (!value) {
        return out;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return (struct rendering){"an object"};
    case JSON_ARRAY:
        return (struct rendering){"an array"};
    case JSON_STRING: {
        const char *text = json_string_value(value);
        int n = shown(text);
        snprintf(out.text, sizeof out.text, "\"%.*s%s\"", n, text,
                 text[n] != '\0' ? "..." : "");
        return out;
    }
    case JSON_INTEGER:
        snprintf(out.text, sizeof out.text, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
        return out;
    case JSON_REAL:
        snprintf(out.text, sizeof out.text, "%.9g", json_real_value(value));
        return out;
    case JSON_TRUE:
        return (struct rendering){"true"};
    case JSON_FALSE:
        return (struct rendering){"false"};
    case JSON_NULL:
        return (struct rendering){"null"};
    }
    return out;
}

enum ad_status ad_place_expected(const struct ad_place *place, const char *expected,
                                 const json_t *value, struct ad_error *error)
{
    return ad_place_fail(place, error, "expected %s, got %s", expected,
                         render(value).text);
}

enum ad_status ad_place_no_memory(const struct ad_place *place, struct ad_error *error)
{
    return ad_fail(error, AD_INTERNAL, "%s: out of memory", place->file);
}

enum ad_status ad_place_string(const struct ad_place *object_place, const json_t *object,
                               const char *key, const char **text, struct ad_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        const struct ad_place place = ad_place_member(object_place, key);
        return ad_place_expected(&place, "a string", value, error);
    }
    *text = json_string_value(value);
    return AD_OK;
}

enum ad_status ad_place_integer(const struct ad_place *place, const json_t *value,
                                uint64_t min, uint64_t max, uint64_t *number,
                                struct ad_error *error)
{
    const json_int_t integer = json_integer_value(value);
    if (json_is_integer(value) && integer >= 0 && (uint64_t)integer >= min &&
        (uint64_t)integer <= max) {
        *number = (uint64_t)integer;
        return AD_OK;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "an integer %" PRIu64 "..%" PRIu64, min, max);
    return ad_place_expected(place, expected, value, error);
}

static bool is_known(const char *key, const char *const *known)
{
    for (size_t i = 0; known[i]; i++) {
        if (strcmp(key, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

enum ad_status ad_place_check_keys(const struct ad_place *place, json_t *object,
                                   const char *const *known, struct ad_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (is_known(key, known)) {
            continue;
        }
        char list[128] = "";
        for (size_t i = 0, used = 0; known[i] && used < sizeof list; i++) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                     i > 0 ? ", " : "", known[i]);
        }
        const struct ad_place member = ad_place_member(place, key);
        return known[0] ? ad_place_fail(&member, error, "unknown key, expected one of %s",
                                        list)
                        : ad_place_fail(&member, error, "unknown key, expected none");
    }
    return AD_OK;
}
