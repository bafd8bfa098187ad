/* reload.c - put a model that was made aside in the place of the one that serves, if it is no worse.
 *
 * A file that is half written, or a config with a fault, must not take down what works: then all
 * that serves stays, with the reason beside it. Runs on the thread that loads. */
#include "model/reload.h"

#include "model/version.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static enum ad_status out_of_memory(struct ad_error *error, const char *name)
{
    return ad_fail(error, AD_INTERNAL, "model '%s': out of memory", name);
}

/* Whether what was made must not replace what serves: nothing came out, or not all of that. */
static bool is_worse(const struct ad_slots *old, const struct ad_made *made)
{
    bool serves = false;
    bool lost = false;
    for (size_t i = 0; i < old->n; i++) {
        const struct ad_slot *slot = &old->items[i];
        const struct ad_slot *now = ad_slots_find(&made->slots, slot->number);
        serves = serves || slot->version;
        lost = lost || (slot->version && now && !now->version);
    }
    return serves && (lost || made->why.status);
}

/* Why a load failed as a whole: its own reason, or that of the highest version that broke. */
static const char *failure_of(const struct ad_made *made)
{
    const char *reason = made->why.status ? made->why.message : NULL;
    for (size_t i = made->slots.n; i > 0 && !reason; i--) {
        reason = made->slots.items[i - 1].reason;
    }
    return reason;
}

/* What a load is answered that failed. */
static enum ad_status status_of(const struct ad_made *made)
{
    return made->why.status     ? made->why.status
           : made->lacks_memory ? AD_UNAVAILABLE
                                : AD_INVALID;
}

/* Append to slots: what serves as `old`, or what was made as `now` and failed, or was given up with
 * the others; either may be NULL. False: out of memory. */
static bool keep_slot(struct ad_slots *slots, const struct ad_slot *old,
                      const struct ad_slot *now, const char *failure)
{
    struct ad_slot *slot = &slots->items[slots->n++];
    const char *reason = now && now->reason ? now->reason : failure;
    if (old && old->version) {
        *slot = *old;
        ad_version_hold(slot->version);
    } else {
        *slot = (struct ad_slot){.number = now ? now->number : old->number};
        reason = !now ? old->reason : reason;
    }
    slot->leaving = old ? ad_presence_hold(old->leaving) : NULL;
    slot->reason = reason ? strdup(reason) : NULL;
    return slot->reason || !reason;
}

/* The number of a slot, or behind the last one a number that no version has. */
static uint64_t number_at(const struct ad_slots *slots, size_t i)
{
    return i < slots->n ? slots->items[i].number : UINT64_MAX;
}

/* The slots after a failed reload: what serves, with the reason why it is still that, and what was
 * tried beside it. False: out of memory, nothing to reset. */
static bool keep_slots(const struct ad_slots *old, const struct ad_made *made,
                       struct ad_slots *slots)
{
    const struct ad_slots *now = &made->slots;
    const char *failure = failure_of(made);
    *slots = (struct ad_slots){calloc(old->n + now->n + 1, sizeof *slots->items), 0};
    bool done = slots->items != NULL;
    size_t a = 0;
    size_t b = 0;
    while (done && (a < old->n || b < now->n)) {
        const uint64_t of_old = number_at(old, a);
        const uint64_t of_now = number_at(now, b);
        const bool served = of_old <= of_now;
        const bool tried = of_now <= of_old;
        const struct ad_slot *x = served ? &old->items[a++] : NULL;
        const struct ad_slot *y = tried ? &now->items[b++] : NULL;
        /* what neither serves nor was tried is history, unless nothing was */
        if (tried || x->version || now->n == 0) {
            done = keep_slot(slots, x, y, failure);
        }
    }
    if (!done) {
        ad_slots_reset(slots);
    }
    return done;
}

static void log_kept(const struct ad_repository *repository, const struct ad_entry *entry,
                     const char *reason)
{
    const struct ad_log_field fields[] = {ad_log_text("model", entry->name),
                                          ad_log_text("reason", reason)};
    ad_log_write(repository->log, AD_LOG_WARNING,
                 "reload failed, what was loaded serves on", fields, 2);
}

/* Put what was made into the table, or its reasons beside what serves. AD_OK: it serves. */
static enum ad_status install(struct ad_repository *repository, struct ad_entry *entry,
                              struct ad_made *made, struct ad_error *error)
{
    const bool worse = is_worse(&entry->slots, made);
    struct ad_slots slots = {NULL, 0};
    const char *failure = worse || made->why.status ? failure_of(made) : NULL;
    char *reason = failure ? strdup(failure) : NULL;
    if ((failure && !reason) || (worse && !keep_slots(&entry->slots, made, &slots))) {
        free(reason);
        return out_of_memory(error, entry->name);
    }
    if (failure) {
        ad_fail(error, status_of(made), "failed to load '%s': %s", entry->name, failure);
    }
    if (worse) {
        log_kept(repository, entry, reason);
    }
    const bool failed = failure != NULL;
    ad_table_swap(repository, entry, worse ? &slots : &made->slots, &reason, true);
    return failed ? status_of(made) : AD_OK;
}

/* For lack of memory; *error says so already. */
static enum ad_status give_up(struct ad_repository *repository, struct ad_entry *entry)
{
    ad_table_set_loading(repository, entry, false);
    const struct ad_log_field fields[] = {ad_log_text("model", entry->name),
                                          ad_log_text("reason", "out of memory")};
    ad_log_write(repository->log, AD_LOG_ERROR, "model not loaded", fields, 2);
    return AD_INTERNAL;
}

enum ad_status ad_reload(struct ad_repository *repository, struct ad_entry *entry,
                         struct ad_source *source, struct ad_error *error)
{
    char *folder = NULL;
    if (ad_layout_path(&repository->layout, entry->name, &folder, error)) {
        return give_up(repository, entry);
    }
    source->folder = folder;
    source->name = entry->name;
    source->old = &entry->slots;
    source->log = repository->log;
    ad_table_set_loading(repository, entry, true);
    struct ad_made made;
    enum ad_status status = ad_model_make(source, &made, error);
    if (!status) {
        status = install(repository, entry, &made, error);
        if (status != AD_INTERNAL) {
            const struct ad_stamps stamps = entry->stamps;
            entry->stamps = made.stamps;
            made.stamps = stamps;
        }
        ad_made_reset(&made);
    }
    free(folder);
    source->folder = NULL;
    return status == AD_INTERNAL ? give_up(repository, entry) : status;
}
