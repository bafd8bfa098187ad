/* load.c - read one model's config, find its versions and make their layers.
 *
 * Which versions there are: the folders named by a decimal number, a weights file beside the config
 * where there are no such folders (version 1), or what the files at hand name. A
 * layer without parameters, that is one that the library makes without weights, reads no weights
 * file; its versions are its folders like any other's, or version 1 when it has none. What is wrong
 * with a model stays with that model: only a lack of memory for our own records ends the loading. A
 * weights file too large for memory is that version's fault. Runs on the thread that loads. */
#include "model/load.h"

#include "base/clock.h"
#include "model/config_file.h"
#include "model/manifest.h"
#include "model/scan.h"
#include "model/version.h"
#include "model/warmup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the functions below share while one model is loaded. */
struct loading {
    const struct ad_source *source;
    struct ad_manifest manifest;
    bool needs_weights;
    struct ad_made *made;
};

/* Versions as they are found and picked; owned. */
struct numbers {
    uint64_t *items; /* ascending */
    size_t n;
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

/* Whose fault it is: too little memory for the weights will not be so for ever. */
static enum ad_status status_of(const struct attn_error *why)
{
    return why->status == ATTN_NO_MEMORY ? AD_UNAVAILABLE : AD_INVALID;
}

/* What the library said, after the file it said it about; input errors name the path themselves. */
static enum ad_status refuse(const char *path, const struct attn_error *why,
                             struct ad_error *error)
{
    return why->status == ATTN_IO
               ? ad_fail(error, AD_INVALID, "%s", why->message)
               : ad_fail(error, status_of(why), "%s: %s", path, why->message);
}

/* Make the layer from the tensors that the config picks out of the weights, which end here. */
static enum attn_status create_layer(const struct ad_manifest *manifest,
                                     attn_weights *weights, attn_layer **layer,
                                     struct attn_error *why)
{
    enum attn_status status = attn_weights_set_prefix(weights, manifest->prefix, why);
    for (size_t i = 0; i < manifest->n_names && !status; i++) {
        status = attn_weights_rename(weights, manifest->names[i].parameter,
                                     manifest->names[i].file_name, why);
    }
    if (!status) {
        status = attn_layer_create(&manifest->spec, weights, layer, why);
    }
    attn_weights_free(weights);
    return status;
}

static enum ad_status load_from_disk(const struct loading *loading, const char *version,
                                     attn_layer **layer, struct ad_error *error)
{
    const char *folder = loading->source->folder;
    char *own = NULL;
    char *path = NULL;
    enum ad_status status = AD_OK;
    if (!loading->made->stamps.is_flat) {
        status = join(folder, version, &own, error);
        folder = own;
    }
    if (!status) {
        status = join(folder, loading->manifest.file, &path, error);
    }
    if (!status) {
        struct attn_error why = {0};
        attn_weights *weights = NULL;
        if (attn_weights_read(path, &weights, &why) ||
            create_layer(&loading->manifest, weights, layer, &why)) {
            status = refuse(path, &why, error);
        }
    }
    free(path);
    free(own);
    return status;
}

/* The same with the file at hand. */
static enum ad_status load_from_memory(const struct loading *loading, const char *version,
                                       attn_layer **layer, struct ad_error *error)
{
    char *path = NULL;
    enum ad_status status = join(version, loading->manifest.file, &path, error);
    if (status) {
        return status;
    }
    const struct ad_override_file *file = NULL;
    for (size_t i = 0; i < loading->source->n_files && !file; i++) {
        const struct ad_override_file *given = &loading->source->files[i];
        file = strcmp(given->path, path) == 0 ? given : NULL;
    }
    struct attn_error why = {0};
    attn_weights *weights = NULL;
    if (!file) {
        status = ad_fail(error, AD_NOT_FOUND, "file:%s: not among the files given", path);
    } else if (attn_weights_parse(file->bytes, file->n_bytes, &weights, &why) ||
               create_layer(&loading->manifest, weights, layer, &why)) {
        status = ad_fail(error, status_of(&why), "file:%s: %s", path, why.message);
    }
    free(path);
    return status;
}

static enum ad_status load_layer(const struct loading *loading, const char *version,
                                 attn_layer **layer, struct ad_error *error)
{
    if (loading->needs_weights) {
        return loading->source->n_files > 0
                   ? load_from_memory(loading, version, layer, error)
                   : load_from_disk(loading, version, layer, error);
    }
    struct attn_error why = {0};
    return attn_layer_create(&loading->manifest.spec, NULL, layer, &why)
               ? refuse(loading->source->folder, &why, error)
               : AD_OK;
}

static void log_loaded(const struct ad_log *log, const struct ad_version *version)
{
    const size_t bytes = attn_layer_bytes(version->layer);
    const struct ad_log_field fields[] = {
        ad_log_text("model", version->model), ad_log_text("version", version->text),
        ad_log_number("bytes", bytes <= INT64_MAX ? (int64_t)bytes : INT64_MAX),
        ad_log_number("milliseconds", version->load_ns / 1000000)};
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

/* Layer, ports and settings of a version. AD_INTERNAL: out of memory for our own; else *why says
 * what is wrong with the version, AD_UNAVAILABLE: that memory does not suffice for it. */
static enum ad_status fill_version(const struct loading *loading,
                                   struct ad_version *version, struct ad_error *why)
{
    const int64_t started_ns = ad_clock_now_ns();
    enum ad_status status = load_layer(loading, version->text, &version->layer, why);
    if (status) {
        return status;
    }
    version->n_inputs = attn_layer_inputs(version->layer, NULL, version->inputs);
    version->n_outputs = attn_layer_outputs(version->layer, NULL, version->outputs);
    version->settings = loading->manifest.settings;
    version->config =
        ad_manifest_show(&loading->manifest, version->inputs, version->n_inputs);
    if (!version->config) {
        return out_of_memory(why, version->model);
    }
    status = ad_warmup_run(&loading->manifest, version->layer, why);
    if (status) { /* memory: for what the config asks, not for our own */
        return status == AD_INTERNAL ? AD_UNAVAILABLE : status;
    }
    version->load_ns = ad_clock_now_ns() - started_ns;
    return AD_OK;
}

/* The version is not there, or broken. */
static enum ad_status set_reason(const struct loading *loading, struct ad_slot *slot,
                                 const char *reason, struct ad_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, slot->number);
    log_broken(loading->source->log, loading->source->name, text, reason);
    slot->reason = strdup(reason);
    return slot->reason ? AD_OK : out_of_memory(error, loading->source->name);
}

/* What the slot's version is made of: see reuse. */
static void stamp_slot(const struct loading *loading, struct ad_slot *slot)
{
    const struct ad_stamps *stamps = &loading->made->stamps;
    const struct ad_version_stamp *found = ad_stamps_find(stamps, slot->number);
    slot->config = stamps->config;
    if (found) {
        slot->weights = found->weights;
    }
}

/* Take over what serves already, if it was made of the same files. */
static bool take_over(const struct loading *loading, const struct ad_slot *old,
                      struct ad_slot *slot)
{
    if (!loading->source->reuse || loading->source->config || !old || !old->version ||
        !ad_stamp_same(&old->config, &slot->config) ||
        !ad_stamp_same(&old->weights, &slot->weights)) {
        return false;
    }
    ad_version_hold(old->version);
    slot->version = old->version;
    return true;
}

/* Append version number to what is made, loaded or with its reason. */
static enum ad_status load_version(const struct loading *loading, uint64_t number,
                                   struct ad_error *error)
{
    const struct ad_source *source = loading->source;
    struct ad_slots *slots = &loading->made->slots;
    const struct ad_slot *old = ad_slots_find(source->old, number);
    struct ad_slot *slot = &slots->items[slots->n++];
    slot->number = number;
    stamp_slot(loading, slot);
    if (take_over(loading, old, slot)) {
        return AD_OK;
    }
    struct ad_version *version = ad_version_create(
        source->name, number, old && old->version ? old->version->stats : NULL);
    if (!version) {
        return out_of_memory(error, source->name);
    }
    struct ad_error why = {0};
    enum ad_status status = fill_version(loading, version, &why);
    if (!status) {
        log_loaded(source->log, version);
        slot->version = version;
        return AD_OK;
    }
    ad_version_release(version);
    loading->made->lacks_memory = loading->made->lacks_memory || status == AD_UNAVAILABLE;
    return status == AD_INTERNAL ? ad_fail(error, AD_INTERNAL, "%s", why.message)
                                 : set_reason(loading, slot, why.message, error);
}

/* ---- which versions -------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The number before the '/' of "1/model.safetensors", or 0. */
static uint64_t version_of(const struct ad_override_file *file)
{
    char text[24] = "";
    const size_t n = strcspn(file->path, "/");
    if (n < sizeof text && file->path[n] == '/') {
        memcpy(text, file->path, n);
    }
    return ad_scan_version(text);
}

/* The versions that the files at hand name, ascending. */
static enum ad_status find_given(const struct loading *loading, struct numbers *found,
                                 struct ad_error *error)
{
    const struct ad_source *source = loading->source;
    found->items = calloc(source->n_files + 1, sizeof *found->items);
    if (!found->items) {
        return out_of_memory(error, source->name);
    }
    size_t n = 0;
    for (size_t i = 0; i < source->n_files; i++) {
        found->items[n] = version_of(&source->files[i]);
        n += found->items[n] != 0;
    }
    qsort(found->items, n, sizeof *found->items, compare_numbers);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || found->items[i] != found->items[i - 1]) {
            found->items[found->n++] = found->items[i];
        }
    }
    return AD_OK;
}

