/* control.c - open the repository, load, reload and unload what is in it.
 *
 * Runs on one thread at a time: main's while it starts, the loader's after that. A load is made
 * aside; only what has come out well replaces what serves. */
#include "model/layout.h"
#include "model/reload.h"
#include "model/repository.h"
#include "model/scan.h"
#include "model/table.h"
#include "model/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum ad_status out_of_memory(struct ad_error *error, const char *name)
{
    return ad_fail(error, AD_INTERNAL, "model '%s': out of memory", name);
}

/* ---- which models there are ------------------------------------------------------------------ */

static bool has_name(const struct ad_names *names, const char *name)
{
    size_t first = 0;
    size_t past = names->n;
    while (first < past) {
        const size_t middle = first + (past - first) / 2;
        const int order = strcmp(name, names->items[middle]);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            past = middle;
        } else {
            first = middle + 1;
        }
    }
    return false;
}

/* What was asked for by name stays, whatever becomes of its folder. */
static bool may_go(const struct ad_repository *repository, const struct ad_entry *entry)
{
    return repository->mode != AD_CONTROL_EXPLICIT || !entry->wanted;
}

static void remove_gone(struct ad_repository *repository, const struct ad_names *names)
{
    for (size_t i = repository->n_entries; i > 0; i--) {
        struct ad_entry *entry = repository->entries[i - 1];
        if (has_name(names, entry->name) || !may_go(repository, entry)) {
            continue;
        }
        const struct ad_log_field field = ad_log_text("model", entry->name);
        ad_log_write(repository->log, AD_LOG_INFO, "model has gone", &field, 1);
        ad_table_remove(repository, entry);
    }
}

/* Make the table's models those of the disk. skipped: the log for entries that are no models. */
static enum ad_status sync_names(struct ad_repository *repository,
                                 const struct ad_log *skipped, struct ad_error *error)
{
    struct ad_names names;
    enum ad_status status = ad_layout_look(&repository->layout, skipped, &names, error);
    if (status) {
        return status;
    }
    remove_gone(repository, &names);
    for (size_t i = 0; i < names.n && !status; i++) {
        struct ad_entry *entry = NULL;
        if (!ad_table_find(repository, names.items[i], strlen(names.items[i]))) {
            status =
                ad_table_insert(repository, names.items[i],
                                repository->mode != AD_CONTROL_EXPLICIT, &entry, error);
        }
    }
    ad_names_reset(&names);
    return status;
}

/* ---- looking at the disk --------------------------------------------------------------------- */

static bool has_changed(const struct ad_repository *repository,
                        const struct ad_entry *entry)
{
    char *folder = NULL;
    if (ad_layout_path(&repository->layout, entry->name, &folder, NULL)) {
        return false;
    }
    const bool same = ad_stamps_hold(&entry->stamps, folder);
    free(folder);
    return !same;
}

static bool is_due(const struct ad_repository *repository, const struct ad_entry *entry,
                   bool everything)
{
    if (!entry->wanted || entry->fixed) {
        return false;
    }
    if (everything || !entry->stamps.taken) {
        return true;
    }
    return repository->mode != AD_CONTROL_EXPLICIT && has_changed(repository, entry);
}

/* Load what is due; AD_INTERNAL only when strict, else what memory did not suffice for is tried
 * again the next time. */
static enum ad_status load_due(struct ad_repository *repository, bool everything,
                               bool strict, struct ad_error *error)
{
    for (size_t i = 0; i < repository->n_entries; i++) {
        struct ad_entry *entry = repository->entries[i];
        if (atomic_load(&repository->abandoned)) {
            return AD_OK;
        }
        if (!is_due(repository, entry, everything)) {
            continue;
        }
        struct ad_source source = {
            .config = entry->config, .n_config = entry->n_config, .reuse = !everything};
        struct ad_error why = {0};
        if (ad_reload(repository, entry, &source, &why) == AD_INTERNAL && strict) {
            return ad_fail(error, AD_INTERNAL, "%s", why.message);
        }
    }
    return AD_OK;
}

enum ad_status ad_repository_rescan(struct ad_repository *repository, bool everything,
                                    struct ad_error *error)
{
    /* what is skipped was logged at the start; not every few seconds */
    enum ad_status status = sync_names(repository, NULL, error);
    return status ? status : load_due(repository, everything, false, error);
}

void ad_repository_abandon(struct ad_repository *repository)
{
    atomic_store(&repository->abandoned, true);
}

/* ---- loading and unloading by name ----------------------------------------------------------- */

