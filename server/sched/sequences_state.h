/* sequences_state.h - the inside of the sequences, for the files that make them up: sequences.c (they are taken,
 * put back and dropped), sequences_view.c (they are listed). */
#ifndef AD_SCHED_SEQUENCES_STATE_H
#define AD_SCHED_SEQUENCES_STATE_H

#include "sched/sequences.h"

#include <pthread.h>
#include <stdbool.h>

struct ad_sequence {
    struct ad_sequences *home;        /* immutable, as are the next two */
    const struct ad_version *version; /* a reference is held */
    char *id;
    attn_cache *cache; /* owner: who has it in hand */
    bool fresh;        /* its first request has not succeeded yet; so too */

    size_t n_bytes; /* guarded by the lock of all, as is all below */
    size_t length;  /* when it was put back last, or begun */
    bool in_hand;
    bool dropped;    /* out of the tree: to be freed when it is put back */
    int64_t used_ns; /* when it was put back last */
    struct ad_sequence *previous, *next; /* of the list, or of those to be freed */
};

struct ad_sequences {
    struct ad_sequences_config config; /* immutable */
    pthread_mutex_t lock;
    void *tree;                       /* guarded by lock, as is all below */
    struct ad_sequence *first, *last; /* not in hand */
    size_t n, n_bytes;
    uint64_t n_evicted;
};

/* Those of a version (NULL: all), in the order of their ids, in an array that the caller frees: a tree must not
 * change while it is walked. Under the lock. NULL: out of memory. */
struct ad_sequence **ad_sequences_gather(const struct ad_sequences *sequences,
                                         const struct ad_version *version, size_t *n);

#endif
