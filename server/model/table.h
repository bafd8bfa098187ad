/* table.h - what the repository holds, and the lock before it. Used inside the model folder alone.
 *
 * One thread loads; it alone writes, and under the lock, so it may read without. Every other thread
 * reads under the lock. Nothing is allocated, read from disk or called back under it but the copies
 * of a view. It is the only lock of this folder beside the loader's, and held with no other. */
#ifndef AD_MODEL_TABLE_H
#define AD_MODEL_TABLE_H

#include "model/layout.h"
#include "model/repository.h"
#include "model/stamp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One version of a model. */
struct ad_slot {
    uint64_t number;
    char *reason;                /* why it is not ready, or why its reload failed; NULL */
    struct ad_version *version;  /* the slot's reference; NULL unless it is ready */
    struct ad_presence *leaving; /* of what was unloaded last; NULL: nothing was */

    /* The loading thread's: what version was made of. All zeros: not of files. */
    struct ad_stamp config, weights;
};

struct ad_slots {
    struct ad_slot *items; /* ascending by number */
    size_t n;
};

void ad_slots_reset(struct ad_slots *slots); /* releases and frees; {0} afterwards */

/* The slot of that number, or NULL. */
struct ad_slot *ad_slots_find(const struct ad_slots *slots, uint64_t number);

/* One model. */
struct ad_entry {
    char *name; /* immutable */

    /* guarded by the lock */
    char *reason; /* as in ad_view_model */
    bool wanted;  /* it is to be served */
    bool loading; /* a load is under way */
    struct ad_slots slots;

    /* The loading thread's. */
    struct ad_stamps stamps; /* of the last load, whatever came of it */
    char *config;            /* instead of config.json; NULL: that is used */
    size_t n_config;
    bool
        fixed; /* it came with files of its own, so there is nothing to look at on disk */
};

struct ad_repository {
    struct ad_layout layout; /* its root is immutable; the rest is the loading thread's */
    enum ad_control_mode mode; /* immutable, as are the next three */
    const struct ad_log *log;
    void (*on_retired)(void *context, struct ad_version *version);
    void *context;

    atomic_bool abandoned; /* no rescan loads any further */
    pthread_mutex_t lock;
    struct ad_entry **entries; /* guarded by the lock; ascending by name */
    size_t n_entries;          /* guarded by the lock */

    size_t n_retired; /* the loading thread's: versions that were taken out so far */
};

/* The entry of that name (n bytes), or NULL. Under the lock, or on the loading thread. */
struct ad_entry *ad_table_find(const struct ad_repository *repository, const char *name,
                               size_t n_name);

/* ---- of the loading thread ------------------------------------------------------------------- */

/* Add a model without versions. AD_INTERNAL: out of memory. */
enum ad_status ad_table_insert(struct ad_repository *repository, const char *name,
                               bool wanted, struct ad_entry **entry,
                               struct ad_error *error) AD_MUST_CHECK;

/* Forget a model; its versions are retired. */
void ad_table_remove(struct ad_repository *repository, struct ad_entry *entry);

/* A load begins, of what is wanted from now on, or has ended. */
void ad_table_set_loading(struct ad_repository *repository, struct ad_entry *entry,
                          bool loading);

/* Put slots and reason in the place of what there was; both are the table's (and emptied here).
 * Versions that are in neither are retired. */
void ad_table_swap(struct ad_repository *repository, struct ad_entry *entry,
                   struct ad_slots *slots, char **reason, bool wanted);

#endif
