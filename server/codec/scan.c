/* scan.c - the JSON of an infer request without its numbers.
 *
 * One pass with a stack of open containers, no recursion, so that neither depth nor length of a
 * hostile text costs more than its bytes. Runs on a worker; all state is the caller's. */
#include "codec/scan.h"
#include "base/utf8.h"
#include "codec/marks.h"
#include "codec/numbers.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What a container means; only the way to `data` matters. */
enum role {
    ROLE_OTHER,
    ROLE_REQUEST, /* the outermost object */
    ROLE_INPUTS,  /* the array behind its `inputs` */
    ROLE_INPUT    /* an object in that array */
};

/* An open container. */
struct frame {
    enum role role;
    bool is_object;
    bool has_data;   /* ROLE_INPUT: `data` was seen */
    size_t n;        /* elements or members begun */
    const char *key; /* of the member being read, as spelled between its quotes */
    size_t n_key;
};

struct scanner {
    const char *begin, *at, *end;
    locale_t c_locale;
    struct frame frames[AD_SCAN_MAX_DEPTH];
    size_t depth;
    struct ad_envelope *envelope;
    struct ad_error *error;
};

static struct frame *top(struct scanner *s)
{
    return &s->frames[s->depth - 1];
}

/* " (inputs[0].shape)": where the scanner is. */
static void add_path(const struct scanner *s, struct ad_text *text)
{
    for (size_t i = 0; i < s->depth; i++) {
        const struct frame *frame = &s->frames[i];
        if (frame->is_object && frame->key) {
            int n = frame->n_key < 40 ? (int)frame->n_key : 40;
            ad_text_add(text, "%s%.*s", i > 0 ? "." : " (", n, frame->key);
        } else if (!frame->is_object && frame->n > 0) {
            ad_text_add(text, "[%zu]", frame->n - 1);
        }
    }
    ad_text_add(text, s->depth > 0 && s->frames[0].key ? ")" : "");
}

static enum ad_status fail(const struct scanner *s, const char *what)
{
    struct ad_text path = {0};
    add_path(s, &path);
    return ad_fail(s->error, AD_INVALID, "invalid JSON at offset %zu%s: %s",
                   (size_t)(s->at - s->begin), path.bytes, what);
}

static enum ad_status fail_expected(const struct scanner *s, const char *expected)
{
    struct ad_text text = {0};
    ad_text_add(&text, "expected %s, got ", expected);
    if (s->at == s->end) {
        ad_text_add(&text, "the end of the text");
    } else if (*s->at > 0x20 && *s->at < 0x7f) {
        ad_text_add(&text, "'%c'", *s->at);
    } else {
        ad_text_add(&text, "byte 0x%02x", (unsigned)(unsigned char)*s->at);
    }
    return fail(s, text.bytes);
}

static void skip_space(struct scanner *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) {
        s->at++;
    }
}

static bool starts_with(const struct scanner *s, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(s->end - s->at) >= n && memcmp(s->at, word, n) == 0;
}

/* ---- strings --------------------------------------------------------------------------- */

/* At a backslash. */
static enum ad_status scan_escape(struct scanner *s)
{
    if (s->end - s->at < 2 || !s->at[1] || !strchr("\"\\/bfnrtu", s->at[1])) {
        return fail(s, "unknown escape in a string");
    }
    if (s->at[1] != 'u') {
        s->at += 2;
        return AD_OK;
    }
    int code = ad_utf8_hex4(s->at + 2, s->end);
    if (code < 0) {
        return fail(s, "expected four hexadecimal digits after \\u");
    }
    if (code == 0) {
        return fail(s, "a string must not hold \\u0000");
    }
    if (code < 0xd800 || code > 0xdfff) {
        s->at += 6;
        return AD_OK;
    }
    int low = -1;
    if (code < 0xdc00 && s->end - s->at >= 12 && s->at[6] == '\\' && s->at[7] == 'u') {
        low = ad_utf8_hex4(s->at + 8, s->end);
    }
    if (low < 0xdc00 || low > 0xdfff) {
        return fail(s, "half of a surrogate pair in a string");
    }
    s->at += 12;
    return AD_OK;
}

/* At the opening quote; ends behind the closing one. */
static enum ad_status scan_string(struct scanner *s)
{
    s->at++;
    while (s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at;
        if (c == '\\') {
            enum ad_status status = scan_escape(s);
            if (status) {
                return status;
            }
        } else if (c < 0x20) {
            return fail(s, "control character in a string");
        } else {
            size_t n = c < 0x80 ? 1 : ad_utf8_length(s->at, (size_t)(s->end - s->at));
            if (n == 0) {
                return fail(s, "invalid UTF-8 in a string");
            }
            s->at += n;
        }
    }
    if (s->at == s->end) {
        return fail(s, "a string without its closing quote");
    }
    s->at++;
    return AD_OK;
}

