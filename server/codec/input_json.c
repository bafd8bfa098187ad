/* input_json.c - the elements of an input out of its JSON `data`, without a tree of values.
 *
 * The text may be flat or nested exactly as the shape says; a scalar's may stand bare. The scanner
 * has found its end but not looked inside, so everything is checked here. Numbers are read in runs,
 * and one by one where a run ends. Nesting recurses at most ATTN_MAX_RANK deep. Runs on the worker
 * that decodes the request; keeps no state. */
#include "codec/input.h"
#include "codec/numbers.h"
#include "codec/runs.h"
#include "codec/text.h"

#include <stdint.h>
#include <string.h>

struct reader {
    const struct ad_input *input;
    const char *begin, *at, *end;
    locale_t c_locale;
    size_t rank; /* of the lists: 1 when flat, the shape's when nested, 0 when bare */
    size_t shape[ATTN_MAX_RANK];
    size_t index
        [ATTN_MAX_RANK]; /* of the element being read; its level's, when all are read */
    void *elements;
    size_t n_read;
    struct ad_error *error;
};

static void skip_space(struct reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) {
        r->at++;
    }
}

static bool is_at(const struct reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

static bool starts_with(const struct reader *r, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0;
}

/* ---- messages -------------------------------------------------------------------------- */

/* "input 'x': data[1][2]", with so many indices */
static void add_place(const struct reader *r, size_t n_indices, struct ad_text *text)
{
    ad_text_add(text, "input '%s': data", r->input->port->name);
    for (size_t i = 0; i < n_indices; i++) {
        ad_text_add(text, "[%zu]", r->index[i]);
    }
}

/* What stands where an element or list was expected. */
static const char *kind_of(const struct reader *r)
{
    return ad_text_kind(r->at, r->end);
}

/* The token at hand, cut short; the length for "%.*s". */
static int token_length(const struct reader *r)
{
    size_t n = 0;
    while (n < 40 && r->at + n < r->end && !strchr(",]} \t\r\n", r->at[n])) {
        n++;
    }
    return (int)n;
}

static enum ad_status fail_element(const struct reader *r, const char *expected)
{
    struct ad_text text = {0};
    add_place(r, r->rank, &text);
    if (is_at(r, '[')) {
        ad_text_add(&text, " is a list, nested deeper than shape ");
        ad_text_add_shape(&text, r->input->shape, r->input->rank);
        ad_text_add(&text, " says");
    } else if (starts_with(r, "NaN") || starts_with(r, "Infinity") ||
               starts_with(r, "-Infinity")) {
        ad_text_add(&text,
                    " is %.*s, which JSON does not have; send such values in binary form",
                    token_length(r), r->at);
    } else {
        ad_text_add(&text, " must be %s (%s), got %s", expected, r->input->datatype,
                    kind_of(r));
    }
    return ad_fail(r->error, AD_INVALID, "%s", text.bytes);
}

static enum ad_status fail_number(const struct reader *r, enum ad_number result,
                                  const char *expected)
{
    struct ad_text text = {0};
    add_place(r, r->rank, &text);
    int n = token_length(r);
    switch (result) {
    case AD_NUMBER_OK:
        break;
    case AD_NUMBER_MALFORMED:
        if (!starts_with(r, "-I") &&
            (is_at(r, '-') || (r->at < r->end && *r->at >= '0' && *r->at <= '9'))) {
            ad_text_add(&text, " is not a JSON number: '%.*s'", n, r->at);
            break;
        }
        return fail_element(r, expected);
    case AD_NUMBER_FRACTION:
        ad_text_add(&text, " must be %s (%s), got %.*s", expected, r->input->datatype, n,
                    r->at);
        break;
    case AD_NUMBER_RANGE:
        ad_text_add(&text, " is beyond the range of %s: %.*s",
                    r->input->wire == ATTN_F64 ? "FP32, in which layers compute"
                                               : r->input->datatype,
                    n, r->at);
        break;
    }
    return ad_fail(r->error, AD_INVALID, "%s", text.bytes);
}

/* Elements in the rest of the text, however nested. */
static size_t count_rest(const char *at, const char *end)
{
    size_t n = 0;
    bool inside = false;
    for (; at < end; at++) {
        bool delimiter = strchr("[], \t\r\n", *at) != NULL;
        n += !delimiter && !inside;
        inside = !delimiter;
    }
    return n;
}

static enum ad_status fail_count(const struct reader *r, size_t got)
{
    struct ad_text shape = {0};
    ad_text_add_shape(&shape, r->input->shape, r->input->rank);
    return ad_fail(
        r->error, AD_INVALID, "input '%s': shape %s needs %zu element%s, data has %zu",
        r->input->port->name, shape.bytes, r->input->n, r->input->n == 1 ? "" : "s", got);
}

/* The list at this level has n elements, or one more than it should; at is behind its last. */
static enum ad_status fail_list(const struct reader *r, size_t level, size_t n)
{
    if (r->rank == 1) {
        return fail_count(r, r->n_read + count_rest(r->at, r->end));
    }
    struct ad_text text = {0};
    add_place(r, level, &text);
    ad_text_add(&text, " must have length %zu (shape ", r->shape[level]);
    ad_text_add_shape(&text, r->input->shape, r->input->rank);
    if (n < r->shape[level]) {
        ad_text_add(&text, "), got %zu", n);
    } else {
        ad_text_add(&text, "), got more");
    }
    return ad_fail(r->error, AD_INVALID, "%s", text.bytes);
}

static enum ad_status fail_not_list(const struct reader *r, size_t level)
{
    struct ad_text text = {0};
    add_place(r, level, &text);
    return ad_fail(r->error, AD_INVALID, "%s must be a list of %zu, got %s", text.bytes,
                   r->shape[level], kind_of(r));
}

/* Behind an element or list of this level, which have been counted already. */
static enum ad_status fail_syntax(struct reader *r, size_t level)
{
    struct ad_text text = {0};
    for (size_t i = level; i < r->rank; i++) {
        r->index[i] -= r->index[i] > 0;
    }
    add_place(r, r->rank, &text);
    return ad_fail(r->error, AD_INVALID, "%s: expected ',' or ']' behind it, got %s",
                   text.bytes, kind_of(r));
}

/* ---- elements -------------------------------------------------------------------------- */

static enum ad_status read_float(struct reader *r)
{
    float *floats = r->elements;
    enum ad_number result =
        r->input->wire == ATTN_F64
            ? ad_number_f32_of_f64(&r->at, r->end, r->c_locale, &floats[r->n_read])
            : ad_number_f32(&r->at, r->end, r->c_locale, &floats[r->n_read]);
    return result == AD_NUMBER_OK ? AD_OK : fail_number(r, result, "a number");
}

static enum ad_status read_integer(struct reader *r)
{
    bool wide = r->input->dtype == ATTN_I64;
    int64_t value;
    enum ad_number result = ad_number_int(&r->at, r->end, wide ? INT64_MIN : INT32_MIN,
                                          wide ? INT64_MAX : INT32_MAX, &value);
    if (result != AD_NUMBER_OK) {
        return fail_number(r, result, "an integer");
    }
    if (wide) {
        ((int64_t *)r->elements)[r->n_read] = value;
    } else {
        ((int32_t *)r->elements)[r->n_read] = (int32_t)value;
    }
    return AD_OK;
}

static enum ad_status read_boolean(struct reader *r)
{
    unsigned char *flags = r->elements;
    bool value = starts_with(r, "true");
    if (!value && !starts_with(r, "false")) {
        return fail_element(r, "true or false");
    }
    flags[r->n_read] = value;
    r->at += value ? 4 : 5;
    return AD_OK;
}

static enum ad_status read_element(struct reader *r)
{
    enum ad_status status = r->input->dtype == ATTN_F32    ? read_float(r)
                            : r->input->dtype == ATTN_BOOL ? read_boolean(r)
                                                           : read_integer(r);
    r->n_read += !status;
    return status;
}

/* Elements of the list at hand and of those behind it, as many as come fast; false when none do. */
static bool read_run(struct reader *r)
{
    size_t level = r->rank - 1;
    struct ad_run run = {.at = r->at,
                         .begin = r->begin,
                         .end = r->end,
                         .c_locale = r->c_locale,
                         .n_left = r->shape[level] - r->index[level],
                         .n_each = r->shape[level]};
    run.n_lists = level > 0 ? r->shape[level - 1] - 1 - r->index[level - 1] : 0;
    size_t n_lists = run.n_lists, n = 0;
    if (r->input->dtype == ATTN_F32) {
        float *floats = (float *)r->elements + r->n_read;
        n = r->input->wire == ATTN_F64 ? ad_run_f32_of_f64(&run, floats)
                                       : ad_run_f32(&run, floats);
    } else if (r->input->dtype == ATTN_I32) {
        n = ad_run_i32(&run, (int32_t *)r->elements + r->n_read);
    } else if (r->input->dtype == ATTN_I64) {
        n = ad_run_i64(&run, (int64_t *)r->elements + r->n_read);
    }
    r->at = run.at;
    r->n_read += n;
    r->index[level] = r->shape[level] - run.n_left;
    if (level > 0) {
        r->index[level - 1] += n_lists - run.n_lists;
    }
    return n > 0;
}

/* ---- lists ----------------------------------------------------------------------------- */

static enum ad_status read_list(struct reader *r, size_t level);

/* One item of a list at this level, or several at once; counts them. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than a tensor has axes */
static enum ad_status read_items(struct reader *r, size_t level)
{
    if (r->index[level] == r->shape[level]) {
        return fail_list(r, level, r->index[level]);
    }
    if (level + 1 == r->rank && read_run(r)) {
        return AD_OK;
    }
    enum ad_status status =
        level + 1 < r->rank ? read_list(r, level + 1) : read_element(r);
    r->index[level] += !status;
    return status;
}

/* At what should be the list at this level; ends behind it. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than a tensor has axes */
static enum ad_status read_list(struct reader *r, size_t level)
{
    if (!is_at(r, '[')) {
        return fail_not_list(r, level);
    }
    r->at++;
    skip_space(r);
    r->index[level] = 0;
    bool more = !is_at(r, ']');
    while (more) {
        enum ad_status status = read_items(r, level);
        if (status) {
            return status;
        }
        skip_space(r);
        more = is_at(r, ',');
        if (more) {
            r->at++;
            skip_space(r);
        } else if (!is_at(r, ']')) {
            return fail_syntax(r, level);
        }
    }
    r->at++;
    return r->index[level] == r->shape[level] ? AD_OK
                                              : fail_list(r, level, r->index[level]);
}

/* How the text is laid out: bare, flat or nested. */
static void choose_layout(struct reader *r)
{
    const struct ad_input *input = r->input;
    if (!is_at(r, '[') && input->rank == 0) {
        r->rank = 0;
        return;
    }
    const char *start = r->at;
    r->at += r->at < r->end ? 1 : 0;
    skip_space(r);
    bool nested = *start == '[' && is_at(r, '[') && input->rank > 1;
    r->at = start;
    r->rank = nested ? input->rank : 1;
    r->shape[0] = input->n;
    if (nested) {
        memcpy(r->shape, input->shape, sizeof r->shape);
    }
}

static struct reader reader_of(const struct ad_input *input, const char *text, size_t n,
                               struct ad_error *error)
{
    struct reader reader = {
        .input = input, .begin = text, .at = text, .end = text + n, .error = error};
    choose_layout(&reader);
    return reader;
}

enum ad_status ad_input_place_json(const struct ad_input *input, const char *text,
                                   size_t n, struct ad_arena *arena, void **elements,
                                   struct ad_error *error)
{
    if (input->wire == ATTN_F16 || input->wire == ATTN_BF16) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': receiving %s data via JSON is not supported; use the "
                       "binary data format for it",
                       input->port->name, input->datatype);
    }
    struct reader reader = reader_of(input, text, n, error);
    if (reader.rank > 0 && !is_at(&reader, '[')) {
        return fail_not_list(&reader, 0);
    }
    /* An element and its comma take two bytes, so a short text cannot ask for much memory. */
    if (input->n > n / 2 + 1) {
        return fail_count(&reader, count_rest(text, text + n));
    }
    *elements = ad_arena_array(arena, input->n, attn_dtype_size(input->dtype));
    return *elements ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

enum ad_status ad_input_fill_json(const struct ad_input *input, const char *text,
                                  size_t n, locale_t c_locale, void *elements,
                                  struct ad_error *error)
{
    struct reader reader = reader_of(input, text, n, error);
    reader.c_locale = c_locale;
    reader.elements = elements;
    enum ad_status status =
        reader.rank == 0 ? read_element(&reader) : read_list(&reader, 0);
    if (!status && reader.at != reader.end) {
        return ad_fail(error, AD_INVALID, "input '%s': data has text behind its value",
                       input->port->name);
    }
    return status;
}

enum ad_status ad_input_read_json(const struct ad_input *input, const char *text,
                                  size_t n, locale_t c_locale, struct ad_arena *arena,
                                  const void **elements, struct ad_error *error)
{
    void *placed = NULL;
    enum ad_status status = ad_input_place_json(input, text, n, arena, &placed, error);
    *elements = placed;
    return status ? status : ad_input_fill_json(input, text, n, c_locale, placed, error);
}