static enum ad_status check_name(const char *name, struct ad_error *error)
{
    if (name[0] == '\0') {
        return ad_fail(error, AD_INVALID, "Model name cannot be empty");
    }
    if (!ad_scan_is_servable(name)) {
        return ad_fail(error, AD_INVALID,
                       "'%.64s' cannot be a model's name: expected UTF-8 without '/' and "
                       "control characters, at most 255 bytes, not beginning with '.'",
                       name);
    }
    return AD_OK;
}

static bool has_folder(const struct ad_repository *repository, const char *name)
{
    char *folder = NULL;
    struct stat about;
    if (!ad_layout_may_have(&repository->layout, name) ||
        ad_layout_path(&repository->layout, name, &folder, NULL)) {
        return false;
    }
    const bool is_there = stat(folder, &about) == 0 && S_ISDIR(about.st_mode);
    free(folder);
    return is_there;
}

static enum ad_status no_folder(const struct ad_repository *repository, const char *name,
                                struct ad_error *error)
{
    const struct ad_layout *layout = &repository->layout;
    return ad_layout_may_have(layout, name)
               ? ad_fail(error, AD_NOT_FOUND,
                         "failed to load '%s': %s/%s: no such folder", name, layout->root,
                         name)
               : ad_fail(error, AD_NOT_FOUND,
                         "failed to load '%s': no such model, the only one in %s is "
                         "called '%s'",
                         name, layout->root, layout->only);
}

/* The model's entry, which is new when only now it was heard of. */
static enum ad_status find_or_insert(struct ad_repository *repository, const char *name,
                                     bool needs_folder, struct ad_entry **entry,
                                     struct ad_error *error)
{
    *entry = ad_table_find(repository, name, strlen(name));
    if (*entry) {
        return AD_OK;
    }
    if (needs_folder && !has_folder(repository, name)) {
        return no_folder(repository, name, error);
    }
    return ad_table_insert(repository, name, false, entry, error);
}

static enum ad_status load_given(struct ad_repository *repository, struct ad_entry *entry,
                                 struct ad_source *source, struct ad_error *error)
{
    char *config = NULL;
    if (source->config) {
        config = malloc(source->n_config + 1);
        if (!config) {
            return out_of_memory(error, entry->name);
        }
        memcpy(config, source->config, source->n_config);
        config[source->n_config] = '\0';
    }
    enum ad_status status = ad_reload(repository, entry, source, error);
    if (status) {
        free(config);
        return status;
    }
    free(entry->config);
    entry->config = config;
    entry->n_config = config ? source->n_config : 0;
    entry->fixed = source->n_files > 0;
    return AD_OK;
}

enum ad_status ad_repository_load(struct ad_repository *repository, const char *model,
                                  const char *config, size_t n_config,
                                  const struct ad_override_file *files, size_t n_files,
                                  struct ad_error *error)
{
    struct ad_entry *entry = NULL;
    enum ad_status status = check_name(model, error);
    if (!status && n_files > 0 && !config) {
        status = ad_fail(error, AD_INVALID,
                         "failed to load '%s': files need the parameter 'config'", model);
    }
    if (!status) {
        status = find_or_insert(repository, model, !config, &entry, error);
    }
    if (status) {
        return status;
    }
    struct ad_source source = {
        .config = config, .n_config = n_config, .files = files, .n_files = n_files};
    const bool is_new = !entry->stamps.taken;
    status = load_given(repository, entry, &source, error);
    if (status && is_new && !has_folder(repository, model)) {
        ad_table_remove(repository, entry); /* nothing is left of a bad request */
    }
    return status;
}

/* The slots of a model after it was unloaded. False: out of memory, nothing to reset. */
static bool unloaded_slots(const struct ad_slots *old, struct ad_slots *slots)
{
    *slots = (struct ad_slots){calloc(old->n + 1, sizeof *slots->items), 0};
    bool done = slots->items != NULL;
    for (size_t i = 0; i < old->n && done; i++) {
        const struct ad_slot *from = &old->items[i];
        struct ad_slot *to = &slots->items[slots->n++];
        to->number = from->number;
        to->leaving =
            ad_presence_hold(from->version ? from->version->presence : from->leaving);
        to->reason = strdup("unloaded");
        done = to->reason != NULL;
    }
    if (!done) {
        ad_slots_reset(slots);
    }
    return done;
}

static void forget_source(struct ad_entry *entry)
{
    free(entry->config);
    entry->config = NULL;
    entry->n_config = 0;
    entry->fixed = false;
}

