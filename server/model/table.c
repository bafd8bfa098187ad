/* table.c - change what the repository holds, one whole model at a time.
 *
 * All of it is the loading thread's but the search. What is taken out of the table is told and
 * released after the lock was given back: that may free a layer, and calls back. */
#include "model/table.h"

#include "model/version.h"

#include <stdlib.h>
#include <string.h>

void ad_slots_reset(struct ad_slots *slots)
{
    for (size_t i = 0; i < slots->n; i++) {
        ad_version_release(slots->items[i].version);
        ad_presence_release(slots->items[i].leaving);
        free(slots->items[i].reason);
    }
    free(slots->items);
    *slots = (struct ad_slots){NULL, 0};
}

struct ad_slot *ad_slots_find(const struct ad_slots *slots, uint64_t number)
{
    for (size_t i = 0; i < slots->n; i++) {
        if (slots->items[i].number == number) {
            return &slots->items[i];
        }
    }
    return NULL;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The order of strcmp, which is that of scan.c's names: by bytes, a shorter name before what it
 * begins. */
static int compare_name(const char *name, size_t n_name, const char *other)
{
    const size_t n_other = strlen(other);
    const int order = memcmp(name, other, n_name < n_other ? n_name : n_other);
    return order != 0 ? order : (n_name > n_other) - (n_name < n_other);
}

/* The index of the first entry that is not before the name. */
static size_t lower_bound(const struct ad_repository *repository, const char *name,
                          size_t n_name)
{
    size_t first = 0;
    size_t past = repository->n_entries;
    while (first < past) {
        const size_t middle = first + (past - first) / 2;
        if (compare_name(name, n_name, repository->entries[middle]->name) > 0) {
            first = middle + 1;
        } else {
            past = middle;
        }
    }
    return first;
}

struct ad_entry *ad_table_find(const struct ad_repository *repository, const char *name,
                               size_t n_name)
{
    const size_t i = lower_bound(repository, name, n_name);
    return i < repository->n_entries &&
                   compare_name(name, n_name, repository->entries[i]->name) == 0
               ? repository->entries[i]
               : NULL;
}

/* ---- changing -------------------------------------------------------------------------------- */

static void entry_free(struct ad_entry *entry)
{
    if (!entry) {
        return;
    }
    ad_slots_reset(&entry->slots);
    ad_stamps_reset(&entry->stamps);
    free(entry->config);
    free(entry->reason);
    free(entry->name);
    free(entry);
}

enum ad_status ad_table_insert(struct ad_repository *repository, const char *name,
                               bool wanted, struct ad_entry **entry,
                               struct ad_error *error)
{
    const size_t n = repository->n_entries;
    struct ad_entry **entries = calloc(n + 1, sizeof *entries);
    struct ad_entry *created = calloc(1, sizeof *created);
    if (created) {
        created->name = strdup(name);
        created->wanted = wanted;
    }
    if (!entries || !created || !created->name) {
        entry_free(created);
        free(entries);
        return ad_fail(error, AD_INTERNAL, "model '%s': out of memory", name);
    }
    const size_t place = lower_bound(repository, name, strlen(name));
    if (n > 0) {
        memcpy(entries, repository->entries, place * sizeof *entries);
        memcpy(entries + place + 1, repository->entries + place,
               (n - place) * sizeof *entries);
    }
    entries[place] = created;

    pthread_mutex_lock(&repository->lock);
    struct ad_entry **old = repository->entries;
    repository->entries = entries;
    repository->n_entries = n + 1;
    pthread_mutex_unlock(&repository->lock);
    free(old);
    *entry = created;
    return AD_OK;
}

/* Tell of the versions that left with `old`, but for those that stay in `slots`. */
static void retire(struct ad_repository *repository, const struct ad_slots *old,
                   const struct ad_slots *slots)
{
    for (size_t i = 0; i < old->n; i++) {
        struct ad_version *version = old->items[i].version;
        const struct ad_slot *now = ad_slots_find(slots, old->items[i].number);
        if (!version || (now && now->version == version)) {
            continue;
        }
        repository->n_retired++;
        if (repository->on_retired) {
            repository->on_retired(repository->context, version);
        }
    }
}

void ad_table_remove(struct ad_repository *repository, struct ad_entry *entry)
{
    const size_t place = lower_bound(repository, entry->name, strlen(entry->name));
    pthread_mutex_lock(&repository->lock);
    repository->n_entries--;
    memmove(repository->entries + place, repository->entries + place + 1,
            (repository->n_entries - place) * sizeof *repository->entries);
    pthread_mutex_unlock(&repository->lock);
    retire(repository, &entry->slots, &(const struct ad_slots){NULL, 0});
    entry_free(entry);
}

void ad_table_set_loading(struct ad_repository *repository, struct ad_entry *entry,
                          bool loading)
{
    pthread_mutex_lock(&repository->lock);
    entry->loading = loading;
    entry->wanted = entry->wanted || loading;
    pthread_mutex_unlock(&repository->lock);
}

void ad_table_swap(struct ad_repository *repository, struct ad_entry *entry,
                   struct ad_slots *slots, char **reason, bool wanted)
{
    pthread_mutex_lock(&repository->lock);
    struct ad_slots old = entry->slots;
    char *old_reason = entry->reason;
    entry->slots = *slots;
    entry->reason = *reason;
    entry->wanted = wanted;
    entry->loading = false;
    pthread_mutex_unlock(&repository->lock);
    *slots = (struct ad_slots){NULL, 0};
    *reason = NULL;
    retire(repository, &old, &entry->slots);
    ad_slots_reset(&old);
    free(old_reason);
}
