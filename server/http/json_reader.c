/* json_reader.c - strict JSON, as far as the control routes need it: objects, strings, booleans, numbers.
 *
 * What a route takes is known member by member, so there is no value to skip: anything unexpected is
 * a failure. No state but the reader's; any thread. */
#include "http/json_reader.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ad_reader_init(struct ad_reader *reader, const char *text, size_t n,
                    struct ad_error *error)
{
    const char *start = text ? text : "";
    *reader = (struct ad_reader){.start = start, .at = start, .error = error};
    reader->end = start + (text ? n : 0);
}

void ad_reader_fail(struct ad_reader *reader, const char *format, ...)
{
    if (reader->status) {
        return;
    }
    char message[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    reader->status = ad_fail(reader->error, AD_INVALID, "request body: %s", message);
}

static void fail_expected(struct ad_reader *reader, const char *expected)
{
    ad_reader_fail(reader, "expected %s at byte %zu", expected,
                   (size_t)(reader->at - reader->start));
}

void ad_reader_no_memory(struct ad_reader *reader)
{
    if (!reader->status) {
        reader->status = ad_fail(reader->error, AD_INTERNAL, "out of memory");
    }
}

static void skip_space(struct ad_reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4)) {
        reader->at++;
    }
}

/* Take the word if it comes next. */
static bool take(struct ad_reader *reader, const char *word)
{
    const size_t n = strlen(word);
    skip_space(reader);
    if (reader->status || (size_t)(reader->end - reader->at) < n ||
        memcmp(reader->at, word, n) != 0) {
        return false;
    }
    reader->at += n;
    return true;
}

bool ad_reader_is_empty(struct ad_reader *reader)
{
    skip_space(reader);
    return reader->at == reader->end;
}

void ad_reader_end(struct ad_reader *reader)
{
    if (!ad_reader_is_empty(reader)) {
        fail_expected(reader, "the end");
    }
}

/* ---- strings --------------------------------------------------------------------------------- */

static size_t put_utf8(char *out, int32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* The character that \uXXXX at `at` (past the u) means, two of them where it is a pair; -1: none.
 * *n_taken: characters of it. */
static int32_t read_code(const char *at, const char *end, size_t *n_taken)
{
    const int32_t high = ad_utf8_hex4(at, end);
    *n_taken = 4;
    if (high < 0xd800 || high > 0xdfff) {
        return high;
    }
    if (high > 0xdbff || end - at < 10 || at[4] != '\\' || at[5] != 'u') {
        return -1;
    }
    const int32_t low = ad_utf8_hex4(at + 6, end);
    *n_taken = 10;
    return low < 0xdc00 || low > 0xdfff
               ? -1
               : 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* One escape at reader->at (past the backslash) to out; the bytes written, 0: it is none. Never more
 * than it takes. */
static size_t take_escape(struct ad_reader *reader, char *out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end) {
        return 0;
    }
    const char c = *reader->at++;
    if (c == 'u') {
        size_t n_taken = 0;
        const int32_t code = read_code(reader->at, reader->end, &n_taken);
        if (code < 0) {
            return 0;
        }
        reader->at += n_taken;
        return put_utf8(out, code);
    }
    const char *name = memchr(names, c, sizeof names - 1);
    if (!name) {
        return 0;
    }
    out[0] = values[name - names];
    return 1;
}

/* The bytes between the quotes, unescaped, into out, which has room for all that is left of the
 * text. Their number; a failure sticks. */
static size_t take_characters(struct ad_reader *reader, char *out)
{
    size_t n = 0;
    while (reader->at < reader->end && *reader->at != '"') {
        size_t length = 0;
        if (*reader->at == '\\') {
            reader->at++;
            length = take_escape(reader, out + n);
        } else if ((unsigned char)*reader->at >= 0x20) {
            length = ad_utf8_length(reader->at, (size_t)(reader->end - reader->at));
            memcpy(out + n, reader->at, length);
            reader->at += length;
        }
        if (length == 0) {
            fail_expected(reader, "a character of a string or an escape");
            return 0;
        }
        n += length;
    }
    if (reader->at == reader->end) {
        fail_expected(reader, "the end of a string");
        return 0;
    }
    reader->at++;
    return n;
}

char *ad_reader_string(struct ad_reader *reader, size_t *n_bytes)
{
    *n_bytes = 0;
    if (!take(reader, "\"")) {
        fail_expected(reader, "a string");
        return NULL;
    }
    /* up to the closing quote, or one that is escaped: it grows no further than what is left */
    char *text = malloc((size_t)(reader->end - reader->at) + 1);
    if (!text) {
        ad_reader_no_memory(reader);
        return NULL;
    }
    const size_t n = take_characters(reader, text);
    if (reader->status) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *n_bytes = n;
    char *shorter = realloc(text, n + 1);
    if (shorter) {
        text = shorter;
    }
    return text;
}

/* ---- the rest -------------------------------------------------------------------------------- */

bool ad_reader_bool(struct ad_reader *reader)
{
    if (take(reader, "true")) {
        return true;
    }
    if (!take(reader, "false")) {
        fail_expected(reader, "true or false");
    }
    return false;
}

uint64_t ad_reader_number(struct ad_reader *reader)
{
    uint64_t number = 0;
    skip_space(reader);
    const char *first = reader->at;
    bool fits = !reader->status;
    while (fits && reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        fits = !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*reader->at - '0'), &number) &&
               number <= INT64_MAX;
        reader->at++;
    }
    size_t n = (size_t)(reader->at - first);
    bool ends = reader->at == reader->end || !strchr(".eE", *reader->at);
    if (!fits || n == 0 || (n > 1 && *first == '0') || !ends) {
        reader->at = first;
        fail_expected(reader, "a whole number from 0 to 2^63 - 1");
        return 0;
    }
    return number;
}

/* A member's name and the colon behind it. */
static bool take_key(struct ad_reader *reader)
{
    size_t n = 0;
    char *key = ad_reader_string(reader, &n);
    if (!key) {
        return false;
    }
    const bool fits = n < sizeof reader->key && strlen(key) == n;
    if (fits) {
        memcpy(reader->key, key, n + 1);
    } else {
        ad_reader_fail(reader, "'%.64s...' is not the name of a member", key);
    }
    free(key);
    if (fits && !take(reader, ":")) {
        fail_expected(reader, "':'");
    }
    return !reader->status;
}

bool ad_reader_open(struct ad_reader *reader)
{
    if (!take(reader, "{")) {
        fail_expected(reader, "an object");
        return false;
    }
    if (++reader->depth > AD_READER_MAX_DEPTH) {
        ad_reader_fail(reader, "objects inside one another are at most %d deep",
                       AD_READER_MAX_DEPTH);
        return false;
    }
    if (take(reader, "}")) {
        reader->depth--;
        return false;
    }
    return take_key(reader);
}

bool ad_reader_more(struct ad_reader *reader)
{
    if (take(reader, ",")) {
        return take_key(reader);
    }
    if (!take(reader, "}")) {
        fail_expected(reader, "',' or '}'");
    }
    reader->depth--;
    return false;
}
