/* safetensors_header.c - reads the JSON header of a safetensors file into a table, token by token:
 *
 *     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The bytes are hostile; each tensor is checked by itself here, all of them together in
 * safetensors.c. The caller owns the table; one thread fills it. */
#include "safetensors_header.h"

#include "json_header.h"
#include "status.h"
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct attni_json json;
    struct attni_safetensors *table;
    size_t capacity;          /* of table->tensors */
    size_t metadata_capacity; /* of table->metadata */
    /* Decoded strings, each with its NUL, go to table->text. A string takes at least one byte less
     * than in the JSON, so as many bytes as the header has are always enough. */
    size_t n_text; /* bytes of it that are kept */
    const unsigned char *data;
    size_t n_data;
    const char *tensor; /* name of the one being read; NULL between two */
    struct attn_error *error;
};

/* A decoded string. It may hold NULs: compare with same(). */
struct string {
    char *text;
    size_t length;
};

enum key { KEY_DTYPE, KEY_SHAPE, KEY_OFFSETS, N_KEYS };
static const char *const key_names[N_KEYS] = {"dtype", "shape", "data_offsets"};

/* ---- failures -------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static enum attn_status
fail(struct reader *r, const char *format, ...)
{
    char what[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (r->tensor) {
        return attni_fail(r->error, ATTN_FORMAT, r->tensor, "tensor \"%s\": %s",
                          r->tensor, what);
    }
    return attni_fail(r->error, ATTN_FORMAT, "", "%s", what);
}

static enum attn_status fail_json(struct reader *r)
{
    return fail(r, "header is not valid JSON at its byte %zu: %s",
                (size_t)(r->json.next - r->json.start), r->json.fault);
}

/* What is next cannot serve as the value of what. */
static enum attn_status fail_kind(struct reader *r, const char *what,
                                  const char *expected)
{
    const char *kind = attni_json_kind(&r->json);
    return kind ? fail(r, "%s: expected %s, got %s", what, expected, kind) : fail_json(r);
}

/* ---- tokens ---------------------------------------------------------------------------- */

/* The result lives until the next string is read, unless keep_string is called. */
static enum attn_status read_string(struct reader *r, struct string *string)
{
    string->text = r->table->text + r->n_text;
    return attni_json_string(&r->json, string->text, &string->length) ? ATTN_OK
                                                                      : fail_json(r);
}

static void keep_string(struct reader *r, const struct string *string)
{
    r->n_text += string->length + 1;
}

/* Read "key": up to the value. */
static enum attn_status read_key(struct reader *r, struct string *key)
{
    enum attn_status status = read_string(r, key);
    if (status == ATTN_OK && !attni_json_expect(&r->json, ':', "expected ':'")) {
        status = fail_json(r);
    }
    return status;
}

static bool same(const struct string *string, const char *text)
{
    return string->length == strlen(text) &&
           memcmp(string->text, text, string->length) == 0;
}

/* Read a whole number that what, index means. */
static enum attn_status read_size(struct reader *r, const char *what, size_t index,
                                  size_t *value)
{
    char first = attni_json_peek(&r->json);
    if (first != '-' && (first < '0' || first > '9')) {
        char element[40];
        snprintf(element, sizeof element, "%s[%zu]", what, index);
        return fail_kind(r, element, "a whole number");
    }
    const unsigned char *start = r->json.next;
    enum attni_number number;
    if (!attni_json_number(&r->json, &number, value)) {
        return fail_json(r);
    }
    int length = r->json.next - start > 40 ? 40 : (int)(r->json.next - start);
    const char *fault = NULL;
    switch (number) {
    case ATTNI_NUMBER_WHOLE:
        return ATTN_OK;
    case ATTNI_NUMBER_NEGATIVE:
        fault = "is negative";
        break;
    case ATTNI_NUMBER_FRACTION:
        fault = "is not written as a whole number";
        break;
    case ATTNI_NUMBER_TOO_LARGE:
        fault = "is too large";
        break;
    }
    return fail(r, "%s[%zu]: %.*s %s", what, index, length, (const char *)start, fault);
}

/* ---- one tensor ------------------------------------------------------------------------ */

static enum attn_status read_dtype(struct reader *r, struct attn_tensor *tensor)
{
    static const enum attn_dtype dtypes[] = {
#define DTYPE_VALUE(name, text, bytes) name,
        ATTN_DTYPE_LIST(DTYPE_VALUE)
#undef DTYPE_VALUE
    };
    if (attni_json_peek(&r->json) != '"') {
        return fail_kind(r, "dtype", "a string");
    }
    struct string name;
    enum attn_status status = read_string(r, &name);
    if (status != ATTN_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (same(&name, attn_dtype_name(dtypes[i]))) {
            tensor->dtype = dtypes[i];
            return ATTN_OK;
        }
    }
    return fail(r, "unknown dtype \"%.40s\"", name.text);
}

