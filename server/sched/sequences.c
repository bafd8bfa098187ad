/* sequences.c - the keys and values that are kept for sequences between their requests.
 *
 * The C library's search tree finds them by version and id; a list has those that nobody has in hand,
 * the longest idle first. Any thread; main creates and frees. */
#include "sched/sequences.h"
#include "sched/sequences_state.h"

#include <assert.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct ad_sequences *ad_sequences_create(const struct ad_sequences_config *config)
{
    struct ad_sequences *sequences = calloc(1, sizeof *sequences);
    if (!sequences) {
        return NULL;
    }
    sequences->config = *config;
    if (pthread_mutex_init(&sequences->lock, NULL) != 0) {
        free(sequences);
        return NULL;
    }
    return sequences;
}

/* ---- one ----------------------------------------------------------------------------------- */

static void free_sequence(struct ad_sequence *sequence)
{
    attn_cache_free(sequence->cache);
    ad_version_release((struct ad_version *)(uintptr_t)sequence->version);
    free(sequence->id);
    free(sequence);
}

static void free_list(struct ad_sequence *list)
{
    while (list) {
        struct ad_sequence *next = list->next;
        free_sequence(list);
        list = next;
    }
}

/* An empty one, in hand. */
static struct ad_sequence *create_sequence(struct ad_sequences *home,
                                           struct ad_version *version, const char *id)
{
    struct ad_sequence *sequence = calloc(1, sizeof *sequence);
    if (!sequence) {
        return NULL;
    }
    sequence->id = strdup(id);
    if (!sequence->id) {
        free(sequence);
        return NULL;
    }
    ad_version_hold(version);
    sequence->home = home;
    sequence->version = version;
    sequence->fresh = true;
    sequence->in_hand = true;
    return sequence;
}

attn_cache *ad_sequence_cache(struct ad_sequence *sequence)
{
    return sequence->cache;
}

void ad_sequence_adopt(struct ad_sequence *sequence, attn_cache **cache)
{
    attn_cache_free(sequence->cache);
    sequence->cache = *cache;
    *cache = NULL;
}

/* ---- the tree and the list ----------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct ad_sequence *x = a, *y = b;
    uintptr_t version_x = (uintptr_t)x->version, version_y = (uintptr_t)y->version;
    return version_x != version_y ? (version_x > version_y) - (version_x < version_y)
                                  : strcmp(x->id, y->id);
}

static struct ad_sequence *find_locked(const struct ad_sequences *sequences,
                                       const struct ad_version *version, const char *id)
{
    const struct ad_sequence key = {.version = version, .id = (char *)(uintptr_t)id};
    struct ad_sequence *const *found = tfind(&key, &sequences->tree, compare);
    return found ? *found : NULL;
}

static void list_locked(struct ad_sequences *sequences, struct ad_sequence *sequence)
{
    sequence->previous = sequences->last;
    sequence->next = NULL;
    *(sequences->last ? &sequences->last->next : &sequences->first) = sequence;
    sequences->last = sequence;
}

static void unlist_locked(struct ad_sequences *sequences, struct ad_sequence *sequence)
{
    *(sequence->previous ? &sequence->previous->next : &sequences->first) =
        sequence->next;
    *(sequence->next ? &sequence->next->previous : &sequences->last) = sequence->previous;
    sequence->next = NULL;
    sequence->previous = NULL;
}

static void count_locked(struct ad_sequences *sequences, struct ad_sequence *sequence,
                         size_t n_bytes)
{
    sequences->n_bytes += n_bytes - sequence->n_bytes;
    sequence->n_bytes = n_bytes;
}

/* Forget it: no request finds it any more. One that is not in hand goes to *gone, to be freed without
 * the lock. */
static void drop_locked(struct ad_sequences *sequences, struct ad_sequence *sequence,
                        struct ad_sequence **gone)
{
    (void)tdelete(sequence, &sequences->tree, compare);
    sequence->dropped = true;
    sequences->n--;
    count_locked(sequences, sequence, 0);
    if (!sequence->in_hand) {
        unlist_locked(sequences, sequence);
        sequence->next = *gone;
        *gone = sequence;
    }
}

/* Drop what has been idle since before the moment, the longest idle first, as long as `more` says so. */
static void evict_locked(struct ad_sequences *sequences, int64_t before_ns,
                         bool (*more)(const struct ad_sequences *sequences),
                         struct ad_sequence **gone)
{
    while (sequences->first && sequences->first->used_ns <= before_ns &&
           more(sequences)) {
        drop_locked(sequences, sequences->first, gone);
        sequences->n_evicted++;
    }
}