enum ad_status ad_repository_unload(struct ad_repository *repository, const char *model,
                                    struct ad_error *error)
{
    struct ad_entry *entry = ad_table_find(repository, model, strlen(model));
    if (!entry) {
        return ad_fail(error, AD_NOT_FOUND,
                       "failed to unload '%.256s': there is no such model", model);
    }
    if (!entry->wanted) {
        return AD_OK;
    }
    struct ad_slots slots;
    char *reason = strdup("unloaded");
    if (!reason || !unloaded_slots(&entry->slots, &slots)) {
        free(reason);
        return out_of_memory(error, model);
    }
    ad_table_swap(repository, entry, &slots, &reason, false);
    forget_source(entry);
    const struct ad_log_field field = ad_log_text("model", model);
    ad_log_write(repository->log, AD_LOG_INFO, "model unloaded", &field, 1);
    return AD_OK;
}

/* ---- start and end --------------------------------------------------------------------------- */

/* Mark what EXPLICIT mode loads at the start. */
static enum ad_status want_startup(struct ad_repository *repository,
                                   const struct ad_repository_config *config,
                                   struct ad_error *error)
{
    for (size_t i = 0; i < config->n_startup; i++) {
        const char *name = config->startup[i];
        if (strcmp(name, "*") == 0) {
            for (size_t k = 0; k < repository->n_entries; k++) {
                repository->entries[k]->wanted = true;
            }
            continue;
        }
        struct ad_entry *entry = NULL;
        enum ad_status status = check_name(name, error);
        if (!status && !ad_layout_may_have(&repository->layout, name)) {
            status = ad_fail(error, AD_INVALID,
                             "--load-model: '%s': the only model in %s is called '%s'",
                             name, config->root, repository->layout.only);
        }
        if (!status) {
            /* one that is not there is kept with that reason */
            status = find_or_insert(repository, name, false, &entry, error);
        }
        if (status) {
            return status;
        }
        entry->wanted = true;
    }
    return AD_OK;
}

static enum ad_status create(const struct ad_repository_config *config,
                             struct ad_repository **repository, struct ad_error *error)
{
    struct ad_repository *created = calloc(1, sizeof *created);
    if (!created || pthread_mutex_init(&created->lock, NULL) != 0) {
        free(created);
        return ad_fail(error, AD_INTERNAL, "%s: out of memory", config->root);
    }
    enum ad_status status =
        ad_layout_init(&created->layout, config->root, config->name, config->log, error);
    if (status) {
        ad_repository_free(created);
        return status;
    }
    atomic_init(&created->abandoned, false);
    created->mode = config->mode;
    created->log = config->log;
    created->on_retired = config->on_retired;
    created->context = config->context;
    *repository = created;
    return AD_OK;
}

/* Who points at the wrong folder is told what was looked for. */
static void note_empty(const struct ad_repository *repository)
{
    bool has_config = repository->mode == AD_CONTROL_EXPLICIT; /* models may be sent */
    for (size_t i = 0; i < repository->n_entries && !has_config; i++) {
        has_config = ad_stamp_is_there(&repository->entries[i]->stamps.config);
    }
    if (!has_config) {
        const struct ad_log_field fields[] = {
            ad_log_text("repository", ad_repository_root(repository)),
            ad_log_text("reason", "no config.json there or in a folder of it")};
        ad_log_write(repository->log, AD_LOG_WARNING, "no model found", fields, 2);
    }
}

enum ad_status ad_repository_open(const struct ad_repository_config *config,
                                  struct ad_repository **repository,
                                  struct ad_error *error)
{
    struct ad_repository *created = NULL;
    enum ad_status status = create(config, &created, error);
    if (status) {
        return status;
    }
    status = sync_names(created, config->log, error);
    if (!status && config->mode == AD_CONTROL_EXPLICIT) {
        status = want_startup(created, config, error);
    }
    if (!status) {
        status = load_due(created, false, true, error);
    }
    if (status) {
        ad_repository_free(created);
        return status;
    }
    note_empty(created);
    *repository = created;
    return AD_OK;
}

void ad_repository_free(struct ad_repository *repository)
{
    if (!repository) {
        return;
    }
    repository->on_retired = NULL; /* nothing is replaced any more */
    while (repository->n_entries > 0) {
        ad_table_remove(repository, repository->entries[repository->n_entries - 1]);
    }
    pthread_mutex_destroy(&repository->lock);
    free(repository->entries);
    ad_layout_reset(&repository->layout);
    free(repository);
}