static enum attn_status read_shape(struct reader *r, struct attn_tensor *tensor)
{
    if (!attni_json_take(&r->json, '[')) {
        return fail_kind(r, "shape", "an array");
    }
    size_t n = 0;
    while (attni_json_more(&r->json, ']', &n)) {
        if (n > ATTN_MAX_RANK) {
            return fail(r, "shape has more than %d dimensions", ATTN_MAX_RANK);
        }
        enum attn_status status = read_size(r, "shape", n - 1, &tensor->shape[n - 1]);
        if (status != ATTN_OK) {
            return status;
        }
    }
    tensor->rank = n;
    return r->json.fault ? fail_json(r) : ATTN_OK;
}

static enum attn_status read_offsets(struct reader *r, size_t offsets[2])
{
    if (!attni_json_take(&r->json, '[')) {
        return fail_kind(r, "data_offsets", "an array");
    }
    size_t n = 0;
    while (attni_json_more(&r->json, ']', &n)) {
        if (n > 2) {
            return fail(r, "data_offsets: expected 2 numbers, got more");
        }
        enum attn_status status = read_size(r, "data_offsets", n - 1, &offsets[n - 1]);
        if (status != ATTN_OK) {
            return status;
        }
    }
    if (r->json.fault) {
        return fail_json(r);
    }
    return n == 2 ? ATTN_OK : fail(r, "data_offsets: expected 2 numbers, got %zu", n);
}

/* Check that shape, type and range agree, and that the range lies in the data. */
static enum attn_status check_range(struct reader *r, struct attn_tensor *tensor,
                                    const size_t offsets[2])
{
    struct attni_text shape = attni_shape_text(tensor->shape, tensor->rank);
    const char *dtype = attn_dtype_name(tensor->dtype);
    size_t n_bytes;
    if (attn_tensor_bytes(tensor, &n_bytes) != ATTN_OK) {
        return fail(r, "shape %s of %s has more bytes than can be counted", shape.text,
                    dtype);
    }
    if (offsets[0] > offsets[1]) {
        return fail(r, "data_offsets [%zu, %zu] end before they begin", offsets[0],
                    offsets[1]);
    }
    if (offsets[1] > r->n_data) {
        return fail(r,
                    "data_offsets [%zu, %zu] go past the %zu bytes of data in the file",
                    offsets[0], offsets[1], r->n_data);
    }
    if (offsets[1] - offsets[0] != n_bytes) {
        return fail(
            r, "shape %s of %s takes %zu bytes, but data_offsets [%zu, %zu] hold %zu",
            shape.text, dtype, n_bytes, offsets[0], offsets[1], offsets[1] - offsets[0]);
    }
    tensor->data = r->data + offsets[0];
    return ATTN_OK;
}

/* Read the key of one property of a tensor. */
static enum attn_status read_property(struct reader *r, bool seen[N_KEYS], enum key *key)
{
    struct string name;
    enum attn_status status = read_key(r, &name);
    if (status != ATTN_OK) {
        return status;
    }
    for (int k = 0; k < N_KEYS; k++) {
        if (same(&name, key_names[k])) {
            *key = (enum key)k;
            if (seen[k]) {
                return fail(r, "has more than one %s", key_names[k]);
            }
            seen[k] = true;
            return ATTN_OK;
        }
    }
    return fail(r, "unknown key \"%.40s\"", name.text);
}

/* Read the object that describes a tensor. */
static enum attn_status read_tensor(struct reader *r, struct attn_tensor *tensor)
{
    if (!attni_json_take(&r->json, '{')) {
        return fail_kind(r, "its description", "an object");
    }
    bool seen[N_KEYS] = {false};
    size_t offsets[2] = {0};
    size_t n = 0;
    while (attni_json_more(&r->json, '}', &n)) {
        enum key key = KEY_DTYPE;
        enum attn_status status = read_property(r, seen, &key);
        if (status != ATTN_OK) {
            return status;
        }
        status = key == KEY_DTYPE   ? read_dtype(r, tensor)
                 : key == KEY_SHAPE ? read_shape(r, tensor)
                                    : read_offsets(r, offsets);
        if (status != ATTN_OK) {
            return status;
        }
    }
    if (r->json.fault) {
        return fail_json(r);
    }
    for (int k = 0; k < N_KEYS; k++) {
        if (!seen[k]) {
            return fail(r, "has no %s", key_names[k]);
        }
    }
    return check_range(r, tensor, offsets);
}

/* ---- the header ------------------------------------------------------------------------ */

