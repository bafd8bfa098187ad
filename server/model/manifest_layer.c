/* manifest_layer.c - options as JSON -> options as the library takes them.
 *
 * Only the form of a value is judged here. Which options a layer has, and which values they may
 * take, is the library's to say; its answer is given the place in the file. Options live in an
 * arena while the spec is made. Runs on the thread that loads. */
#include "model/manifest_layer.h"

#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether value is null, a boolean or a number; *option is then filled. */
static bool read_scalar(const json_t *value, struct attn_option *option)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        option->type = ATTN_OPTION_NULL;
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        option->type = ATTN_OPTION_BOOL;
        option->boolean = json_is_true(value);
        return true;
    case JSON_INTEGER:
        option->type = ATTN_OPTION_INT;
        option->integer = json_integer_value(value);
        return true;
    case JSON_REAL:
        option->type = ATTN_OPTION_REAL;
        option->real = json_real_value(value);
        return true;
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return false;
}

static enum ad_status read_integers(const struct ad_place *place, const json_t *array,
                                    struct attn_option *option, struct ad_error *error)
{
    const size_t n = json_array_size(array);
    if (n > ATTN_MAX_RANK) {
        return ad_place_fail(place, error, "expected at most %d integers, got %zu",
                             ATTN_MAX_RANK, n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(array, i);
        if (!json_is_integer(element)) {
            const struct ad_place at = ad_place_element(place, i);
            return ad_place_expected(&at, "an integer", element, error);
        }
        option->integers[i] = json_integer_value(element);
    }
    option->type = ATTN_OPTION_INTS;
    option->n_integers = n;
    return AD_OK;
}

/* Room for every member of object as an option; NULL when out of memory. */
static struct attn_option *alloc_options(struct ad_arena *arena, const json_t *object)
{
    const size_t n = json_object_size(object);
    struct attn_option *options = ad_arena_array(arena, n, sizeof *options);
    if (options) {
        memset(options, 0, n * sizeof *options);
    }
    return options;
}

/* {"type": "GroupNorm", "num_groups": 2}: a module, whose own options are scalars. */
static enum ad_status read_module(const struct ad_place *place, json_t *object,
                                  struct ad_arena *arena, struct attn_option *option,
                                  struct ad_error *error)
{
    enum ad_status status =
        ad_place_string(place, object, "type", &option->module, error);
    if (status) {
        return status;
    }
    struct attn_option *options = alloc_options(arena, object);
    if (!options) {
        return ad_place_no_memory(place, error);
    }
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (strcmp(key, "type") == 0) {
            continue;
        }
        if (!read_scalar(value, &options[n])) {
            const struct ad_place at = ad_place_member(place, key);
            return ad_place_expected(&at, "null, a boolean or a number", value, error);
        }
        options[n++].name = key;
    }
    option->type = ATTN_OPTION_MODULE;
    option->options = options;
    option->n_options = n;
    return AD_OK;
}

static enum ad_status read_option(const struct ad_place *place, json_t *value,
                                  struct ad_arena *arena, struct attn_option *option,
                                  struct ad_error *error)
{
    option->name = place->key;
    if (json_is_array(value)) {
        return read_integers(place, value, option, error);
    }
    if (json_is_object(value)) {
        return read_module(place, value, arena, option, error);
    }
    if (read_scalar(value, option)) {
        return AD_OK;
    }
    return ad_place_expected(
        place,
        "null, a boolean, a number, an array of integers or an object "
        "with a \"type\"",
        value, error);
}

static enum ad_status read_options(const struct ad_place *place, json_t *layer,
                                   struct ad_arena *arena, struct attn_option **options,
                                   size_t *n_options, struct ad_error *error)
{
    *n_options = 0;
    *options = alloc_options(arena, layer);
    if (!*options) {
        return ad_place_no_memory(place, error);
    }
    const char *key;
    json_t *value;
    json_object_foreach(layer, key, value)
    {
        if (strcmp(key, "kind") == 0) {
            continue;
        }
        const struct ad_place at = ad_place_member(place, key);
        enum ad_status status =
            read_option(&at, value, arena, &(*options)[*n_options], error);
        if (status) {
            return status;
        }
        ++*n_options;
    }
    return AD_OK;
}

static enum ad_status check_kind(const struct ad_place *layer_place, const char *kind,
                                 const json_t *value, struct ad_error *error)
{
    char list[256] = "one of ";
    size_t used = strlen(list);
    for (size_t i = 0; attn_preset_name(i); i++) {
        if (strcmp(kind, attn_preset_name(i)) == 0) {
            return AD_OK;
        }
        if (used < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                     i > 0 ? ", " : "", attn_preset_name(i));
        }
    }
    const struct ad_place place = ad_place_member(layer_place, "kind");
    return ad_place_expected(&place, list, value, error);
}

/* The message without "option 'n_heads': " before it: the place in the file says that already. */
static const char *without_field(const struct attn_error *why)
{
    char intro[sizeof why->field + 16];
    snprintf(intro, sizeof intro, "option '%s': ", why->field);
    const size_t n = strlen(intro);
    return strncmp(why->message, intro, n) == 0 ? why->message + n : why->message;
}

/* The library's refusal, with the place in the file before it. A field may itself have dots
 * (normalisation.num_groups), which a place shows as they are. */
static enum ad_status refuse(const struct ad_place *layer_place,
                             const struct attn_error *why, struct ad_error *error)
{
    if (why->status == ATTN_NO_MEMORY) {
        return ad_place_no_memory(layer_place, error);
    }
    if (why->field[0] == '\0') {
        return ad_place_fail(layer_place, error, "%s", why->message);
    }
    const struct ad_place place = ad_place_member(layer_place, why->field);
    return ad_place_fail(&place, error, "%s", without_field(why));
}

enum ad_status ad_manifest_read_layer(const struct ad_place *place, json_t *layer,
                                      struct attn_spec *spec, struct ad_error *error)
{
    if (!json_is_object(layer)) {
        return ad_place_expected(place, "an object", layer, error);
    }
    const char *kind;
    enum ad_status status = ad_place_string(place, layer, "kind", &kind, error);
    if (!status) {
        status = check_kind(place, kind, json_object_get(layer, "kind"), error);
    }
    if (status) {
        return status;
    }
    struct ad_arena arena;
    ad_arena_init(&arena);
    struct attn_option *options;
    size_t n_options;
    status = read_options(place, layer, &arena, &options, &n_options, error);
    if (!status) {
        struct attn_error why = {0};
        memset(spec, 0, sizeof *spec);
        spec->size = sizeof *spec;
        if (attn_spec_preset(spec, kind, options, n_options, &why)) {
            status = refuse(place, &why, error);
        }
    }
    ad_arena_reset(&arena);
    return status;
}
