/* logging_request.c - the log's settings as JSON. Pure; any thread. */
#include "http/logging_request.h"

#include "http/json_reader.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 64 /* characters of what came, in a message */

static const struct member {
    const char *name;
    unsigned bit;
    const char *expected;
} members[] = {
    {"log_file", AD_LOG_GIVES_FILE, "a file name of up to 255 bytes"},
    {"log_info", AD_LOG_GIVES_INFO, "true or false"},
    {"log_warning", AD_LOG_GIVES_WARNING, "true or false"},
    {"log_error", AD_LOG_GIVES_ERROR, "true or false"},
    {"log_verbose_level", AD_LOG_GIVES_VERBOSE_LEVEL, "an integer 0..999999999"},
    {"log_format", AD_LOG_GIVES_STYLE, "\"default\", \"ISO8601\" or \"json\""}};

static const struct member *find_member(const char *name)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (strcmp(members[i].name, name) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

static void skip_blanks(struct ad_reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4)) {
        reader->at++;
    }
}

/* A string without a NUL that fits text, of AD_LOG_FILE_SIZE bytes. */
static bool take_text(struct ad_reader *reader, char *text)
{
    size_t n = 0;
    char *taken = ad_reader_string(reader, &n);
    bool fits = taken && n < AD_LOG_FILE_SIZE && strlen(taken) == n;
    if (fits) {
        memcpy(text, taken, n + 1);
    }
    free(taken);
    return fits;
}

static bool take_bool(struct ad_reader *reader, bool *value)
{
    *value = ad_reader_bool(reader);
    return !reader->status;
}

/* Up to nine digits; what stands behind them is for who reads on. */
static bool take_level(struct ad_reader *reader, uint64_t *value)
{
    const char *first = reader->at;
    *value = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' &&
           reader->at - first < 10) {
        *value = *value * 10 + (uint64_t)(*reader->at++ - '0');
    }
    ptrdiff_t n = reader->at - first;
    bool more = reader->at < reader->end && memchr(".eE", *reader->at, 3);
    return n > 0 && n < 10 && !more && (n == 1 || *first != '0');
}

static bool take_style(struct ad_reader *reader, enum ad_log_style *style)
{
    char text[AD_LOG_FILE_SIZE];
    if (!take_text(reader, text)) {
        return false;
    }
    for (size_t i = 0; ad_log_style_words[i]; i++) {
        if (strcmp(ad_log_style_words[i], text) == 0) {
            *style = (enum ad_log_style)i;
            return true;
        }
    }
    return false;
}

static bool take_value(struct ad_reader *reader, unsigned bit, struct ad_log_settings *to)
{
    switch (bit) {
    case AD_LOG_GIVES_FILE:
        return take_text(reader, to->file);
    case AD_LOG_GIVES_INFO:
        return take_bool(reader, &to->info);
    case AD_LOG_GIVES_WARNING:
        return take_bool(reader, &to->warning);
    case AD_LOG_GIVES_ERROR:
        return take_bool(reader, &to->error);
    case AD_LOG_GIVES_VERBOSE_LEVEL:
        return take_level(reader, &to->verbose_level);
    default:
        return take_style(reader, &to->style);
    }
}

/* The member whose name was read: its value. */
static enum ad_status take_member(struct ad_reader *reader, struct ad_log_change *change,
                                  struct ad_error *error)
{
    const struct member *member = find_member(reader->key);
    if (!member) {
        return ad_fail(error, AD_INVALID,
                       "%.64s: expected log_file, log_info, log_warning, log_error, "
                       "log_verbose_level or log_format",
                       reader->key);
    }
    if (change->given & member->bit) {
        return ad_fail(error, AD_INVALID, "%s: came more than once", member->name);
    }
    skip_blanks(reader);
    const char *value = reader->at;
    if (!take_value(reader, member->bit, &change->to)) {
        int n = 0;
        while (value + n < reader->end && n < SHOWN && !memchr(",}\r\n", value[n], 4)) {
            n++;
        }
        return ad_fail(error, AD_INVALID, "%s: expected %s, got %.*s", member->name,
                       member->expected, n, value);
    }
    change->given |= member->bit;
    return AD_OK;
}

enum ad_status ad_logging_request_parse(const char *text, size_t n,
                                        struct ad_log_change *change,
                                        struct ad_error *error)
{
    struct ad_reader reader;
    struct ad_error fault = {.status =
                                 AD_OK}; /* of the syntax; a setting's comes first */
    memset(change, 0, sizeof *change);
    ad_reader_init(&reader, text, n, &fault);
    if (ad_reader_is_empty(&reader)) {
        return AD_OK;
    }
    for (bool more = ad_reader_open(&reader); more; more = ad_reader_more(&reader)) {
        enum ad_status status = take_member(&reader, change, error);
        if (status) {
            return status;
        }
    }
    ad_reader_end(&reader);
    return reader.status ? ad_fail(error, reader.status, "%s", fault.message) : AD_OK;
}

void ad_logging_write(struct ad_json *json, const struct ad_log_settings *settings)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "log_file", settings->file);
    ad_json_bool_member(json, "log_info", settings->info);
    ad_json_bool_member(json, "log_warning", settings->warning);
    ad_json_bool_member(json, "log_error", settings->error);
    ad_json_key(json, "log_verbose_level");
    ad_json_integer(json, (int64_t)settings->verbose_level);
    ad_json_string_member(json, "log_format", ad_log_style_words[settings->style]);
    ad_json_close(json, '}');
}
