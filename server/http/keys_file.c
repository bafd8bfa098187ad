/* keys_file.c - the keys out of their JSON file. Called at start and at a reload, by main alone.
 *
 * Whatever is not understood is refused: a limit with a typing error in its name would otherwise be no
 * limit. */
#include "base/json_load.h"
#include "http/keys.h"
#include "model/config_file.h"
#include "model/manifest_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is hashed when the shell's variable was empty. */
static const char empty_hash[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* A text that is none of what was expected is not shown: it could be a key. */
static enum ad_status refuse_text(const struct ad_place *place, const char *expected,
                                  const json_t *value, struct ad_error *error)
{
    return json_is_string(value)
               ? ad_place_fail(place, error, "expected %s, got another text of %zu bytes",
                               expected, json_string_length(value))
               : ad_place_expected(place, expected, value, error);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool read_hex(const char *text, unsigned char hash[AD_KEY_HASH_SIZE])
{
    size_t n = strlen(text);
    if (n != (size_t)2 * AD_KEY_HASH_SIZE) {
        return false;
    }
    for (size_t i = 0; i < AD_KEY_HASH_SIZE; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        hash[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static enum ad_status read_hash(const struct ad_place *parent, const json_t *object,
                                struct ad_key *key, struct ad_error *error)
{
    static const char expected[] = "the 64 hexadecimal digits of the key's SHA-256";
    const struct ad_place place = ad_place_member(parent, "sha256");
    const json_t *value = json_object_get(object, "sha256");
    unsigned char empty[AD_KEY_HASH_SIZE] = {0};
    if (!json_is_string(value) || !read_hex(json_string_value(value), key->hash)) {
        return refuse_text(&place, expected, value, error);
    }
    if (read_hex(empty_hash, empty) && memcmp(empty, key->hash, AD_KEY_HASH_SIZE) == 0) {
        return ad_place_fail(&place, error, "this is the hash of an empty key");
    }
    return AD_OK;
}

static enum ad_status read_name(const struct ad_place *parent, const json_t *object,
                                struct ad_key *key, struct ad_error *error)
{
    const struct ad_place place = ad_place_member(parent, "name");
    const json_t *value = json_object_get(object, "name");
    const char *text = json_string_value(value);
    if (!text || text[0] == '\0' || strlen(text) > AD_KEY_NAME_SIZE) {
        return refuse_text(&place, "a string of 1 to 64 bytes", value, error);
    }
    key->name = strdup(text);
    return key->name ? AD_OK : ad_place_no_memory(&place, error);
}

static enum ad_status read_model(const struct ad_place *place, const json_t *value,
                                 struct ad_key *key, struct ad_error *error)
{
    const char *text = json_string_value(value);
    if (!text || text[0] == '\0') {
        return ad_place_expected(place, "a model's name", value, error);
    }
    const char *star = strchr(text, '*');
    if (star && star[1] != '\0') {
        return ad_place_expected(place, "a model's name, with '*' at its end at the most",
                                 value, error);
    }
    key->models[key->n_models] = strdup(text);
    if (!key->models[key->n_models]) {
        return ad_place_no_memory(place, error);
    }
    key->n_models++;
    return AD_OK;
}

static enum ad_status read_models(const struct ad_place *parent, const json_t *object,
                                  struct ad_key *key, struct ad_error *error)
{
    const struct ad_place place = ad_place_member(parent, "models");
    const json_t *value = json_object_get(object, "models");
    if (!value) {
        return AD_OK;
    }
    if (!json_is_array(value)) {
        return ad_place_expected(&place, "a list of models' names", value, error);
    }
    const size_t n = json_array_size(value);
    key->listed = true;
    key->models = calloc(n > 0 ? n : 1, sizeof *key->models);
    enum ad_status status = key->models ? AD_OK : ad_place_no_memory(&place, error);
    for (size_t i = 0; i < n && !status; i++) {
        const struct ad_place element = ad_place_element(&place, i);
        status = read_model(&element, json_array_get(value, i), key, error);
    }
    return status;
}

/* A second's worth of tokens, unless burst says another number. */
static enum ad_status read_burst(const struct ad_place *parent, const json_t *object,
                                 double rate, uint64_t *burst, struct ad_error *error)
{
    const struct ad_place place = ad_place_member(parent, "burst");
    const json_t *value = json_object_get(object, "burst");
    *burst = (uint64_t)ceil(rate);
    return value ? ad_place_integer(&place, value, 1, AD_BURST_MAX, burst, error) : AD_OK;
}

static enum ad_status read_limit(const struct ad_place *parent, const json_t *object,
                                 struct ad_key *key, struct ad_error *error)
{
    const struct ad_place place = ad_place_member(parent, "rate");
    const json_t *value = json_object_get(object, "rate");
    uint64_t burst = 1;
    if (!value) {
        return json_object_get(object, "burst")
                   ? ad_place_fail(&place, error, "missing, although there is a burst")
                   : AD_OK;
    }
    double rate = json_number_value(value);
    if (!json_is_number(value) || rate < AD_RATE_MIN || rate > AD_RATE_MAX) {
        return ad_place_expected(&place, "a number of requests a second, 0.001..1000000",
                                 value, error);
    }
    enum ad_status status = read_burst(parent, object, rate, &burst, error);
    key->limit = ad_limit_make(rate, burst);
    return status;
}

static enum ad_status read_admin(const struct ad_place *parent, const json_t *object,
                                 struct ad_key *key, struct ad_error *error)
{
    const struct ad_place place = ad_place_member(parent, "admin");
    const json_t *value = json_object_get(object, "admin");
    if (value && !json_is_boolean(value)) {
        return ad_place_expected(&place, "true or false", value, error);
    }
    key->admin = json_is_true(value);
    return AD_OK;
}

/* No name and no hash may come twice: it would be unclear what holds. */
static enum ad_status check_unique(const struct ad_place *place,
                                   const struct ad_keys *keys, size_t i,
                                   struct ad_error *error)
{
    for (size_t k = 0; k < i; k++) {
        const char *same =
            strcmp(keys->items[k].name, keys->items[i].name) == 0 ? "name"
            : memcmp(keys->items[k].hash, keys->items[i].hash, AD_KEY_HASH_SIZE) == 0
                ? "sha256"
                : NULL;
        if (same) {
            const struct ad_place member = ad_place_member(place, same);
            return ad_place_fail(&member, error, "the same as that of keys[%zu]", k);
        }
    }
    return AD_OK;
}

/* It goes on with the bucket that it had, so that a reload gives nobody new tokens. */
static enum ad_status give_bucket(const struct ad_place *place, struct ad_key *key,
                                  const struct ad_keys *before, struct ad_error *error)
{
    const struct ad_key *old = before ? ad_keys_find_hash(before, key->hash) : NULL;
    if (old) {
        ad_bucket_hold(old->bucket);
    }
    key->bucket = old ? old->bucket : ad_bucket_create();
    return key->bucket ? AD_OK : ad_place_no_memory(place, error);
}

static enum ad_status read_key(const struct ad_place *place, json_t *object,
                               const struct ad_keys *before, struct ad_key *key,
                               struct ad_error *error)
{
    static const char *const known[] = {"name",  "sha256", "models", "rate",
                                        "burst", "admin",  NULL};
    if (!json_is_object(object)) {
        return ad_place_expected(place, "an object", object, error);
    }
    enum ad_status status = ad_place_check_keys(place, object, known, error);
    status = status ? status : read_name(place, object, key, error);
    status = status ? status : read_hash(place, object, key, error);
    status = status ? status : read_models(place, object, key, error);
    status = status ? status : read_limit(place, object, key, error);
    status = status ? status : read_admin(place, object, key, error);
    return status ? status : give_bucket(place, key, before, error);
}

static enum ad_status read_document(const struct ad_place *document, json_t *root,
                                    const struct ad_keys *before, struct ad_keys **keys,
                                    struct ad_error *error)
{
    static const char *const known[] = {"keys", NULL};
    const struct ad_place list = ad_place_member(document, "keys");
    if (!json_is_object(root)) {
        return ad_place_expected(document, "an object", root, error);
    }
    enum ad_status status = ad_place_check_keys(document, root, known, error);
    if (status) {
        return status;
    }
    json_t *items = json_object_get(root, "keys");
    if (!json_is_array(items) || json_array_size(items) == 0) {
        return ad_place_expected(&list, "a list of at least one key", items, error);
    }
    *keys = ad_keys_create(json_array_size(items));
    status = *keys ? AD_OK : ad_place_no_memory(document, error);
    for (size_t i = 0; !status && i < (*keys)->n; i++) {
        const struct ad_place place = ad_place_element(&list, i);
        status =
            read_key(&place, json_array_get(items, i), before, &(*keys)->items[i], error);
        status = status ? status : check_unique(&place, *keys, i, error);
    }
    return status;
}

enum ad_status ad_keys_parse(const char *text, size_t n_bytes, const char *name,
                             const struct ad_keys *before, struct ad_keys **keys,
                             struct ad_error *error)
{
    const struct ad_place document = {name, NULL, NULL, 0};
    json_error_t why;
    *keys = NULL;
    /* jansson passes over bytes that are 0 */
    if (n_bytes > 0 && memchr(text, '\0', n_bytes)) {
        return ad_place_fail(&document, error, "expected JSON text, got a NUL");
    }
    json_t *root = ad_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root && ad_json_no_memory(&why)) {
        return ad_place_no_memory(&document, error);
    }
    if (!root) {
        char *shown = strstr(why.text, " near "); /* what follows is of the file */
        if (shown) {
            *shown = '\0';
        }
        return ad_place_fail(&document, error, "line %d, column %d: %s", why.line,
                             why.column, why.text);
    }
    enum ad_status status = read_document(&document, root, before, keys, error);
    json_decref(root);
    if (status) {
        ad_keys_release(*keys);
        *keys = NULL;
    }
    return status;
}

enum ad_status ad_keys_read(const char *path, const struct ad_keys *before,
                            struct ad_keys **keys, struct ad_error *error)
{
    char *text = NULL;
    size_t n_bytes = 0;
    *keys = NULL;
    enum ad_status status =
        ad_config_file_read(path, AD_KEYS_FILE_SIZE, &text, &n_bytes, error);
    if (!status) {
        status = ad_keys_parse(text, n_bytes, path, before, keys, error);
        explicit_bzero(text, n_bytes);
    }
    free(text);
    return status;
}
