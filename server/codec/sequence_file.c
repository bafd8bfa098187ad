/* sequence_file.c - what a sequence keeps, as a file. Runs on the worker that holds the request; keeps no state. */
#include "codec/sequence_file.h"
#include "codec/encode.h"
#include "codec/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT "attentiond sequence"
#define FORMAT_VERSION "1"
#define LENGTH_BYTES ((size_t)8)
#define ALIGNMENT \
    ((size_t)8) /* of the data in the file, as the format's own writer has it */

static const char *kind_text(bool grows)
{
    return grows ? "grows" : "stays";
}

static size_t positions_of(const struct attn_cache_state *state)
{
    return state->key.shape[state->key.rank - 2];
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool put_member(struct ad_buffer *file, const char *key, const char *text)
{
    return ad_buffer_printf(file, "\"%s\":", key) && ad_encode_string(file, text) &&
           ad_buffer_append(file, ",", 1);
}

static bool put_tensor(struct ad_buffer *file, const char *name,
                       const struct attn_tensor *tensor, size_t from, size_t to)
{
    bool ok = ad_buffer_printf(file, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", name);
    for (size_t i = 0; ok && i < tensor->rank; i++) {
        ok = ad_buffer_printf(file, "%s%zu", i ? "," : "", tensor->shape[i]);
    }
    return ok && ad_buffer_printf(file, "],\"data_offsets\":[%zu,%zu]}", from, to);
}

/* The header, behind room for its length, padded so that the data are aligned in the file. */
static bool put_header(struct ad_buffer *file, const struct ad_version *version,
                       const struct attn_cache_state *state, const size_t n_bytes[2])
{
    static const char spaces[] = "       ";
    const char no_length[LENGTH_BYTES] = {0};
    size_t start = file->size;
    bool ok =
        ad_buffer_append(file, no_length, sizeof no_length) &&
        ad_buffer_printf(file, "{\"__metadata__\":{") &&
        put_member(file, "format", FORMAT) &&
        put_member(file, "format_version", FORMAT_VERSION) &&
        put_member(file, "model", version->model) &&
        put_member(file, "version", version->text) &&
        put_member(file, "fingerprint", attn_layer_fingerprint(version->layer)) &&
        put_member(file, "kind", kind_text(state->grows)) &&
        ad_buffer_printf(file, "\"positions\":\"%zu\"}", positions_of(state)) &&
        put_tensor(file, "key", &state->key, 0, n_bytes[0]) &&
        (state->n_tensors == 1 ||
         put_tensor(file, "value", &state->value, n_bytes[0], n_bytes[0] + n_bytes[1])) &&
        ad_buffer_append(file, "}", 1) &&
        ad_buffer_append(file, spaces, -(file->size - start) % ALIGNMENT);
    for (size_t i = 0; ok && i < LENGTH_BYTES; i++) {
        file->data[start + i] =
            (char)(unsigned char)((uint64_t)(file->size - start - LENGTH_BYTES) >> 8 * i);
    }
    return ok;
}

static enum ad_status check_bytes(const struct attn_cache_state *state,
                                  uint64_t max_bytes, size_t n_bytes[2],
                                  struct ad_error *error)
{
    size_t total = SIZE_MAX;
    bool fits = attn_tensor_bytes(&state->key, &n_bytes[0]) == ATTN_OK &&
                (state->n_tensors == 1 ||
                 attn_tensor_bytes(&state->value, &n_bytes[1]) == ATTN_OK) &&
                !__builtin_add_overflow(n_bytes[0], n_bytes[1], &total) &&
                total <= max_bytes;
    return fits ? AD_OK
                : ad_fail(error, AD_TOO_LARGE,
                          "the sequence keeps %zu bytes of keys and values; a reply may "
                          "have %" PRIu64 " (--http-max-output-size)",
                          total, max_bytes);
}

enum ad_status ad_sequence_file_write(const struct ad_version *version,
                                      const attn_cache *cache, uint64_t max_bytes,
                                      struct ad_buffer *file, struct ad_error *error)
{
    struct attn_cache_state state = {.size = sizeof state};
    struct attn_error fault = {0};
    size_t n_bytes[2] = {0};
    enum attn_status described = attn_cache_describe(cache, &state, &fault);
    if (described) {
        return ad_fail_attn(error, described, &fault);
    }
    enum ad_status status = check_bytes(&state, max_bytes, n_bytes, error);
    if (status) {
        return status;
    }
    if (!put_header(file, version, &state, n_bytes) ||
        !ad_buffer_reserve(file, n_bytes[0] + n_bytes[1])) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    char *key = file->data + file->size;
    attn_cache_export(cache, key, key + n_bytes[0]);
    file->size += n_bytes[0] + n_bytes[1];
    file->data[file->size] = '\0';
    return AD_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum ad_status expect_text(const attn_weights *file, const char *key,
                                  const char *expected, struct ad_error *error)
{
    const char *text = attn_weights_metadata(file, key);
    if (text && strcmp(text, expected) == 0) {
        return AD_OK;
    }
    return ad_fail(error, AD_INVALID, "sequence file: %s: expected '%s', got %s%.100s%s",
                   key, expected, text ? "'" : "", text ? text : "none", text ? "'" : "");
}

static enum ad_status check_layer(const struct ad_version *version,
                                  const attn_weights *file, struct ad_error *error)
{
    const char *expected = attn_layer_fingerprint(version->layer);
    const char *text = attn_weights_metadata(file, "fingerprint");
    const char *model = attn_weights_metadata(file, "model");
    const char *number = attn_weights_metadata(file, "version");
    if (!text) {
        return expect_text(file, "fingerprint", expected, error);
    }
    if (strcmp(text, expected) == 0) {
        return AD_OK;
    }
    return ad_fail_code(
        error, AD_CONFLICT, "sequence_mismatch",
        "sequence file: fingerprint: expected '%s', of model '%.128s' version %s, got "
        "'%.40s', of model '%.128s' version %.24s: what another layer kept is of no use "
        "here",
        expected, version->model, version->text, text, model ? model : "(unknown)",
        number ? number : "(unknown)");
}

static enum ad_status check_positions(const attn_weights *file, size_t n,
                                      struct ad_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", n);
    return expect_text(file, "positions", text, error);
}

/* Fill the tensors of the state from those of the file. */
static enum ad_status take_tensors(const attn_weights *file,
                                   struct attn_cache_state *state, struct ad_error *error)
{
    bool has_key = false, has_value = false;
    for (size_t i = 0; i < attn_weights_count(file); i++) {
        const struct attn_named_tensor *tensor = attn_weights_at(file, i);
        bool is_key = strcmp(tensor->name, "key") == 0;
        if (!is_key && strcmp(tensor->name, "value") != 0) {
            return ad_fail(error, AD_INVALID,
                           "sequence file: tensor '%.100s': expected key and value alone",
                           tensor->name);
        }
        *(is_key ? &state->key : &state->value) = tensor->tensor;
        *(is_key ? &has_key : &has_value) = true;
    }
    if (!has_key) {
        return ad_fail(error, AD_INVALID,
                       "sequence file: tensor 'key': expected, and missing");
    }
    state->n_tensors = has_value ? 2 : 1;
    return AD_OK;
}

static enum ad_status take_state(const attn_weights *file, struct attn_cache_state *state,
                                 struct ad_error *error)
{
    const char *kind = attn_weights_metadata(file, "kind");
    state->grows = kind && strcmp(kind, kind_text(true)) == 0;
    if (!state->grows && (!kind || strcmp(kind, kind_text(false)) != 0)) {
        return ad_fail(error, AD_INVALID,
                       "sequence file: kind: expected 'grows' or 'stays', got %s%.100s%s",
                       kind ? "'" : "", kind ? kind : "none", kind ? "'" : "");
    }
    return take_tensors(file, state, error);
}

static enum ad_status create_cache(const struct ad_version *version,
                                   const struct attn_cache_state *state,
                                   attn_cache **cache, struct ad_error *error)
{
    struct attn_error fault = {0};
    enum attn_status status = attn_cache_import(version->layer, state, cache, &fault);
    if (status == ATTN_OK) {
        return AD_OK;
    }
    char message[sizeof fault.message];
    memcpy(message, fault.message, sizeof message);
    snprintf(fault.message, sizeof fault.message, "sequence file: %.480s", message);
    return ad_fail_attn(error, status, &fault);
}

static enum ad_status read_file(const struct ad_version *version,
                                const attn_weights *file, attn_cache **cache,
                                struct ad_error *error)
{
    struct attn_cache_state state = {.size = sizeof state};
    enum ad_status status = expect_text(file, "format", FORMAT, error);
    if (!status) {
        status = expect_text(file, "format_version", FORMAT_VERSION, error);
    }
    if (!status) {
        status = check_layer(version, file, error);
    }
    if (!status) {
        status = take_state(file, &state, error);
    }
    attn_cache *created = NULL;
    if (!status) {
        status = create_cache(version, &state, &created, error);
    }
    if (!status) {
        status = check_positions(file, attn_cache_length(created), error);
    }
    if (status) {
        attn_cache_free(created);
        return status;
    }
    *cache = created;
    return AD_OK;
}

enum ad_status ad_sequence_file_read(const struct ad_version *version, const void *bytes,
                                     size_t n_bytes, attn_cache **cache,
                                     struct ad_error *error)
{
    attn_weights *file = NULL;
    struct attn_error fault = {0};
    enum attn_status parsed = attn_weights_parse(bytes, n_bytes, &file, &fault);
    if (parsed) {
        return ad_fail(error, parsed == ATTN_NO_MEMORY ? AD_INTERNAL : AD_INVALID,
                       "sequence file: %s", fault.message);
    }
    enum ad_status status = read_file(version, file, cache, error);
    attn_weights_free(file);
    return status;
}
