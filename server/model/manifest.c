/* manifest.c - config.json -> struct ad_manifest.
 *
 * The file is somebody else's: its size is limited here, its depth by jansson, and every key is
 * known or refused. The result owns copies of what it needs, so the JSON tree is gone when
 * ad_manifest_parse returns. Runs on the thread that loads. */
#include "model/manifest.h"

#include "base/json_load.h"
#include "model/manifest_json.h"
#include "model/manifest_layer.h"
#include "model/manifest_serving.h"
#include "model/manifest_warmup.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FILE "model.safetensors"

_Static_assert(ATTN_NAME_SIZE == 128, "the message of read_prefix says so");

/* Replace *slot by a copy of text. */
static enum ad_status set_text(const struct ad_place *place, char **slot,
                               const char *text, struct ad_error *error)
{
    char *copy = strdup(text);
    if (!copy) {
        return ad_place_no_memory(place, error);
    }
    free(*slot);
    *slot = copy;
    return AD_OK;
}

/* A name that stays inside the version's folder. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strchr(name, '/') && strlen(name) <= NAME_MAX;
}

static enum ad_status read_file_name(const struct ad_place *weights_place,
                                     json_t *weights, struct ad_manifest *manifest,
                                     struct ad_error *error)
{
    json_t *value = json_object_get(weights, "file");
    if (!value) {
        return AD_OK;
    }
    const struct ad_place place = ad_place_member(weights_place, "file");
    if (!json_is_string(value) || !is_plain_name(json_string_value(value))) {
        return ad_place_expected(&place, "the name of a file in the version's folder",
                                 value, error);
    }
    return set_text(&place, &manifest->file, json_string_value(value), error);
}

static enum ad_status read_prefix(const struct ad_place *weights_place, json_t *weights,
                                  struct ad_manifest *manifest, struct ad_error *error)
{
    json_t *value = json_object_get(weights, "prefix");
    if (!value) {
        return AD_OK;
    }
    const struct ad_place place = ad_place_member(weights_place, "prefix");
    if (!json_is_string(value) || json_string_length(value) >= ATTN_NAME_SIZE) {
        return ad_place_expected(&place, "a string of less than 128 bytes", value, error);
    }
    return set_text(&place, &manifest->prefix, json_string_value(value), error);
}

static enum ad_status read_name(const struct ad_place *place, const json_t *value,
                                struct ad_manifest_name *name, struct ad_error *error)
{
    if (place->key[0] == '\0' || strlen(place->key) >= ATTN_NAME_SIZE) {
        return ad_place_fail(place, error, "expected a parameter's name as the key");
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return ad_place_expected(place, "the name of a tensor in the file", value, error);
    }
    enum ad_status status = set_text(place, &name->parameter, place->key, error);
    return status ? status
                  : set_text(place, &name->file_name, json_string_value(value), error);
}

static enum ad_status read_names(const struct ad_place *weights_place, json_t *weights,
                                 struct ad_manifest *manifest, struct ad_error *error)
{
    json_t *names = json_object_get(weights, "names");
    if (!names) {
        return AD_OK;
    }
    const struct ad_place place = ad_place_member(weights_place, "names");
    if (!json_is_object(names)) {
        return ad_place_expected(&place, "an object of tensor names by parameter", names,
                                 error);
    }
    const size_t n = json_object_size(names);
    if (n == 0) {
        return AD_OK;
    }
    manifest->names = calloc(n, sizeof *manifest->names);
    if (!manifest->names) {
        return ad_place_no_memory(&place, error);
    }
    const char *key;
    json_t *value;
    json_object_foreach(names, key, value)
    {
        const struct ad_place at = ad_place_member(&place, key);
        enum ad_status status =
            read_name(&at, value, &manifest->names[manifest->n_names++], error);
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

static enum ad_status read_weights(const struct ad_place *document, json_t *root,
                                   struct ad_manifest *manifest, struct ad_error *error)
{
    static const char *const known[] = {"file", "prefix", "names", NULL};
    json_t *weights = json_object_get(root, "weights");
    if (!weights) {
        return AD_OK;
    }
    manifest->has_weights = true;
    const struct ad_place place = ad_place_member(document, "weights");
    if (!json_is_object(weights)) {
        return ad_place_expected(&place, "an object", weights, error);
    }
    enum ad_status status = ad_place_check_keys(&place, weights, known, error);
    if (!status) {
        status = read_file_name(&place, weights, manifest, error);
    }
    if (!status) {
        status = read_prefix(&place, weights, manifest, error);
    }
    return status ? status : read_names(&place, weights, manifest, error);
}

/* A member that is one of two words, if it is given: *second tells which. */
static enum ad_status read_choice(const struct ad_place *document, const json_t *root,
                                  const char *key, const char *first_word,
                                  const char *second_word, bool *second,
                                  struct ad_error *error)
{
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    if (!value) {
        return AD_OK;
    }
    *second = text && strcmp(text, second_word) == 0;
    if (*second || (text && strcmp(text, first_word) == 0)) {
        return AD_OK;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "\"%s\" or \"%s\"", first_word, second_word);
    const struct ad_place place = ad_place_member(document, key);
    return ad_place_expected(&place, expected, value, error);
}