/* Is this the key of the member being read, whichever way it was escaped? A valid escape other than
 * \u never stands for a letter. */
static bool key_is(const struct frame *frame, const char *name)
{
    const char *at = frame->key, *end = frame->key + frame->n_key;
    for (; *name; name++) {
        int c = at == end ? -1 : *at;
        size_t n = 1;
        if (c == '\\') {
            c = at[1] == 'u' ? ad_utf8_hex4(at + 2, end) : -1;
            n = 6;
        }
        if (c != *name) {
            return false;
        }
        at += n;
    }
    return at == end;
}

/* ---- values ---------------------------------------------------------------------------- */

/* At a list or object: find its end. Strings are checked, nothing else. */
static enum ad_status skip_nested(struct scanner *s)
{
    size_t depth = 0;
    do {
        s->at = ad_marks_skip(s->at, s->end, &depth);
        if (depth > 0 && s->at == s->end) {
            return fail_expected(s, "the end of the value");
        }
        enum ad_status status = depth > 0 ? scan_string(s) : AD_OK;
        if (status) {
            return status;
        }
    } while (depth > 0);
    return AD_OK;
}

/* At anything else: a token that ends before white space or a delimiter, or with the list, object or
 * string that it turns into. */
static enum ad_status skip_bare(struct scanner *s)
{
    while (s->at < s->end && (*s->at == '\0' || !strchr(",]} \n\r\t", *s->at))) {
        if (*s->at == '"') {
            return scan_string(s);
        }
        if (*s->at == '[' || *s->at == '{') {
            return skip_nested(s);
        }
        s->at++;
    }
    return s->at < s->end ? AD_OK : fail_expected(s, "the end of the value");
}

/* At the first byte of a `data` value: find its end and note it. */
static enum ad_status skip_data(struct scanner *s)
{
    if (top(s)->has_data) {
        return fail(s, "duplicate member");
    }
    top(s)->has_data = true;
    const char *begin = s->at;
    enum ad_status status = skip_bare(s);
    if (status) {
        return status;
    }
    if (s->at == begin) {
        return fail_expected(s, "a value");
    }
    struct ad_envelope *envelope = s->envelope;
    if (envelope->n_data == ATTN_MAX_PORTS) {
        return fail(s, "more inputs than any model takes");
    }
    envelope->data[envelope->n_data++] =
        (struct ad_span){(size_t)(begin - s->begin), (size_t)(s->at - s->begin), 0};
    return AD_OK;
}

static enum ad_status scan_number(struct scanner *s)
{
    bool is_integer = false;
    const char *stop = ad_number_end(s->at, s->end, &is_integer);
    if (!stop) {
        return fail(s, "malformed number");
    }
    if (stop == s->end) {
        s->at = stop;
        return fail_expected(s, "',' or the end of a list or object");
    }
    double real;
    int64_t integer;
    const char *start = s->at;
    enum ad_number result =
        is_integer ? ad_number_int(&s->at, s->end, INT64_MIN, INT64_MAX, &integer)
                   : ad_number_f64(&s->at, s->end, s->c_locale, &real);
    if (result == AD_NUMBER_OK) {
        return AD_OK;
    }
    char what[96];
    int n = stop - start < 40 ? (int)(stop - start) : 40;
    snprintf(what, sizeof what, "%.*s is beyond the range of %s", n, start,
             is_integer ? "64-bit integers" : "FP64");
    return fail(s, what);
}

static enum role role_of(struct scanner *s, bool is_object)
{
    if (s->depth == 0) {
        return ROLE_REQUEST;
    }
    const struct frame *parent = top(s);
    if (parent->role == ROLE_REQUEST && !is_object && key_is(parent, "inputs")) {
        return ROLE_INPUTS;
    }
    return parent->role == ROLE_INPUTS && is_object ? ROLE_INPUT : ROLE_OTHER;
}

static enum ad_status open_container(struct scanner *s)
{
    if (s->depth == AD_SCAN_MAX_DEPTH) {
        return fail(s, "nested more than 100 deep");
    }
    bool is_object = *s->at == '{';
    struct frame frame = {role_of(s, is_object), is_object, false, 0, NULL, 0};
    s->frames[s->depth++] = frame;
    s->at++;
    return AD_OK;
}

static enum ad_status scan_word(struct scanner *s)
{
    static const char *const words[] = {"true", "false", "null"};
    static const char *const not_numbers[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < 3; i++) {
        if (starts_with(s, words[i])) {
            s->at += strlen(words[i]);
            return AD_OK;
        }
        if (starts_with(s, not_numbers[i])) {
            return fail(s, "NaN and Infinity are not JSON");
        }
    }
    return fail_expected(s, "a value");
}

