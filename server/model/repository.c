/* repository.c - look-ups in the table, by any thread. What changes it is in table.c and control.c.
 */
#include "model/repository.h"

#include "model/table.h"
#include "model/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ad_repository_root(const struct ad_repository *repository)
{
    return repository->layout.root;
}

enum ad_control_mode ad_repository_mode(const struct ad_repository *repository)
{
    return repository->mode;
}

/* ---- states ---------------------------------------------------------------------------------- */

static enum ad_version_state slot_state(const struct ad_entry *entry,
                                        const struct ad_slot *slot)
{
    if (slot->version) {
        return AD_VERSION_READY;
    }
    if (entry->loading) {
        return AD_VERSION_LOADING;
    }
    return ad_presence_is_gone(slot->leaving) ? AD_VERSION_UNAVAILABLE
                                              : AD_VERSION_UNLOADING;
}

/* Ready when a version is; else the state of the highest. */
static enum ad_version_state entry_state(const struct ad_entry *entry)
{
    for (size_t i = 0; i < entry->slots.n; i++) {
        if (entry->slots.items[i].version) {
            return AD_VERSION_READY;
        }
    }
    if (entry->slots.n > 0) {
        return slot_state(entry, &entry->slots.items[entry->slots.n - 1]);
    }
    return entry->loading ? AD_VERSION_LOADING : AD_VERSION_UNAVAILABLE;
}

/* Why a version, or a whole model, is not served. */
static const char *reason_of(const struct ad_entry *entry, const char *reason)
{
    if (reason) {
        return reason;
    }
    return entry->loading ? "it is being loaded" : "it is not loaded";
}

/* ---- acquiring ------------------------------------------------------------------------------- */

/* The highest version that is ready, or NULL. */
static const struct ad_slot *default_slot(const struct ad_slots *slots)
{
    for (size_t i = slots->n; i > 0; i--) {
        if (slots->items[i - 1].version) {
            return &slots->items[i - 1];
        }
    }
    return NULL;
}

static const struct ad_slot *slot_by_text(const struct ad_slots *slots, const char *text,
                                          size_t n)
{
    char number[24];
    if (n == 0 || n >= sizeof number || memchr(text, '\0', n)) {
        return NULL;
    }
    memcpy(number, text, n);
    number[n] = '\0';
    char *end = NULL;
    /* only the canonical spelling is a version's */
    const uint64_t value = strtoull(number, &end, 10);
    char canonical[24];
    snprintf(canonical, sizeof canonical, "%" PRIu64, value);
    return strcmp(number, canonical) == 0 ? ad_slots_find(slots, value) : NULL;
}

static enum ad_status acquire(const struct ad_entry *entry, const char *version,
                              size_t n_version, struct ad_version **acquired,
                              struct ad_error *error)
{
    const struct ad_slots *slots = &entry->slots;
    const struct ad_slot *slot =
        version ? slot_by_text(slots, version, n_version) : default_slot(slots);
    /* of a model that is broken as a whole no version is known, so it is not the asked one that
     * is missing */
    if (!slot && (!version || slots->n == 0)) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "Request for model '%s' cannot be served: %s", entry->name,
                       reason_of(entry, entry->reason));
    }
    if (!slot) {
        return ad_fail(
            error, AD_NOT_FOUND,
            "Request for unknown model version: '%s' version '%.*s' is not found",
            entry->name, n_version < 64 ? (int)n_version : 64, version);
    }
    if (!slot->version) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "Request for model '%s' version '%" PRIu64
                       "' cannot be served: %s",
                       entry->name, slot->number, reason_of(entry, slot->reason));
    }
    ad_version_hold(slot->version);
    *acquired = slot->version;
    return AD_OK;
}

enum ad_status ad_repository_acquire(struct ad_repository *repository, const char *model,
                                     size_t n_model, const char *version,
                                     size_t n_version, struct ad_version **acquired,
                                     struct ad_error *error)
{
    pthread_mutex_lock(&repository->lock);
    const struct ad_entry *entry = ad_table_find(repository, model, n_model);
    enum ad_status status =
        entry ? acquire(entry, version, n_version, acquired, error) : AD_NOT_FOUND;
    pthread_mutex_unlock(&repository->lock);
    if (!entry) {
        return ad_fail(error, AD_NOT_FOUND,
                       "Request for unknown model: '%.*s' is not found",
                       n_model < 256 ? (int)n_model : 256, model);
    }
    return status;
}

bool ad_repository_ready(struct ad_repository *repository, bool strict)
{
    bool ready = true;
    if (!strict) {
        return true;
    }
    pthread_mutex_lock(&repository->lock);
    for (size_t i = 0; i < repository->n_entries && ready; i++) {
        const struct ad_entry *entry = repository->entries[i];
        ready = !entry->wanted || entry_state(entry) == AD_VERSION_READY;
        for (size_t k = 0; k < entry->slots.n && ready; k++) {
            ready = !entry->wanted || entry->slots.items[k].version;
        }
    }
    pthread_mutex_unlock(&repository->lock);
    return ready;
}

/* ---- viewing --------------------------------------------------------------------------------- */

/* *copy = text, which may be NULL. False: out of memory. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return *copy || !text;
}

static bool view_slot(const struct ad_entry *entry, const struct ad_slot *slot,
                      struct ad_view_version *view)
{
    view->number = slot->number;
    snprintf(view->text, sizeof view->text, "%" PRIu64, slot->number);
    view->state = slot_state(entry, slot);
    if (slot->version) {
        ad_version_hold(slot->version);
        view->version = slot->version;
    }
    return copy_text(slot->reason, &view->reason);
}

static bool view_entry(const struct ad_entry *entry, struct ad_view_model *view)
{
    view->state = entry_state(entry);
    if (!copy_text(entry->name, &view->name) ||
        !copy_text(entry->reason, &view->reason)) {
        return false;
    }
    view->versions = calloc(entry->slots.n + 1, sizeof *view->versions);
    if (!view->versions) {
        return false;
    }
    for (size_t i = 0; i < entry->slots.n; i++) {
        if (!view_slot(entry, &entry->slots.items[i],
                       &view->versions[view->n_versions++])) {
            return false;
        }
    }
    return true;
}

/* Under the lock. */
static bool view_all(struct ad_entry *const *entries, size_t n, struct ad_view *view)
{
    view->models = calloc(n + 1, sizeof *view->models);
    if (!view->models) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!view_entry(entries[i], &view->models[view->n_models++])) {
            return false;
        }
    }
    return true;
}

enum ad_status ad_repository_view(struct ad_repository *repository, const char *model,
                                  struct ad_view *view, struct ad_error *error)
{
    memset(view, 0, sizeof *view);
    pthread_mutex_lock(&repository->lock);
    struct ad_entry *entry =
        model ? ad_table_find(repository, model, strlen(model)) : NULL;
    const bool done = model ? view_all(&entry, entry ? 1 : 0, view)
                            : view_all(repository->entries, repository->n_entries, view);
    pthread_mutex_unlock(&repository->lock);
    if (!done) {
        ad_view_reset(view);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    return AD_OK;
}

void ad_view_reset(struct ad_view *view)
{
    for (size_t i = 0; i < view->n_models; i++) {
        struct ad_view_model *model = &view->models[i];
        for (size_t k = 0; k < model->n_versions; k++) {
            ad_version_release(model->versions[k].version);
            free(model->versions[k].reason);
        }
        free(model->versions);
        free(model->reason);
        free(model->name);
    }
    free(view->models);
    memset(view, 0, sizeof *view);
}
