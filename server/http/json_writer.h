/* json_writer.h - JSON text for the small replies: metadata, errors, health.
 *
 *     struct ad_json json = ad_json_to(&buffer);
 *     ad_json_open(&json, '{');
 *     ad_json_key(&json, "name");
 *     ad_json_string(&json, model->name);
 *     ad_json_close(&json, '}');
 *     ok = ad_json_ok(&json);
 *
 * Commas are the writer's. A failure (out of memory) sticks, so only the end needs a
 * check. The caller keeps the order of calls sensible. */
#ifndef AD_HTTP_JSON_WRITER_H
#define AD_HTTP_JSON_WRITER_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

struct ad_json {
    struct ad_buffer *out; /* borrowed */
    bool comma;            /* the next key or value follows another one */
    bool failed;
};

struct ad_json ad_json_to(struct ad_buffer *out);

void ad_json_open(struct ad_json *json, char bracket);  /* '{' or '[' */
void ad_json_close(struct ad_json *json, char bracket); /* '}' or ']' */
void ad_json_key(struct ad_json *json, const char *name);
/* Bytes of text that are not UTF-8 become U+FFFD. */
void ad_json_string(struct ad_json *json, const char *text);
void ad_json_integer(struct ad_json *json, int64_t number);
void ad_json_bool(struct ad_json *json, bool value);

/* A key and its value. */
void ad_json_integer_member(struct ad_json *json, const char *name, int64_t number);
void ad_json_string_member(struct ad_json *json, const char *name, const char *text);
void ad_json_bool_member(struct ad_json *json, const char *name, bool value);

/* The members of an object that is JSON already, "{...}" without spaces around it. */
void ad_json_members(struct ad_json *json, const char *object);

bool ad_json_ok(const struct ad_json *json);

#endif
