/* load.c - read one model's config, find its versions and make their layers.
 *
 * Which versions there are: the folders named by a decimal number. A layer without parameters, that
 * is one that the library makes without weights, reads no weights file; its versions are its
 * folders like any other's, or version 1 when it has none. What is wrong with a model stays with
 * that model: only a lack of memory for our own records ends the loading. A weights file too large
 * for memory is that version's fault. Runs on the thread that loads. */
#include "model/load.h"

#include "base/clock.h"
#include "model/config_file.h"
#include "model/manifest.h"
#include "model/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the functions below share while one model is loaded. */
struct loading {
    const char *folder; /* <root>/<model> */
    const struct ad_log *log;
    struct ad_manifest manifest;
    bool needs_weights;
    struct ad_model *model;
};

static enum ad_status out_of_memory(struct ad_error *error, const char *name)
{
    return ad_fail(error, AD_INTERNAL, "model '%s': out of memory", name);
}

/* *path = "<folder>/<name>", to be freed. */
static enum ad_status join(const char *folder, const char *name, char **path,
                           struct ad_error *error)
{
    if (asprintf(path, "%s/%s", folder, name) < 0) {
        *path = NULL;
        return ad_fail(error, AD_INTERNAL, "%s: out of memory", folder);
    }
    return AD_OK;
}

/* ---- one version ----------------------------------------------------------------------------- */

/* The number that a folder's name spells, or 0: 1 to 2^63-1 in decimal, without leading zeros. */
static uint64_t version_number(const char *name)
{
    uint64_t number = 0;
    for (const char *c = name; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || (number == 0 && *c == '0') ||
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number)) {
            return 0;
        }
    }
    return number <= INT64_MAX ? number : 0;
}

/* A version without a layer and without a reason, with the repository's reference. */
static struct ad_version *version_create(const char *model, uint64_t number)
{
    struct ad_version *version = calloc(1, sizeof *version);
    if (!version) {
        return NULL;
    }
    version->model = strdup(model);
    if (!version->model) {
        free(version);
        return NULL;
    }
    version->number = number;
    snprintf(version->text, sizeof version->text, "%" PRIu64, number);
    atomic_init(&version->references, 1);
    return version;
}

/* What the library said, after the file it said it about; input errors name the path themselves. */
static enum ad_status refuse(const char *path, const struct attn_error *why,
                             struct ad_error *error)
{
    return why->status == ATTN_IO
               ? ad_fail(error, AD_INVALID, "%s", why->message)
               : ad_fail(error, AD_INVALID, "%s: %s", path, why->message);
}

/* Make the layer from the tensors that the config picks out of the file at path. */
static enum ad_status create_layer(const struct ad_manifest *manifest, const char *path,
                                   attn_layer **layer, struct ad_error *error)
{
    struct attn_error why = {0};
    attn_weights *weights = NULL;
    enum attn_status status = attn_weights_read(path, &weights, &why);
    if (!status) {
        status = attn_weights_set_prefix(weights, manifest->prefix, &why);
    }
    for (size_t i = 0; i < manifest->n_names && !status; i++) {
        status = attn_weights_rename(weights, manifest->names[i].parameter,
                                     manifest->names[i].file_name, &why);
    }
    if (!status) {
        status = attn_layer_create(&manifest->spec, weights, layer, &why);
    }
    attn_weights_free(weights);
    return status ? refuse(path, &why, error) : AD_OK;
}

static enum ad_status load_layer(const struct loading *loading, const char *version_name,
                                 attn_layer **layer, struct ad_error *error)
{
    const struct ad_manifest *manifest = &loading->manifest;
    if (!loading->needs_weights) {
        struct attn_error why = {0};
        return attn_layer_create(&manifest->spec, NULL, layer, &why)
                   ? refuse(loading->folder, &why, error)
                   : AD_OK;
    }
    char *folder = NULL;
    char *path = NULL;
    enum ad_status status = join(loading->folder, version_name, &folder, error);
    if (!status) {
        status = join(folder, manifest->file, &path, error);
    }
    if (!status) {
        status = create_layer(manifest, path, layer, error);
    }
    free(path);
    free(folder);
    return status;
}

