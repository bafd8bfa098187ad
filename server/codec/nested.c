/* nested.c - numbers in nested JSON lists whose text alone says their shape.
 *
 * Nesting recurses at most ATTN_MAX_RANK deep. Runs on the worker that decodes the request; keeps no
 * state. */
#include "codec/nested.h"
#include "codec/marks.h"
#include "codec/numbers.h"
#include "codec/text.h"

#include <stdint.h>
#include <string.h>

/* ---- places ------------------------------------------------------------------------------------ */

void ad_cursor_skip_space(struct ad_cursor *cursor)
{
    const char *at = cursor->at;
    while (at < cursor->end &&
           (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    cursor->at = at;
}

bool ad_cursor_is(const struct ad_cursor *cursor, char c)
{
    return cursor->at < cursor->end && *cursor->at == c;
}

bool ad_cursor_take(struct ad_cursor *cursor, char c)
{
    ad_cursor_skip_space(cursor);
    if (!ad_cursor_is(cursor, c)) {
        return false;
    }
    cursor->at++;
    ad_cursor_skip_space(cursor);
    return true;
}

/* Behind the string whose opening quote is at `at`; NULL: it does not end. */
static const char *string_end(const char *at, const char *end)
{
    at++;
    while (at < end && *at != '"') {
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    }
    return at < end ? at + 1 : NULL;
}

static bool ends_value(char c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
           c == '\t';
}

/* Behind the list or object that opens at `at`; NULL: it does not end. */
static const char *container_end(const char *at, const char *end)
{
    size_t depth = 0;
    do {
        at = ad_marks_skip(at, end, &depth);
        if (depth > 0) {
            at = at < end ? string_end(at, end) : NULL;
        }
    } while (depth > 0 && at);
    return at;
}

bool ad_cursor_skip_value(struct ad_cursor *cursor)
{
    const char *at = cursor->at, *end = cursor->end;
    if (at == end || ends_value(*at)) {
        return false;
    }
    if (*at == '[' || *at == '{') {
        at = container_end(at, end);
    } else if (*at == '"') {
        at = string_end(at, end);
    } else {
        while (at < end && !ends_value(*at)) {
            at++;
        }
    }
    cursor->at = at ? at : cursor->at;
    return at != NULL;
}

const char *ad_cursor_kind(const struct ad_cursor *cursor)
{
    return ad_text_kind(cursor->at, cursor->end);
}

enum ad_status ad_cursor_fail(const struct ad_cursor *cursor, const char *expected,
                              struct ad_error *error)
{
    size_t offset = (size_t)(cursor->at - cursor->begin);
    if (cursor->at == cursor->end) {
        return ad_fail(error, AD_INVALID,
                       "invalid JSON at offset %zu: expected %s, got the end of the text",
                       offset, expected);
    }
    return ad_fail(error, AD_INVALID,
                   *cursor->at > 0x20 && *cursor->at < 0x7f
                       ? "invalid JSON at offset %zu: expected %s, got '%c'"
                       : "invalid JSON at offset %zu: expected %s, got byte 0x%02x",
                   offset, expected, (unsigned char)*cursor->at);
}

/* ---- measuring --------------------------------------------------------------------------------- */

/* On the way through the lists. */
struct measure {
    struct ad_nested *nested;
    size_t depth;
    bool descends;              /* no element or end of a list has come yet */
    bool is_empty;              /* the innermost list, so far */
    bool closed[ATTN_MAX_RANK]; /* the first list of this level has ended */
};

static void open_list(struct measure *m)
{
    if (m->descends && m->depth < ATTN_MAX_RANK) {
        m->nested->shape[m->depth] = 1;
        m->nested->rank = m->depth + 1;
    }
    m->depth++;
    m->is_empty = true;
}

/* The list of the level at hand that counts, if it does: NULL where it is not the first. */
static size_t *counted(struct measure *m)
{
    bool counts = m->depth <= m->nested->rank && !m->closed[m->depth - 1];
    return counts ? &m->nested->shape[m->depth - 1] : NULL;
}

static void close_list(struct measure *m)
{
    size_t *n = counted(m);
    if (n) {
        m->closed[m->depth - 1] = true;
        *n = m->is_empty ? 0 : *n;
    }
    m->depth--;
    m->is_empty = false;
}

static void count_comma(struct measure *m)
{
    size_t *n = counted(m);
    if (n) {
        ++*n;
    }
    m->nested->n_leaves++;
}

void ad_nested_measure(struct ad_cursor *cursor, struct ad_nested *nested)
{
    struct measure m = {.nested = nested, .descends = true};
    const char *at = cursor->at, *end = cursor->end;
    *nested = (struct ad_nested){.rank = 0, .n_leaves = 1};
    if (!ad_cursor_is(cursor, '[')) {
        (void)ad_cursor_skip_value(cursor);
        return;
    }
    do {
        char c = *at;
        const char *next = at + 1;
        if (c == '[') {
            open_list(&m);
        } else if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            m.descends = false;
            if (c == ']') {
                close_list(&m);
            } else if (c == ',') {
                count_comma(&m);
            } else if (c == '"') {
                next = string_end(at, end);
                next = next ? next : end;
            }
            m.is_empty = false;
        }
        at = next;
    } while (m.depth > 0 && at < end);
    cursor->at = at;
}

/* ---- reading ----------------------------------------------------------------------------------- */

struct reader {
    struct ad_cursor *cursor;
    const struct ad_nested_value *value;
    size_t index[ATTN_MAX_RANK]; /* of the element being read */
    void *elements;
    size_t n_read;
    struct ad_error *error;
};

void ad_nested_add_place(const struct ad_nested_value *value, const size_t *index,
                         size_t n_indices, struct ad_text *text)
{
    ad_text_add(text, "instances[%zu]%s%s", value->instance, value->name ? "." : "",
                value->name ? value->name : "");
    for (size_t i = 0; i < n_indices; i++) {
        ad_text_add(text, "[%zu]", index[i]);
    }
}

static struct ad_text place_of(const struct reader *r, size_t n_indices)
{
    struct ad_text text = {0};
    ad_nested_add_place(r->value, r->index, n_indices, &text);
    return text;
}

static bool starts_with(const struct reader *r, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(r->cursor->end - r->cursor->at) >= n &&
           memcmp(r->cursor->at, word, n) == 0;
}

/* The token at hand, cut short; the length for "%.*s". */
static int token_length(const struct reader *r)
{
    const char *at = r->cursor->at;
    size_t n = 0;
    while (n < 40 && at + n < r->cursor->end && !ends_value(at[n])) {
        n++;
    }
    return (int)n;
}

static enum ad_status fail_element(const struct reader *r, const char *expected)
{
    struct ad_text place = place_of(r, r->value->rank);
    if (starts_with(r, "NaN") || starts_with(r, "Infinity") ||
        starts_with(r, "-Infinity")) {
        return ad_fail(r->error, AD_INVALID, "%s is %.*s, which JSON does not have",
                       place.bytes, token_length(r), r->cursor->at);
    }
    return ad_fail(r->error, AD_INVALID, "%s must be %s, got %s", place.bytes, expected,
                   ad_cursor_kind(r->cursor));
}

static enum ad_status fail_number(const struct reader *r, enum ad_number result,
                                  const char *expected)
{
    char c = r->cursor->at < r->cursor->end ? *r->cursor->at : '\0';
    bool begins_one = (c >= '0' && c <= '9') || (c == '-' && !starts_with(r, "-I"));
    if (result == AD_NUMBER_MALFORMED && !begins_one) {
        return fail_element(r, expected);
    }
    struct ad_text place = place_of(r, r->value->rank);
    return ad_fail(r->error, AD_INVALID, "%s must be %s, got %.*s", place.bytes,
                   result == AD_NUMBER_MALFORMED ? "a JSON number"
                   : result == AD_NUMBER_RANGE   ? r->value->dtype == ATTN_F32
                                                       ? "in the range of FP32"
                                                       : "in the range of INT64"
                                                 : expected,
                   token_length(r), r->cursor->at);
}

static enum ad_status read_boolean(struct reader *r)
{
    bool value = starts_with(r, "true");
    if (!value && !starts_with(r, "false")) {
        return fail_element(r, "true or false");
    }
    ((unsigned char *)r->elements)[r->n_read++] = value;
    r->cursor->at += value ? 4 : 5;
    return AD_OK;
}

static enum ad_status read_element(struct reader *r)
{
    struct ad_cursor *cursor = r->cursor;
    if (r->value->dtype == ATTN_BOOL) {
        return read_boolean(r);
    }
    enum ad_number result;
    const char *expected = "a number";
    if (r->value->dtype == ATTN_F32) {
        result = ad_number_f32(&cursor->at, cursor->end, r->value->c_locale,
                               (float *)r->elements + r->n_read);
    } else {
        expected = "an integer";
        result = ad_number_int(&cursor->at, cursor->end, INT64_MIN, INT64_MAX,
                               (int64_t *)r->elements + r->n_read);
    }
    if (result != AD_NUMBER_OK) {
        return fail_number(r, result, expected);
    }
    r->n_read++;
    return AD_OK;
}

/* The list at this level has another length than the first there. */
static enum ad_status fail_length(const struct reader *r, size_t level, size_t n)
{
    struct ad_text place = place_of(r, level);
    size_t wanted = r->value->shape[level];
    if (n < wanted) {
        return ad_fail(r->error, AD_INVALID,
                       "%s must have length %zu, as the first list in its place, got %zu",
                       place.bytes, wanted, n);
    }
    return ad_fail(r->error, AD_INVALID,
                   "%s must have length %zu, as the first list in its place, got more",
                   place.bytes, wanted);
}

/* At what should be the list at this level; ends behind it. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than a tensor has axes */
static enum ad_status read_list(struct reader *r, size_t level)
{
    struct ad_cursor *cursor = r->cursor;
    if (!ad_cursor_is(cursor, '[')) {
        struct ad_text place = place_of(r, level);
        return ad_fail(r->error, AD_INVALID, "%s must be a list, got %s", place.bytes,
                       ad_cursor_kind(cursor));
    }
    cursor->at++;
    ad_cursor_skip_space(cursor);
    size_t n = 0;
    for (bool more = !ad_cursor_is(cursor, ']'); more; n++) {
        if (n == r->value->shape[level]) {
            return fail_length(r, level, n);
        }
        r->index[level] = n;
        enum ad_status status =
            level + 1 < r->value->rank ? read_list(r, level + 1) : read_element(r);
        if (status) {
            return status;
        }
        ad_cursor_skip_space(cursor);
        more = ad_cursor_take(cursor, ',');
        if (!more && !ad_cursor_is(cursor, ']')) {
            struct ad_text place = place_of(r, level + 1);
            return ad_fail(r->error, AD_INVALID,
                           "%s: expected ',' or ']' behind it, got %s", place.bytes,
                           ad_cursor_kind(cursor));
        }
    }
    cursor->at++;
    return n == r->value->shape[level] ? AD_OK : fail_length(r, level, n);
}

enum ad_status ad_nested_read(struct ad_cursor *cursor,
                              const struct ad_nested_value *value, void *elements,
                              struct ad_error *error)
{
    struct reader reader = {
        .cursor = cursor, .value = value, .elements = elements, .error = error};
    return value->rank == 0 ? read_element(&reader) : read_list(&reader, 0);
}