static bool always(const struct ad_sequences *sequences)
{
    (void)sequences;
    return true;
}

static bool too_many(const struct ad_sequences *sequences)
{
    return sequences->n >= sequences->config.max;
}

static bool too_large(const struct ad_sequences *sequences)
{
    return sequences->n_bytes > sequences->config.max_bytes;
}

/* ---- taking -------------------------------------------------------------------------------- */

static enum ad_status fail_lost(const struct ad_version *version, const char *id,
                                struct ad_error *error)
{
    return ad_fail_code(error, AD_CONFLICT, "sequence_lost",
                        "sequence '%.100s' of model '%.128s' is not known here: it was "
                        "not started, has ended, was idle for too long, or its model "
                        "was reloaded; start it again with sequence_start",
                        id, version->model);
}

static enum ad_status fail_busy(const struct ad_version *version, const char *id,
                                struct ad_error *error)
{
    return ad_fail_code(error, AD_CONFLICT, "sequence_busy",
                        "sequence '%.100s' of model '%.128s' is busy with another "
                        "request: send the next one when that is answered",
                        id, version->model);
}

/* What a new sequence keeps at its start: nothing, or what another one keeps. */
static enum ad_status start_cache_locked(const struct ad_sequences *sequences,
                                         struct ad_sequence *sequence, const char *fork,
                                         struct ad_error *error)
{
    struct attn_error fault = {0};
    enum attn_status status;
    if (fork) {
        const struct ad_sequence *other = find_locked(sequences, sequence->version, fork);
        if (!other) {
            return fail_lost(sequence->version, fork, error);
        }
        if (other->in_hand) {
            return fail_busy(sequence->version, fork, error);
        }
        status = attn_cache_fork(other->cache, &sequence->cache, &fault);
    } else {
        status = attn_cache_create(sequence->version->layer, &sequence->cache, &fault);
    }
    return status ? ad_fail(error, status == ATTN_NO_MEMORY ? AD_INTERNAL : AD_INVALID,
                            "sequence '%.100s' of model '%.128s': %s", sequence->id,
                            sequence->version->model, fault.message)
                  : AD_OK;
}

