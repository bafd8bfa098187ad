/* queue_state.h - the inside of the queue, for the files that make it up: queue.c (requests come and are
 * taken), queue_watch.c (what waits is looked after), queue_jobs.c (large work is shared). */
#ifndef AD_SCHED_QUEUE_STATE_H
#define AD_SCHED_QUEUE_STATE_H

#include "sched/lanes.h"
#include "sched/queue.h"

#include <pthread.h>
#include <stdatomic.h>

struct ad_queue {
    size_t capacity; /* immutable, as are the next two once threads run */
    void (*on_stir)(void *context);
    void *stir_context;
    pthread_mutex_t lock;
    pthread_cond_t work;         /* a request, a job, or closed; on the monotonic clock */
    pthread_cond_t helpers_left; /* an awaited job has no helper any more */
    struct ad_lanes lanes;       /* guarded by lock, as is all below */
    uint64_t n_pushed;
    atomic_size_t length;    /* waiting requests; written under the lock, read without */
    atomic_bool has_work;    /* a lane may have something to do now; so too */
    atomic_bool has_small;   /* something small; so too */
    struct ad_job *jobs;     /* open ones, and ones whose owner is about to retract */
    atomic_size_t n_offered; /* jobs so far; written under the lock, read without */
    size_t n_idle;           /* workers asleep, or woken and not yet running */
    size_t n_called;         /* of those: woken for a request */
    bool lingers;            /* a worker stays awake for the next request */
    bool resting;            /* the watch sleeps until on_stir */
    bool closed;
};

static inline void ad_queue_set_flag(atomic_bool *flag, bool value)
{
    atomic_store_explicit(flag, value, memory_order_relaxed);
}

/* More or fewer requests of the lane wait, or are in hand. Under the lock, as is all below. */
void ad_queue_move(struct ad_queue *queue, const struct ad_lane *lane, long waiting,
                   long running);

/* Take a request out of a lane's list for good. */
void ad_queue_take_out(struct ad_queue *queue, struct ad_lane *lane,
                       struct ad_requests *list, struct ad_request *request,
                       struct ad_requests *out);

/* How many sleepers to signal for the job now, at most so many; they count as asked. */
size_t ad_queue_ask(struct ad_queue *queue, struct ad_job *job, size_t most);

/* The oldest job with tasks left, joined; NULL: none. */
struct ad_job *ad_queue_join(struct ad_queue *queue);

/* Without the lock: whoever wakes needs it at once. */
void ad_queue_wake(struct ad_queue *queue, size_t n);

#endif