static void log_loaded(const struct ad_log *log, const struct ad_version *version,
                       int64_t started_ns)
{
    const size_t bytes = attn_layer_bytes(version->layer);
    const struct ad_log_field fields[] = {
        ad_log_text("model", version->model), ad_log_text("version", version->text),
        ad_log_number("bytes", bytes <= INT64_MAX ? (int64_t)bytes : INT64_MAX),
        ad_log_number("milliseconds", (ad_clock_now_ns() - started_ns) / 1000000)};
    ad_log_write(log, AD_LOG_INFO, "model loaded", fields, 4);
}

/* version NULL: none of the model's. */
static void log_broken(const struct ad_log *log, const char *model, const char *version,
                       const char *reason)
{
    const struct ad_log_field fields[] = {ad_log_text("model", model),
                                          ad_log_text("reason", reason),
                                          ad_log_text("version", version)};
    ad_log_write(log, AD_LOG_WARNING, "model not loaded", fields, version ? 3 : 2);
}

/* Append version number to the model, loaded or with its reason. */
static enum ad_status load_version(struct loading *loading, uint64_t number,
                                   struct ad_error *error)
{
    struct ad_model *model = loading->model;
    struct ad_version *version = version_create(model->name, number);
    if (!version) {
        return out_of_memory(error, model->name);
    }
    model->versions[model->n_versions++] = version;

    const int64_t started_ns = ad_clock_now_ns();
    struct ad_error why = {0};
    switch (load_layer(loading, version->text, &version->layer, &why)) {
    case AD_OK:
        version->n_inputs = attn_layer_inputs(version->layer, NULL, version->inputs);
        version->n_outputs = attn_layer_outputs(version->layer, NULL, version->outputs);
        log_loaded(loading->log, version, started_ns);
        return AD_OK;
    case AD_INTERNAL:
        return ad_fail(error, AD_INTERNAL, "%s", why.message);
    default:
        version->layer = NULL;
        version->reason = strdup(why.message);
        log_broken(loading->log, model->name, version->text, why.message);
        return version->reason ? AD_OK : out_of_memory(error, model->name);
    }
}

/* ---- one model ------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The versions to load, ascending, to be freed. AD_INVALID: there are none. */
static enum ad_status find_versions(const struct loading *loading, uint64_t **numbers,
                                    size_t *n_numbers, struct ad_error *error)
{
    struct ad_names names;
    enum ad_status status = ad_scan_folders(loading->folder, loading->log, &names, error);
    if (status) {
        return status;
    }
    size_t n = 0;
    *numbers = calloc(names.n + 1, sizeof **numbers);
    for (size_t i = 0; *numbers && i < names.n; i++) {
        (*numbers)[n] = version_number(names.items[i]);
        n += (*numbers)[n] != 0;
    }
    ad_names_reset(&names);
    if (!*numbers) {
        return out_of_memory(error, loading->model->name);
    }
    if (n == 0 && loading->needs_weights) {
        return ad_fail(error, AD_INVALID,
                       "%s: no version, expected a folder such as 1/ with %s",
                       loading->folder, loading->manifest.file);
    }
    if (n == 0) {
        (*numbers)[n++] = 1;
    }
    qsort(*numbers, n, sizeof **numbers, compare_numbers);
    *n_numbers = n;
    return AD_OK;
}