/* Keep a text of the metadata, unless it would be another one as a string of C. */
static enum attn_status add_metadata(struct reader *r, const struct string *key,
                                     const struct string *value)
{
    struct attni_safetensors *table = r->table;
    if (memchr(key->text, '\0', key->length) ||
        memchr(value->text, '\0', value->length)) {
        return ATTN_OK;
    }
    if (table->n_metadata == r->metadata_capacity) {
        size_t capacity = r->metadata_capacity ? 2 * r->metadata_capacity : 8;
        size_t n_bytes;
        struct attni_metadata *metadata =
            attni_multiply(capacity, sizeof *metadata, &n_bytes)
                ? realloc(table->metadata, n_bytes)
                : NULL;
        if (!metadata) {
            return attni_fail_memory(r->error);
        }
        table->metadata = metadata;
        r->metadata_capacity = capacity;
    }
    keep_string(r, value);
    table->metadata[table->n_metadata++] =
        (struct attni_metadata){key->text, value->text};
    return ATTN_OK;
}

/* Strings about the file. */
static enum attn_status read_metadata(struct reader *r)
{
    if (!attni_json_take(&r->json, '{')) {
        return fail_kind(r, "__metadata__", "an object");
    }
    size_t n = 0;
    while (attni_json_more(&r->json, '}', &n)) {
        struct string key, value;
        enum attn_status status = read_key(r, &key);
        if (status != ATTN_OK) {
            return status;
        }
        if (attni_json_peek(&r->json) != '"') {
            char what[80];
            snprintf(what, sizeof what, "__metadata__ \"%.40s\"", key.text);
            return fail_kind(r, what, "a string");
        }
        keep_string(r, &key);
        status = read_string(r, &value);
        if (status == ATTN_OK) {
            status = add_metadata(r, &key, &value);
        }
        if (status != ATTN_OK) {
            return status;
        }
    }
    return r->json.fault ? fail_json(r) : ATTN_OK;
}

static enum attn_status check_name(struct reader *r, const struct string *name)
{
    if (memchr(name->text, '\0', name->length)) {
        return fail(r, "tensor name \"%.100s...\" has a NUL in it", name->text);
    }
    if (name->length >= ATTN_NAME_SIZE) {
        return fail(r, "tensor name \"%.100s...\" is too long: %zu bytes, at most %d",
                    name->text, name->length, ATTN_NAME_SIZE - 1);
    }
    return ATTN_OK;
}

static enum attn_status grow(struct reader *r)
{
    struct attni_safetensors *table = r->table;
    if (table->n_tensors < r->capacity) {
        return ATTN_OK;
    }
    size_t capacity = r->capacity ? 2 * r->capacity : 16; /* less than header bytes */
    size_t n_bytes;
    struct attn_named_tensor *tensors =
        attni_multiply(capacity, sizeof *tensors, &n_bytes)
            ? realloc(table->tensors, n_bytes)
            : NULL;
    if (!tensors) {
        return attni_fail_memory(r->error);
    }
    table->tensors = tensors;
    r->capacity = capacity;
    return ATTN_OK;
}

static enum attn_status add_tensor(struct reader *r, const struct string *name)
{
    enum attn_status status = check_name(r, name);
    if (status == ATTN_OK) {
        status = grow(r);
    }
    if (status != ATTN_OK) {
        return status;
    }
    keep_string(r, name);
    struct attn_named_tensor *added = &r->table->tensors[r->table->n_tensors];
    *added = (struct attn_named_tensor){.name = name->text};
    r->tensor = name->text;
    status = read_tensor(r, &added->tensor);
    r->tensor = NULL;
    r->table->n_tensors++;
    return status;
}

static enum attn_status read_header(struct reader *r)
{
    if (!attni_json_expect(&r->json, '{', "expected '{'")) {
        return fail_json(r);
    }
    bool has_metadata = false;
    size_t n = 0;
    while (attni_json_more(&r->json, '}', &n)) {
        struct string name;
        enum attn_status status = read_key(r, &name);
        if (status != ATTN_OK) {
            return status;
        }
        bool metadata = same(&name, "__metadata__");
        if (metadata && has_metadata) {
            return fail(r, "header has more than one __metadata__");
        }
        has_metadata = has_metadata || metadata;
        status = metadata ? read_metadata(r) : add_tensor(r, &name);
        if (status != ATTN_OK) {
            return status;
        }
    }
    if (r->json.fault) {
        return fail_json(r);
    }
    for (; r->json.next < r->json.end; r->json.next++) {
        if (*r->json.next != ' ') {
            return fail(r, "header goes on after its JSON object, at its byte %zu",
                        (size_t)(r->json.next - r->json.start));
        }
    }
    return ATTN_OK;
}

enum attn_status attni_safetensors_read_header(const void *header, size_t n_header,
                                               const void *data, size_t n_data,
                                               struct attni_safetensors *table,
                                               struct attn_error *error)
{
    struct reader r = {.json = attni_json_begin(header, n_header),
                       .table = table,
                       .data = data,
                       .n_data = n_data,
                       .error = error};
    table->text = malloc(n_header + 1);
    return table->text ? read_header(&r) : attni_fail_memory(error);
}