/* At the first byte of a value. A container is only opened. */
static enum ad_status scan_value(struct scanner *s)
{
    if (s->depth > 0 && top(s)->role == ROLE_INPUT && key_is(top(s), "data")) {
        return skip_data(s);
    }
    char c = s->at < s->end ? *s->at : '\0';
    if (c == '{' || c == '[') {
        return open_container(s);
    }
    if (c == '"') {
        return scan_string(s);
    }
    if ((c >= '0' && c <= '9') || (c == '-' && !starts_with(s, "-I"))) {
        return scan_number(s);
    }
    return scan_word(s);
}

/* "key":, up to its value. */
static enum ad_status scan_key(struct scanner *s)
{
    struct frame *frame = top(s);
    if (s->at == s->end || *s->at != '"') {
        return fail_expected(s, "a member's name in double quotes");
    }
    const char *key = s->at + 1;
    enum ad_status status = scan_string(s);
    if (status) {
        return status;
    }
    frame->key = key;
    frame->n_key = (size_t)(s->at - 1 - key);
    skip_space(s);
    if (s->at == s->end || *s->at != ':') {
        return fail_expected(s, "':'");
    }
    s->at++;
    skip_space(s);
    return AD_OK;
}

/* One step inside the innermost container: close it, or read its next element or member. */
static enum ad_status scan_next(struct scanner *s)
{
    struct frame *frame = top(s);
    skip_space(s);
    if (s->at < s->end && *s->at == (frame->is_object ? '}' : ']')) {
        s->at++;
        s->depth--;
        return AD_OK;
    }
    if (frame->n > 0) {
        if (s->at == s->end || *s->at != ',') {
            return fail_expected(s, frame->is_object ? "',' or '}'" : "',' or ']'");
        }
        s->at++;
        skip_space(s);
    }
    frame->n++;
    enum ad_status status = frame->is_object ? scan_key(s) : AD_OK;
    return status ? status : scan_value(s);
}

static enum ad_status scan_text(struct scanner *s)
{
    skip_space(s);
    if (s->at == s->end || *s->at != '{') {
        return fail_expected(s, "a JSON object");
    }
    enum ad_status status = open_container(s);
    while (!status && s->depth > 0) {
        status = scan_next(s);
    }
    if (status) {
        return status;
    }
    skip_space(s);
    return s->at == s->end ? AD_OK : fail_expected(s, "nothing after the JSON object");
}

/* ---- envelope -------------------------------------------------------------------------- */

static size_t digits_of(size_t index)
{
    return index < 10 ? 1 : 2;
}

static enum ad_status copy_envelope(const char *text, size_t n, struct ad_arena *arena,
                                    struct ad_envelope *envelope, struct ad_error *error)
{
    _Static_assert(ATTN_MAX_PORTS <= 100, "an index has at most two digits");
    size_t size = n;
    for (size_t i = 0; i < envelope->n_data; i++) {
        size -= envelope->data[i].end - envelope->data[i].begin;
        size += digits_of(i);
    }
    if (size > AD_SCAN_MAX_ENVELOPE) {
        return ad_fail(
            error, AD_TOO_LARGE,
            "the JSON beside the inputs' data takes %zu bytes, at most %zu are "
            "accepted",
            size, AD_SCAN_MAX_ENVELOPE);
    }
    envelope->text = ad_arena_alloc(arena, size + 1);
    if (!envelope->text) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    size_t from = 0, to = 0;
    for (size_t i = 0; i < envelope->n_data; i++) {
        struct ad_span *span = &envelope->data[i];
        memcpy(envelope->text + to, text + from, span->begin - from);
        to += span->begin - from;
        span->replaced_at = to;
        to += (size_t)snprintf(envelope->text + to, size + 1 - to, "%zu", i);
        from = span->end;
    }
    memcpy(envelope->text + to, text + from, n - from);
    envelope->text[size] = '\0';
    envelope->size = size;
    return AD_OK;
}

enum ad_status ad_scan_request(const char *text, size_t n, locale_t c_locale,
                               struct ad_arena *arena, struct ad_envelope *envelope,
                               struct ad_error *error)
{
    struct scanner scanner;
    scanner.begin = scanner.at = text;
    scanner.end = text + n;
    scanner.c_locale = c_locale;
    scanner.depth = 0;
    scanner.envelope = envelope;
    scanner.error = error;
    envelope->n_data = 0;
    enum ad_status status = scan_text(&scanner);
    return status ? status : copy_envelope(text, n, arena, envelope, error);
}

size_t ad_envelope_original(const struct ad_envelope *envelope, size_t offset)
{
    size_t original = offset;
    for (size_t i = 0; i < envelope->n_data; i++) {
        const struct ad_span *span = &envelope->data[i];
        if (offset <= span->replaced_at) {
            break;
        }
        original = offset - span->replaced_at - digits_of(i) + span->end;
    }
    return original;
}