/* The versions in the model's folder, ascending; their stamps are taken too. */
static enum ad_status find_folders(const struct loading *loading, struct numbers *found,
                                   struct ad_error *error)
{
    const struct ad_source *source = loading->source;
    struct ad_stamps *stamps = &loading->made->stamps;
    struct ad_error why = {0};
    enum ad_status status =
        ad_stamps_take_versions(stamps, loading->source->folder, loading->manifest.file,
                                loading->needs_weights, source->log, &why);
    /* with a config given, a layer without parameters needs no folder */
    const bool needless =
        status == AD_NOT_FOUND && source->config && !loading->needs_weights;
    if (status && !needless) {
        return ad_fail(error, status, "%s", why.message);
    }
    found->items = calloc(stamps->n_versions + 1, sizeof *found->items);
    if (!found->items) {
        return out_of_memory(error, source->name);
    }
    for (size_t i = 0; i < stamps->n_versions; i++) {
        found->items[found->n++] = stamps->versions[i].number;
    }
    return AD_OK;
}

/* AD_INVALID: there are none. */
static enum ad_status find_versions(const struct loading *loading, struct numbers *found,
                                    struct ad_error *error)
{
    enum ad_status status = loading->source->n_files > 0
                                ? find_given(loading, found, error)
                                : find_folders(loading, found, error);
    if (status || found->n > 0) {
        return status;
    }
    if (loading->needs_weights) {
        return ad_fail(
            error, AD_INVALID,
            "%s: no version, expected %s beside config.json or in a folder such as 1/",
            loading->source->folder, loading->manifest.file);
    }
    found->items[found->n++] = 1;
    return AD_OK;
}

