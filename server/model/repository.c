/* repository.c - all models below one folder, and look-ups in them.
 *
 * Loading is main's, before threads run; everything after that only reads, but for the versions'
 * counts, which are atomic: whoever brings one to zero frees the version. */
#include "model/repository.h"

#include "model/load.h"
#include "model/scan.h"

#include <stdlib.h>
#include <string.h>

/* ---- loading --------------------------------------------------------------------------------- */

/* Whether a folder of the repository is a model; a name that no path could ask for is logged. */
static bool is_model(const char *name, const struct ad_log *log)
{
    if (strcmp(name, "lost+found") == 0) {
        return false; /* a volume's own, where the repository is the root of one */
    }
    if (ad_scan_is_servable(name)) {
        return true;
    }
    const struct ad_log_field fields[] = {
        ad_log_text("entry", name),
        ad_log_text("reason", "a model's name is UTF-8 without control characters")};
    ad_log_write(log, AD_LOG_WARNING, "entry skipped", fields, 2);
    return false;
}

static enum ad_status load_models(struct ad_repository *repository,
                                  const struct ad_names *names, const struct ad_log *log,
                                  struct ad_error *error)
{
    repository->models = calloc(names->n + 1, sizeof *repository->models);
    if (!repository->models) {
        return ad_fail(error, AD_INTERNAL, "%s: out of memory", repository->root);
    }
    for (size_t i = 0; i < names->n; i++) {
        if (!is_model(names->items[i], log)) {
            continue;
        }
        struct ad_model *model = &repository->models[repository->n_models];
        enum ad_status status =
            ad_model_load(repository->root, names->items[i], log, model, error);
        if (status) {
            return status;
        }
        repository->n_models++;
    }
    return AD_OK;
}

enum ad_status ad_repository_load(const char *root, const struct ad_log *log,
                                  struct ad_repository **repository,
                                  struct ad_error *error)
{
    struct ad_names names;
    enum ad_status status = ad_scan_folders(root, log, &names, error);
    if (status) {
        return status;
    }
    struct ad_repository *created = calloc(1, sizeof *created);
    if (created) {
        created->root = strdup(root);
    }
    if (!created || !created->root) {
        status = ad_fail(error, AD_INTERNAL, "%s: out of memory", root);
    } else {
        status = load_models(created, &names, log, error);
    }
    ad_names_reset(&names);
    if (status) {
        ad_repository_free(created);
        return status;
    }
    *repository = created;
    return AD_OK;
}

void ad_repository_free(struct ad_repository *repository)
{
    if (!repository) {
        return;
    }
    for (size_t i = 0; i < repository->n_models; i++) {
        ad_model_reset(&repository->models[i]);
    }
    free(repository->models);
    free(repository->root);
    free(repository);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* The order of scan.c's names: by bytes, a shorter name before what it begins. */
static int compare_name(const char *name, size_t n_name, const char *other)
{
    const size_t n_other = strlen(other);
    const int order = memcmp(name, other, n_name < n_other ? n_name : n_other);
    return order != 0 ? order : (n_name > n_other) - (n_name < n_other);
}

const struct ad_model *ad_repository_find(const struct ad_repository *repository,
                                          const char *name, size_t n_name)
{
    size_t first = 0;
    size_t past = repository->n_models;
    while (first < past) {
        const size_t middle = first + (past - first) / 2;
        const int order = compare_name(name, n_name, repository->models[middle].name);
        if (order == 0) {
            return &repository->models[middle];
        }
        if (order < 0) {
            past = middle;
        } else {
            first = middle + 1;
        }
    }
    return NULL;
}

/* The highest version that loaded, or NULL. */
static struct ad_version *default_version(const struct ad_model *model)
{
    for (size_t i = model->n_versions; i > 0; i--) {
        if (model->versions[i - 1]->layer) {
            return model->versions[i - 1];
        }
    }
    return NULL;
}

static struct ad_version *find_version(const struct ad_model *model, const char *version,
                                       size_t n_version)
{
    for (size_t i = 0; i < model->n_versions; i++) {
        if (compare_name(version, n_version, model->versions[i]->text) == 0) {
            return model->versions[i];
        }
    }
    return NULL;
}

enum ad_status ad_model_acquire(const struct ad_model *model, const char *version,
                                size_t n_version, struct ad_version **acquired,
                                struct ad_error *error)
{
    struct ad_version *found =
        version ? find_version(model, version, n_version) : default_version(model);
    /* of a model that is broken as a whole no version is known, so it is not the asked one that
     * is missing */
    if (!found && (!version || model->n_versions == 0)) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "Request for model '%s' cannot be served: %s", model->name,
                       model->reason);
    }
    const int shown = n_version < 64 ? (int)n_version : 64;
    if (!found) {
        return ad_fail(
            error, AD_NOT_FOUND,
            "Request for unknown model version: '%s' version '%.*s' is not found",
            model->name, shown, version);
    }
    if (!found->layer) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "Request for model '%s' version '%s' cannot be served: %s",
                       model->name, found->text, found->reason);
    }
    atomic_fetch_add_explicit(&found->references, 1, memory_order_relaxed);
    *acquired = found;
    return AD_OK;
}

void ad_version_release(struct ad_version *version)
{
    if (!version ||
        atomic_fetch_sub_explicit(&version->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    attn_layer_free(version->layer);
    free(version->reason);
    free(version->model);
    free(version);
}

bool ad_repository_ready(const struct ad_repository *repository, bool strict)
{
    if (!strict) {
        return true;
    }
    for (size_t i = 0; i < repository->n_models; i++) {
        const struct ad_model *model = &repository->models[i];
        if (model->reason) {
            return false;
        }
        for (size_t v = 0; v < model->n_versions; v++) {
            if (!model->versions[v]->layer) {
                return false;
            }
        }
    }
    return true;
}