/* Find out whether the layer has parameters, by making it without. */
static enum ad_status check_needs_weights(struct loading *loading, struct ad_error *error)
{
    struct attn_error why = {0};
    attn_layer *layer = NULL;
    enum attn_status status =
        attn_layer_create(&loading->manifest.spec, NULL, &layer, &why);
    attn_layer_free(layer);
    if (status == ATTN_NO_MEMORY) {
        return out_of_memory(error, loading->model->name);
    }
    loading->needs_weights = status != ATTN_OK;
    if (loading->manifest.has_weights && !loading->needs_weights) {
        const struct ad_log_field fields[] = {ad_log_text("model", loading->model->name)};
        ad_log_write(loading->log, AD_LOG_WARNING,
                     "the layer has no parameters, its weights are not read", fields, 1);
    }
    return AD_OK;
}

static enum ad_status load_versions(struct loading *loading, struct ad_error *error)
{
    struct ad_model *model = loading->model;
    uint64_t *numbers = NULL;
    size_t n = 0;
    enum ad_status status = find_versions(loading, &numbers, &n, error);
    if (!status) {
        model->versions = calloc(n, sizeof *model->versions);
        status = model->versions ? AD_OK : out_of_memory(error, model->name);
    }
    for (size_t i = 0; i < n && !status; i++) {
        status = load_version(loading, numbers[i], error);
    }
    free(numbers);
    return status;
}

static enum ad_status load_config(struct loading *loading, struct ad_error *error)
{
    char *path;
    enum ad_status status = join(loading->folder, "config.json", &path, error);
    if (status) {
        return status;
    }
    char *text = NULL;
    size_t n_bytes = 0;
    status = ad_config_file_read(path, AD_MANIFEST_MAX_BYTES, &text, &n_bytes, error);
    if (!status) {
        status = ad_manifest_parse(&loading->manifest, text, n_bytes, path, error);
    }
    free(text);
    free(path);
    return status;
}

static enum ad_status load_folder(struct loading *loading, struct ad_error *error)
{
    enum ad_status status = load_config(loading, error);
    if (status) {
        return status;
    }
    status = check_needs_weights(loading, error);
    if (!status) {
        status = load_versions(loading, error);
    }
    ad_manifest_reset(&loading->manifest);
    return status;
}

/* Why nothing of the model can be served, where that is so: its own fault, or that of the version
 * which would be the default one. */
static enum ad_status set_reason(struct ad_model *model, const char *own,
                                 struct ad_error *error)
{
    const char *reason = own;
    for (size_t i = 0; i < model->n_versions; i++) {
        reason = model->versions[i]->reason;
        if (!reason) {
            return AD_OK;
        }
    }
    model->reason = strdup(reason);
    return model->reason ? AD_OK : out_of_memory(error, model->name);
}

enum ad_status ad_model_load(const char *root, const char *name, const struct ad_log *log,
                             struct ad_model *model, struct ad_error *error)
{
    memset(model, 0, sizeof *model);
    struct ad_error why = {0};
    char *folder = NULL;
    enum ad_status status = join(root, name, &folder, &why);
    model->name = strdup(name);
    if (!status && !model->name) {
        status = out_of_memory(&why, name);
    } else if (!status && strcmp(name, "stats") == 0) {
        status = ad_fail(&why, AD_INVALID,
                         "%s: a model cannot be called stats, /v2/models/stats is taken",
                         folder);
    } else if (!status) {
        struct loading loading = {.folder = folder, .log = log, .model = model};
        status = load_folder(&loading, &why);
    }
    if (status && status != AD_INTERNAL) {
        log_broken(log, name, NULL, why.message);
        status = AD_OK;
    }
    free(folder);
    if (!status) {
        status = set_reason(model, why.message, &why);
    }
    if (status) {
        ad_model_reset(model);
        return ad_fail(error, status, "%s", why.message);
    }
    return AD_OK;
}

void ad_model_reset(struct ad_model *model)
{
    for (size_t i = 0; i < model->n_versions; i++) {
        ad_version_release(model->versions[i]);
    }
    free(model->versions);
    free(model->reason);
    free(model->name);
    memset(model, 0, sizeof *model);
}