/* Load version number if it is there; one that the policy names is missed. */
static enum ad_status load_named(const struct loading *loading,
                                 const struct numbers *found, uint64_t number,
                                 struct ad_error *error)
{
    if (bsearch(&number, found->items, found->n, sizeof number, compare_numbers)) {
        return load_version(loading, number, error);
    }
    struct ad_slots *slots = &loading->made->slots;
    struct ad_slot *slot = &slots->items[slots->n++];
    slot->number = number;
    struct ad_error why = {0};
    ad_fail(&why, AD_NOT_FOUND, "%s/%" PRIu64 ": no such version",
            loading->source->folder, number);
    return set_reason(loading, slot, why.message, error);
}

static enum ad_status load_versions(const struct loading *loading, struct ad_error *error)
{
    const struct ad_version_policy *policy = &loading->manifest.policy;
    struct numbers found = {NULL, 0};
    enum ad_status status = find_versions(loading, &found, error);
    const bool specific = policy->kind == AD_POLICY_SPECIFIC;
    const uint64_t *wanted = specific ? policy->versions : found.items;
    size_t n = specific ? policy->n_versions : found.n;
    if (policy->kind == AD_POLICY_LATEST && policy->n_latest < n) {
        wanted += n - policy->n_latest;
        n = (size_t)policy->n_latest;
    }
    struct ad_slots *slots = &loading->made->slots;
    if (!status) {
        slots->items = calloc(n + 1, sizeof *slots->items);
        status = slots->items ? AD_OK : out_of_memory(error, loading->source->name);
    }
    for (size_t i = 0; i < n && !status; i++) {
        status = load_named(loading, &found, wanted[i], error);
    }
    free(found.items);
    return status;
}

