/* manifest_warmup.c - the requests that a version is sent before it is ready, as a config.json has
 * them. Runs on the thread that loads. */
#include "model/manifest_warmup.h"

#include <stdlib.h>
#include <string.h>

#define MAX_AXIS INT32_MAX /* what is run must fit into memory besides: see warmup.c */

static enum ad_status copy_text(const struct ad_place *place, const char *text,
                                char **copy, struct ad_error *error)
{
    *copy = strdup(text);
    return *copy ? AD_OK : ad_place_no_memory(place, error);
}

static enum ad_status read_shape(const struct ad_place *place, const json_t *array,
                                 struct ad_warmup_input *input, struct ad_error *error)
{
    const size_t n = json_array_size(array);
    if (!json_is_array(array)) {
        return ad_place_expected(place, "an array of sizes", array, error);
    }
    if (n > ATTN_MAX_RANK) {
        return ad_place_fail(place, error, "expected at most %d sizes, got %zu",
                             ATTN_MAX_RANK, n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct ad_place at = ad_place_element(place, i);
        uint64_t size = 0;
        enum ad_status status =
            ad_place_integer(&at, json_array_get(array, i), 0, MAX_AXIS, &size, error);
        if (status) {
            return status;
        }
        input->shape[i] = (size_t)size;
    }
    input->rank = n;
    return AD_OK;
}

static enum ad_status read_data(const struct ad_place *place, const json_t *value,
                                struct ad_warmup_input *input, struct ad_error *error)
{
    const char *text = json_string_value(value);
    input->random = text && strcmp(text, "random") == 0;
    if (!value || input->random || (text && strcmp(text, "zero") == 0)) {
        return AD_OK;
    }
    return ad_place_expected(place, "\"zero\" or \"random\"", value, error);
}

static enum ad_status read_input(const struct ad_place *place, json_t *value,
                                 struct ad_warmup_input *input, struct ad_error *error)
{
    static const char *const known[] = {"shape", "data", NULL};
    if (place->key[0] == '\0' || strlen(place->key) >= ATTN_NAME_SIZE) {
        return ad_place_fail(place, error, "expected an input's name as the key");
    }
    if (!json_is_object(value)) {
        return ad_place_expected(place, "an object", value, error);
    }
    enum ad_status status = ad_place_check_keys(place, value, known, error);
    if (!status) {
        const struct ad_place at = ad_place_member(place, "shape");
        status = read_shape(&at, json_object_get(value, "shape"), input, error);
    }
    if (!status) {
        const struct ad_place at = ad_place_member(place, "data");
        status = read_data(&at, json_object_get(value, "data"), input, error);
    }
    return status ? status : copy_text(place, place->key, &input->name, error);
}

static enum ad_status read_inputs(const struct ad_place *place, json_t *object,
                                  struct ad_warmup *warmup, struct ad_error *error)
{
    const size_t n = json_object_size(object);
    if (!json_is_object(object)) {
        return ad_place_expected(place, "an object of inputs by name", object, error);
    }
    if (n == 0 || n > ATTN_MAX_PORTS) {
        return ad_place_fail(place, error, "expected 1 to %d inputs, got %zu",
                             ATTN_MAX_PORTS, n);
    }
    warmup->inputs = calloc(n, sizeof *warmup->inputs);
    if (!warmup->inputs) {
        return ad_place_no_memory(place, error);
    }
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const struct ad_place at = ad_place_member(place, key);
        enum ad_status status =
            read_input(&at, value, &warmup->inputs[warmup->n_inputs++], error);
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

static enum ad_status read_name(const struct ad_place *place, const json_t *value,
                                struct ad_warmup *warmup, struct ad_error *error)
{
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) >= ATTN_NAME_SIZE) {
        return ad_place_expected(place, "a string of 1 to 127 bytes", value, error);
    }
    return copy_text(place, json_string_value(value), &warmup->name, error);
}

static enum ad_status read_warmup(const struct ad_place *place, json_t *object,
                                  struct ad_warmup *warmup, struct ad_error *error)
{
    static const char *const known[] = {"name", "count", "inputs", NULL};
    if (!json_is_object(object)) {
        return ad_place_expected(place, "an object", object, error);
    }
    enum ad_status status = ad_place_check_keys(place, object, known, error);
    if (!status) {
        const struct ad_place at = ad_place_member(place, "name");
        status = read_name(&at, json_object_get(object, "name"), warmup, error);
    }
    const json_t *count = json_object_get(object, "count");
    warmup->count = 1;
    if (!status && count) {
        const struct ad_place at = ad_place_member(place, "count");
        status =
            ad_place_integer(&at, count, 1, AD_MANIFEST_MAX_COUNT, &warmup->count, error);
    }
    if (!status) {
        const struct ad_place at = ad_place_member(place, "inputs");
        status = read_inputs(&at, json_object_get(object, "inputs"), warmup, error);
    }
    return status;
}

enum ad_status ad_manifest_read_warmups(const struct ad_place *document, json_t *root,
                                        struct ad_manifest *manifest,
                                        struct ad_error *error)
{
    json_t *array = json_object_get(root, "warmup");
    const struct ad_place place = ad_place_member(document, "warmup");
    const size_t n = json_array_size(array);
    if (array && !json_is_array(array)) {
        return ad_place_expected(&place, "an array", array, error);
    }
    if (n > AD_MANIFEST_MAX_WARMUPS) {
        return ad_place_fail(&place, error, "expected at most %d warm-ups, got %zu",
                             AD_MANIFEST_MAX_WARMUPS, n);
    }
    if (n == 0) {
        return AD_OK;
    }
    manifest->warmups = calloc(n, sizeof *manifest->warmups);
    if (!manifest->warmups) {
        return ad_place_no_memory(&place, error);
    }
    enum ad_status status = AD_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const struct ad_place at = ad_place_element(&place, i);
        status = read_warmup(&at, json_array_get(array, i),
                             &manifest->warmups[manifest->n_warmups++], error);
    }
    return status;
}

void ad_manifest_free_warmups(struct ad_manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_warmups; i++) {
        struct ad_warmup *warmup = &manifest->warmups[i];
        for (size_t k = 0; k < warmup->n_inputs; k++) {
            free(warmup->inputs[k].name);
        }
        free(warmup->inputs);
        free(warmup->name);
    }
    free(manifest->warmups);
}
