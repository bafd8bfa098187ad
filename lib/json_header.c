/* json_header.c - the tokens of JSON (RFC 8259) from hostile bytes. The caller owns the reader;
 * no thread but its own may use it. */
#include "json_header.h"

#include "tensor.h"
#include "utf8.h"

#include <stdint.h>
#include <string.h>

struct attni_json attni_json_begin(const void *text, size_t n)
{
    const unsigned char *start = text;
    return (struct attni_json){.start = start, .next = start, .end = start + n};
}

static bool fault(struct attni_json *json, const char *what)
{
    if (!json->fault) {
        json->fault = what;
    }
    return false;
}

static size_t n_left(const struct attni_json *json)
{
    return (size_t)(json->end - json->next);
}

static bool next_is(const struct attni_json *json, char c)
{
    return json->next < json->end && *json->next == (unsigned char)c;
}

static void skip_space(struct attni_json *json)
{
    while (next_is(json, ' ') || next_is(json, '\t') || next_is(json, '\n') ||
           next_is(json, '\r')) {
        json->next++;
    }
}

char attni_json_peek(struct attni_json *json)
{
    skip_space(json);
    return json->next < json->end ? (char)*json->next : '\0';
}

bool attni_json_take(struct attni_json *json, char c)
{
    if (json->fault) {
        return false;
    }
    skip_space(json);
    if (!next_is(json, c)) {
        return false;
    }
    json->next++;
    return true;
}

bool attni_json_expect(struct attni_json *json, char c, const char *expected)
{
    return attni_json_take(json, c) || fault(json, expected);
}

const char *attni_json_kind(struct attni_json *json)
{
    switch (attni_json_peek(json)) {
    case '"':
        return "a string";
    case '{':
        return "an object";
    case '[':
        return "an array";
    case 't':
    case 'f':
        return "a boolean";
    case 'n':
        return "null";
    case '-':
    case '0' ... '9':
        return "a number";
    default:
        fault(json, "expected a value");
        return NULL;
    }
}

bool attni_json_more(struct attni_json *json, char close, size_t *n)
{
    if (json->fault || attni_json_take(json, close)) {
        return false;
    }
    if (*n > 0 && !attni_json_take(json, ',')) {
        return fault(json, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    ++*n;
    return true;
}

/* ---- strings --------------------------------------------------------------------------- */

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Read one \uXXXX. */
static bool read_unit(struct attni_json *json, uint32_t *unit)
{
    if (n_left(json) < 6 || json->next[0] != '\\' || json->next[1] != 'u') {
        return false;
    }
    *unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(json->next[i]);
        if (digit < 0) {
            return false;
        }
        *unit = *unit << 4 | (uint32_t)digit;
    }
    json->next += 6;
    return true;
}

static char *put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* \uXXXX, or two of them that are the halves of one code. */
static bool read_code(struct attni_json *json, char **out)
{
    uint32_t code;
    if (!read_unit(json, &code)) {
        return fault(json, "\\u needs four hexadecimal digits");
    }
    if (code >= 0xd800 && code <= 0xdfff) {
        uint32_t low;
        if (code >= 0xdc00 || !read_unit(json, &low) || low < 0xdc00 || low > 0xdfff) {
            return fault(json, "half of a surrogate pair in a string");
        }
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    *out = put_utf8(*out, code);
    return true;
}

static bool read_escape(struct attni_json *json, char **out)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (n_left(json) < 2) {
        return fault(json, "string without an end");
    }
    if (json->next[1] == 'u') {
        return read_code(json, out);
    }
    const char *letter = memchr(letters, json->next[1], sizeof letters - 1);
    if (!letter) {
        return fault(json, "unknown escape in a string");
    }
    *(*out)++ = meanings[letter - letters];
    json->next += 2;
    return true;
}

static bool read_character(struct attni_json *json, char **out)
{
    if (*json->next < 0x20) {
        return fault(json, "control character in a string");
    }
    size_t n = attni_utf8_length(json->next, n_left(json));
    if (n == 0) {
        return fault(json, "not valid UTF-8");
    }
    memcpy(*out, json->next, n);
    *out += n;
    json->next += n;
    return true;
}

bool attni_json_string(struct attni_json *json, char *out, size_t *length)
{
    if (!attni_json_expect(json, '"', "expected a string")) {
        return false;
    }
    char *at = out;
    while (json->next < json->end && *json->next != '"') {
        bool read =
            *json->next == '\\' ? read_escape(json, &at) : read_character(json, &at);
        if (!read) {
            return false;
        }
    }
    if (json->next == json->end) {
        return fault(json, "string without an end");
    }
    json->next++;
    *at = '\0';
    *length = (size_t)(at - out);
    return true;
}

/* ---- numbers --------------------------------------------------------------------------- */

/* One digit or more. *value is their number, *fits whether that is right. */
static bool read_digits(struct attni_json *json, size_t *value, bool *fits)
{
    const unsigned char *start = json->next;
    *value = 0;
    *fits = true;
    for (; json->next < json->end && *json->next >= '0' && *json->next <= '9';
         json->next++) {
        *fits = *fits && attni_multiply(*value, 10, value) &&
                attni_add(*value, (size_t)(*json->next - '0'), value);
    }
    return json->next > start || fault(json, "expected a digit");
}

bool attni_json_number(struct attni_json *json, enum attni_number *kind, size_t *value)
{
    bool negative = attni_json_take(json, '-');
    bool leading_zero = next_is(json, '0');
    const unsigned char *start = json->next;
    bool fits;
    if (!read_digits(json, value, &fits)) {
        return false;
    }
    if (leading_zero && json->next - start > 1) {
        return fault(json, "number with a leading zero");
    }
    *kind = negative ? ATTNI_NUMBER_NEGATIVE
            : fits   ? ATTNI_NUMBER_WHOLE
                     : ATTNI_NUMBER_TOO_LARGE;
    size_t ignored;
    if (next_is(json, '.')) {
        json->next++;
        *kind = ATTNI_NUMBER_FRACTION;
        if (!read_digits(json, &ignored, &fits)) {
            return false;
        }
    }
    if (next_is(json, 'e') || next_is(json, 'E')) {
        json->next++;
        *kind = ATTNI_NUMBER_FRACTION;
        if (next_is(json, '+') || next_is(json, '-')) {
            json->next++;
        }
        return read_digits(json, &ignored, &fits);
    }
    return true;
}