/* ---- one model ------------------------------------------------------------------------------- */

/* Find out whether the layer has parameters, by making it without. */
static enum ad_status check_needs_weights(struct loading *loading, struct ad_error *error)
{
    struct attn_error why = {0};
    attn_layer *layer = NULL;
    enum attn_status status =
        attn_layer_create(&loading->manifest.spec, NULL, &layer, &why);
    attn_layer_free(layer);
    if (status == ATTN_NO_MEMORY) {
        return out_of_memory(error, loading->source->name);
    }
    loading->needs_weights = status != ATTN_OK;
    if (loading->manifest.has_weights && !loading->needs_weights) {
        const struct ad_log_field fields[] = {
            ad_log_text("model", loading->source->name)};
        ad_log_write(loading->source->log, AD_LOG_WARNING,
                     "the layer has no parameters, its weights are not read", fields, 1);
    }
    return AD_OK;
}

static enum ad_status read_config(struct loading *loading, const char *path,
                                  struct ad_error *error)
{
    char *text = NULL;
    size_t n_bytes = 0;
    enum ad_status status =
        ad_config_file_read(path, AD_MANIFEST_MAX_BYTES, &text, &n_bytes, error);
    if (!status) {
        status = ad_manifest_parse(&loading->manifest, text, n_bytes, path, error);
    }
    free(text);
    return status;
}

static enum ad_status load_config(struct loading *loading, struct ad_error *error)
{
    const struct ad_source *source = loading->source;
    struct ad_stamps *stamps = &loading->made->stamps;
    char *path;
    enum ad_status status = join(loading->source->folder, "config.json", &path, error);
    if (status) {
        return status;
    }
    stamps->taken = true;
    if (!source->config) {
        stamps->config = ad_stamp_of(path);
    }
    if (strcmp(source->name, "stats") == 0) {
        status = ad_fail(error, AD_INVALID,
                         "%s: a model cannot be called stats, /v2/models/stats is taken",
                         loading->source->folder);
    } else if (source->config) {
        status = ad_manifest_parse(&loading->manifest, source->config, source->n_config,
                                   "parameters.config", error);
    } else {
        status = read_config(loading, path, error);
    }
    free(path);
    return status;
}

static enum ad_status load_model(struct loading *loading, struct ad_error *error)
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

/* Why nothing of the model can be served, where that is so: that of the version which would be the
 * default one. */
static void note_failure(struct ad_made *made)
{
    const char *reason = NULL;
    for (size_t i = 0; i < made->slots.n; i++) {
        reason = made->slots.items[i].reason;
        if (!reason) {
            return;
        }
    }
    if (reason) {
        ad_fail(&made->why, made->lacks_memory ? AD_UNAVAILABLE : AD_INVALID, "%s",
                reason);
    }
}

enum ad_status ad_model_make(const struct ad_source *source, struct ad_made *made,
                             struct ad_error *error)
{
    memset(made, 0, sizeof *made);
    struct loading loading = {.source = source, .made = made};
    struct ad_error *why = &made->why;
    enum ad_status status = load_model(&loading, why);
    if (status == AD_INTERNAL) {
        ad_fail(error, AD_INTERNAL, "%s", why->message);
        ad_made_reset(made);
        return AD_INTERNAL;
    }
    if (status) {
        log_broken(source->log, source->name, NULL, why->message);
    } else {
        note_failure(made);
    }
    return AD_OK;
}

void ad_made_reset(struct ad_made *made)
{
    ad_slots_reset(&made->slots);
    ad_stamps_reset(&made->stamps);
    memset(made, 0, sizeof *made);
}
