/* sequences.h - the keys and values that are kept for sequences between their requests.
 *
 * A sequence belongs to one loaded version of a model and is known there by its id. One request at a
 * time has it in hand; the others are refused meanwhile (AD_CONFLICT, "sequence_busy"). One that is
 * not known is AD_CONFLICT too ("sequence_lost"): never started, ended, evicted, or kept by another
 * replica; the client starts it again.
 *
 * There are at most `max` of them and `max_bytes` of what they keep. One that has been idle for idle_ns
 * is dropped. Where there is no room, those that were idle the longest go first, but none that was
 * used within AD_SEQUENCE_GRACE_NS and none in hand: if that is not enough, the one that wants more
 * is refused (AD_UNAVAILABLE, "sequence_limit"), so that clients who take turns never push each other
 * out.
 *
 * Any thread, with a lock of its own, under which nothing large is freed. Moments are told. */
#ifndef AD_SCHED_SEQUENCES_H
#define AD_SCHED_SEQUENCES_H

#include "base/error.h"
#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_SEQUENCE_GRACE_NS INT64_C(5000000000)

struct ad_sequences_config {
    size_t max;
    size_t max_bytes;
    int64_t idle_ns;
};

struct ad_sequences;

/* NULL when out of memory. */
struct ad_sequences *ad_sequences_create(const struct ad_sequences_config *config);
void ad_sequences_free(struct ad_sequences *sequences); /* none in hand; NULL is fine */

/* Take the sequence that request->sequence_call names in hand: request->sequence. A start makes it anew,
 * empty or as a fork of another, and drops what was kept under its id before. AD_INVALID: the layer
 * cannot keep anything, with the reason. */
enum ad_status ad_sequences_take(struct ad_sequences *sequences,
                                 struct ad_request *request, int64_t now_ns,
                                 struct ad_error *error) AD_MUST_CHECK;

/* What it keeps. For whoever has it in hand. */
attn_cache *ad_sequence_cache(struct ad_sequence *sequence);

/* Let it keep what *cache does, which is the sequence's from now on (and nulled here). For whoever has it in hand
 * and has no plan of it; then there is to be made room. */
void ad_sequence_adopt(struct ad_sequence *sequence, attn_cache **cache);

/* Would a sequence that keeps so much be over the limit by itself? AD_TOO_LARGE. */
enum ad_status ad_sequences_check_size(const struct ad_sequences *sequences,
                                       size_t n_bytes,
                                       struct ad_error *error) AD_MUST_CHECK;

/* Count what the sequence keeps now; the request's plan may have added to it. On failure it is still in
 * hand. AD_TOO_LARGE: it alone is over the limit. */
enum ad_status ad_sequences_make_room(struct ad_sequences *sequences,
                                      struct ad_sequence *sequence, int64_t now_ns,
                                      struct ad_error *error) AD_MUST_CHECK;

/* Put request->sequence back (NULL is fine) and free the plan, which refers to it. It is dropped when
 * the step was its last, its first one failed, or the step was made but its answer failed: the client
 * could not know how far it is. For whoever answers the request, before on_done. */
void ad_sequences_give(struct ad_request *request, int64_t now_ns);

/* Drop all of a version that serves no new request; those in hand when they are put back. */
void ad_sequences_retire(struct ad_sequences *sequences,
                         const struct ad_version *version);

/* Drop those that have been idle for too long. */
void ad_sequences_sweep(struct ad_sequences *sequences, int64_t now_ns);

/* A sequence as operators see it: as it was when it was put back last. */
struct ad_sequence_view {
    char *id;
    size_t length; /* positions */
    size_t n_bytes;
    int64_t idle_ns; /* 0 while it is busy */
    bool busy;
};

struct ad_sequences_view {
    struct ad_sequence_view *items; /* in the order of their ids */
    size_t n;
};

/* What is kept for a version. AD_INTERNAL: out of memory. */
enum ad_status ad_sequences_view(struct ad_sequences *sequences,
                                 const struct ad_version *version, int64_t now_ns,
                                 struct ad_sequences_view *view,
                                 struct ad_error *error) AD_MUST_CHECK;
void ad_sequences_view_reset(struct ad_sequences_view *view); /* frees */

struct ad_sequences_count {
    size_t n, n_bytes;
    uint64_t n_evicted; /* so far: for want of room, or idle for too long */
};
struct ad_sequences_count ad_sequences_count(struct ad_sequences *sequences);

#endif