/* Put the new one in its place; what it replaces goes to *gone. */
static enum ad_status enter_locked(struct ad_sequences *sequences,
                                   struct ad_sequence *sequence, int64_t now_ns,
                                   struct ad_sequence **gone, struct ad_error *error)
{
    struct ad_sequence *before = find_locked(sequences, sequence->version, sequence->id);
    if (before && before->in_hand) {
        return fail_busy(sequence->version, sequence->id, error);
    }
    if (before) {
        drop_locked(sequences, before, gone);
    }
    evict_locked(sequences, now_ns - AD_SEQUENCE_GRACE_NS, too_many, gone);
    if (too_many(sequences)) {
        return ad_fail_code(error, AD_UNAVAILABLE, "sequence_limit",
                            "%zu sequences are kept, which is the limit "
                            "(--sequence-max), and all are in use; try again",
                            sequences->n);
    }
    if (!tsearch(sequence, &sequences->tree, compare)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    sequences->n++;
    sequence->length = attn_cache_length(sequence->cache);
    count_locked(sequences, sequence, attn_cache_bytes(sequence->cache));
    return AD_OK;
}

static enum ad_status start(struct ad_sequences *sequences, struct ad_request *request,
                            int64_t now_ns, struct ad_error *error)
{
    const struct ad_sequence_call *call = &request->sequence_call;
    struct ad_sequence *gone = NULL;
    struct ad_sequence *sequence = create_sequence(sequences, request->version, call->id);
    if (!sequence) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    pthread_mutex_lock(&sequences->lock);
    enum ad_status status = start_cache_locked(sequences, sequence, call->fork, error);
    if (!status) {
        status = enter_locked(sequences, sequence, now_ns, &gone, error);
    }
    pthread_mutex_unlock(&sequences->lock);
    free_list(gone);
    if (status) {
        free_sequence(sequence);
        return status;
    }
    request->sequence = sequence;
    return AD_OK;
}

enum ad_status ad_sequences_take(struct ad_sequences *sequences,
                                 struct ad_request *request, int64_t now_ns,
                                 struct ad_error *error)
{
    const struct ad_sequence_call *call = &request->sequence_call;
    if (call->start) {
        return start(sequences, request, now_ns, error);
    }
    pthread_mutex_lock(&sequences->lock);
    struct ad_sequence *found = find_locked(sequences, request->version, call->id);
    bool busy = found && found->in_hand;
    if (found && !busy) {
        unlist_locked(sequences, found);
        found->in_hand = true;
        request->sequence = found;
    }
    pthread_mutex_unlock(&sequences->lock);
    return busy     ? fail_busy(request->version, call->id, error)
           : !found ? fail_lost(request->version, call->id, error)
                    : AD_OK;
}

enum ad_status ad_sequences_check_size(const struct ad_sequences *sequences,
                                       size_t n_bytes, struct ad_error *error)
{
    return n_bytes <= sequences->config.max_bytes
               ? AD_OK
               : ad_fail_code(error, AD_TOO_LARGE, "sequence_too_large",
                              "the sequence would keep %zu bytes, over the limit of %zu "
                              "for all of them (--sequence-memory)",
                              n_bytes, sequences->config.max_bytes);
}

enum ad_status ad_sequences_make_room(struct ad_sequences *sequences,
                                      struct ad_sequence *sequence, int64_t now_ns,
                                      struct ad_error *error)
{
    struct ad_sequence *gone = NULL;
    pthread_mutex_lock(&sequences->lock);
    if (!sequence->dropped) {
        count_locked(sequences, sequence, attn_cache_bytes(sequence->cache));
    }
    evict_locked(sequences, now_ns - AD_SEQUENCE_GRACE_NS, too_large, &gone);
    size_t n_bytes = sequences->n_bytes, own = sequence->n_bytes;
    pthread_mutex_unlock(&sequences->lock);
    free_list(gone);
    enum ad_status status = ad_sequences_check_size(sequences, own, error);
    if (status) {
        return status;
    }
    return n_bytes <= sequences->config.max_bytes
               ? AD_OK
               : ad_fail_code(error, AD_UNAVAILABLE, "sequence_limit",
                              "the sequences in use would keep %zu bytes, over the limit "
                              "of %zu (--sequence-memory); try again",
                              n_bytes, sequences->config.max_bytes);
}

/* ---- putting back -------------------------------------------------------------------------- */

void ad_sequences_give(struct ad_request *request, int64_t now_ns)
{
    struct ad_sequence *sequence = request->sequence;
    struct ad_sequence *gone = NULL;
    if (!sequence) {
        return;
    }
    struct ad_sequences *sequences = sequence->home;
    request->sequence = NULL;
    attn_plan_free(request->plan);
    request->plan = NULL;
    bool ok = request->error.status == AD_OK;
    bool over = ok ? request->sequence_call.end : sequence->fresh || request->advanced;
    sequence->fresh = false;
    size_t n_bytes = attn_cache_bytes(sequence->cache);
    size_t length = attn_cache_length(sequence->cache);
    pthread_mutex_lock(&sequences->lock);
    if (over && !sequence->dropped) {
        drop_locked(sequences, sequence, &gone);
    }
    sequence->in_hand = false;
    sequence->used_ns = now_ns;
    sequence->length = length;
    bool dropped = sequence->dropped;
    if (!dropped) {
        count_locked(sequences, sequence, n_bytes);
        list_locked(sequences, sequence);
    }
    pthread_mutex_unlock(&sequences->lock);
    if (dropped) {
        free_sequence(sequence);
    }
}

/* ---- dropping ------------------------------------------------------------------------------ */

void ad_sequences_sweep(struct ad_sequences *sequences, int64_t now_ns)
{
    struct ad_sequence *gone = NULL;
    pthread_mutex_lock(&sequences->lock);
    evict_locked(sequences, now_ns - sequences->config.idle_ns, always, &gone);
    pthread_mutex_unlock(&sequences->lock);
    free_list(gone);
}

void ad_sequences_retire(struct ad_sequences *sequences, const struct ad_version *version)
{
    struct ad_sequence *gone = NULL;
    pthread_mutex_lock(&sequences->lock);
    size_t n = 0;
    struct ad_sequence **items = ad_sequences_gather(sequences, version, &n);
    for (size_t i = 0; i < n; i++) {
        drop_locked(sequences, items[i], &gone);
    }
    pthread_mutex_unlock(&sequences->lock);
    free(items);
    free_list(gone);
}

void ad_sequences_free(struct ad_sequences *sequences)
{
    if (!sequences) {
        return;
    }
    struct ad_sequence *gone = NULL;
    while (sequences->first) {
        drop_locked(sequences, sequences->first, &gone);
    }
    free_list(gone);
    assert(sequences->n == 0);
    pthread_mutex_destroy(&sequences->lock);
    free(sequences);
}

struct ad_sequences_count ad_sequences_count(struct ad_sequences *sequences)
{
    pthread_mutex_lock(&sequences->lock);
    struct ad_sequences_count count = {sequences->n, sequences->n_bytes,
                                       sequences->n_evicted};
    pthread_mutex_unlock(&sequences->lock);
    return count;
}
