/* options_file.c - options out of a JSON file: an object whose keys are option names. Called by
 * ad_options_load; one thread. */
#include "base/options_file.h"

#include "base/buffer.h"
#include "base/json_load.h"
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LARGEST_FILE ((size_t)1 << 20)
#define CHUNK ((size_t)4096)

/* A JSON value as a message shows it. */
static void show_value(const json_t *value, char shown[AD_OPTION_TEXT_SIZE])
{
    switch (json_typeof(value)) {
    case JSON_STRING: {
        char text[AD_OPTION_TEXT_SIZE];
        ad_option_show(json_string_value(value), json_string_length(value), text);
        snprintf(shown, AD_OPTION_TEXT_SIZE, "the string %.100s", text);
        return;
    }
    case JSON_INTEGER:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
        return;
    case JSON_REAL:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "the fraction %g", json_real_value(value));
        return;
    case JSON_TRUE:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "true");
        return;
    case JSON_FALSE:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "false");
        return;
    case JSON_NULL:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "null");
        return;
    case JSON_ARRAY:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "an array");
        return;
    case JSON_OBJECT:
        snprintf(shown, AD_OPTION_TEXT_SIZE, "an object");
        return;
    }
}

static enum ad_status take_value(struct ad_options_reader *reader,
                                 const struct ad_option *option, const json_t *value)
{
    char got[AD_OPTION_TEXT_SIZE];
    show_value(value, got);
    switch (option->type) {
    case AD_OPTION_ACTION:
        break;
    case AD_OPTION_BOOL:
        if (json_is_boolean(value)) {
            return ad_option_set_number(reader, option, AD_FROM_FILE, json_is_true(value),
                                        got);
        }
        break;
    case AD_OPTION_NUMBER:
        if (json_is_integer(value) && json_integer_value(value) >= 0) {
            return ad_option_set_number(reader, option, AD_FROM_FILE,
                                        (uint64_t)json_integer_value(value), got);
        }
        break;
    case AD_OPTION_TEXT:
    case AD_OPTION_WORD:
        if (json_is_string(value)) {
            return ad_option_set_text(reader, option, AD_FROM_FILE,
                                      json_string_value(value));
        }
        if (json_is_null(value) && !option->text) {
            /* lets a file list an option that by default has no value */
            return ad_option_set_text(reader, option, AD_FROM_FILE, NULL);
        }
        break;
    }
    return ad_option_refuse(reader, option, AD_FROM_FILE, got);
}

static enum ad_status take_object(struct ad_options_reader *reader, json_t *object)
{
    if (!json_is_object(object)) {
        return ad_fail(reader->error, AD_INVALID,
                       "%.500s: expected an object of options, got an array",
                       reader->file);
    }
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const struct ad_option *option;
        enum ad_status status =
            ad_option_look_up(reader, key, strlen(key), AD_FROM_FILE, &option);
        if (status == AD_OK) {
            status = take_value(reader, option, value);
        }
        if (status != AD_OK) {
            return status;
        }
    }
    return AD_OK;
}

enum ad_status ad_options_read_json(struct ad_options_reader *reader, const char *bytes,
                                    size_t n, const char *name)
{
    json_error_t fault;
    json_t *root = ad_json_load(bytes, n, JSON_REJECT_DUPLICATES, &fault);
    if (!root) {
        if (ad_json_no_memory(&fault)) {
            return ad_fail(reader->error, AD_INTERNAL, "out of memory");
        }
        return ad_fail(reader->error, AD_INVALID, "%.500s:%d:%d: %s", name, fault.line,
                       fault.column, fault.text);
    }
    reader->file = name;
    enum ad_status status = take_object(reader, root);
    reader->file = NULL;
    json_decref(root);
    return status;
}

/* Append the rest of the file; one byte over the limit is enough to know. */
static enum ad_status read_rest(int fd, const char *path, struct ad_buffer *content,
                                struct ad_error *error)
{
    while (content->size <= LARGEST_FILE) {
        if (!ad_buffer_reserve(content, CHUNK)) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        ssize_t n = read(fd, content->data + content->size, CHUNK);
        if (n == 0) {
            return AD_OK;
        }
        if (n > 0) {
            content->size += (size_t)n;
        } else if (errno != EINTR) {
            return ad_fail(error, AD_INVALID, "%.500s: cannot be read: %s", path,
                           strerror(errno));
        }
    }
    return ad_fail(error, AD_INVALID,
                   "%.500s: expected at most %zu bytes of options, got more", path,
                   LARGEST_FILE);
}

enum ad_status ad_options_read_file(struct ad_options_reader *reader, const char *path)
{
    int fd = ad_open(AT_FDCWD, path, O_RDONLY, 0);
    if (fd < 0) {
        return ad_fail(reader->error, AD_INVALID, "%.500s: cannot be opened: %s", path,
                       strerror(errno));
    }
    struct ad_buffer content;
    ad_buffer_init(&content);
    enum ad_status status = read_rest(fd, path, &content, reader->error);
    close(fd);
    if (status == AD_OK) {
        status = ad_options_read_json(reader, content.data, content.size, path);
    }
    ad_buffer_reset(&content);
    return status;
}