/* What a config may say of any layer. */
static enum ad_status read_common(const struct ad_place *document, const json_t *root,
                                  struct attn_spec *spec, struct ad_error *error)
{
    bool nan = spec->empty_rows == ATTN_EMPTY_NAN;
    bool bf16 = spec->weights_dtype == ATTN_STORE_BF16;
    enum ad_status status =
        read_choice(document, root, "empty_rows", "zero", "nan", &nan, error);
    if (!status) {
        status =
            read_choice(document, root, "weights_dtype", "f32", "bf16", &bf16, error);
    }
    spec->empty_rows = nan ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
    spec->weights_dtype = bf16 ? ATTN_STORE_BF16 : ATTN_STORE_F32;
    return status;
}

static enum ad_status read_document(const struct ad_place *document, json_t *root,
                                    struct ad_manifest *manifest, struct ad_error *error)
{
    static const char *const known[] = {
        "layer",          "weights",          "empty_rows",
        "weights_dtype",  "dynamic_batching", "queue_policy",
        "version_policy", "warmup",           NULL};
    if (!json_is_object(root)) {
        return ad_place_expected(document, "an object", root, error);
    }
    enum ad_status status = ad_place_check_keys(document, root, known, error);
    if (!status) {
        const struct ad_place layer = ad_place_member(document, "layer");
        status = ad_manifest_read_layer(&layer, json_object_get(root, "layer"),
                                        &manifest->spec, error);
    }
    if (!status) {
        status = set_text(document, &manifest->file, DEFAULT_FILE, error);
    }
    if (!status) {
        status = set_text(document, &manifest->prefix, "", error);
    }
    if (!status) {
        status = read_weights(document, root, manifest, error);
    }
    if (!status) {
        status = read_common(document, root, &manifest->spec, error);
    }
    if (!status) {
        status = ad_manifest_read_serving(document, root, manifest, error);
    }
    return status ? status : ad_manifest_read_warmups(document, root, manifest, error);
}

/* The JSON tree of text, or NULL with the reason in *error. */
static json_t *load_tree(const struct ad_place *document, const char *text,
                         size_t n_bytes, struct ad_error *error)
{
    if (n_bytes > AD_MANIFEST_MAX_BYTES) {
        ad_place_fail(document, error, "expected at most %zu bytes, got %zu",
                      AD_MANIFEST_MAX_BYTES, n_bytes);
        return NULL;
    }
    const char *nul = n_bytes > 0 ? memchr(text, '\0', n_bytes) : NULL;
    if (nul) {
        ad_place_fail(document, error, "expected JSON text, got a NUL at byte %zu",
                      (size_t)(nul - text));
        return NULL;
    }
    json_error_t why;
    json_t *root = ad_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root && ad_json_no_memory(&why)) {
        ad_place_no_memory(document, error);
    } else if (!root) {
        ad_place_fail(document, error, "line %d, column %d: %s", why.line, why.column,
                      why.text);
    }
    return root;
}

enum ad_status ad_manifest_parse(struct ad_manifest *manifest, const char *text,
                                 size_t n_bytes, const char *where,
                                 struct ad_error *error)
{
    memset(manifest, 0, sizeof *manifest);
    /* A local record, for the status when the caller's is NULL or holds an earlier failure. */
    struct ad_error why = {0};
    const struct ad_place document = {where, NULL, NULL, 0};
    json_t *root = load_tree(&document, text, n_bytes, &why);
    if (!root) {
        return ad_fail(error, why.status, "%s", why.message);
    }
    enum ad_status status = read_document(&document, root, manifest, error);
    json_decref(root);
    if (status) {
        ad_manifest_reset(manifest);
    }
    return status;
}

void ad_manifest_reset(struct ad_manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_names; i++) {
        free(manifest->names[i].parameter);
        free(manifest->names[i].file_name);
    }
    free(manifest->names);
    ad_manifest_free_warmups(manifest);
    free(manifest->policy.versions);
    free(manifest->file);
    free(manifest->prefix);
    memset(manifest, 0, sizeof *manifest);
}
