/* queue.h - where the workers wait: the bounded queue of requests, and the jobs that want help.
 *
 * What is to be done next is the policy of lanes.h and lane.h; here are the lock, the sleeping and
 * the waking. A push that finds its model's lane full, or the queue closed, is refused at once.
 * Requests come before jobs: a worker helps while there is nothing else to do, so many small requests
 * share the machine and a large one uses what is idle.
 *
 * Lock order of the daemon and the library: none is needed, as no thread takes one while it holds
 * another: no callback, no task, and nothing that may call back, as the release of a version may, runs
 * under a lock. `make check-locks` sees to it. */
#ifndef AD_SCHED_QUEUE_H
#define AD_SCHED_QUEUE_H

#include "base/error.h"
#include "sched/job.h"
#include "sched/lane.h"
#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>

struct ad_queue; /* lock, conditions, lanes, jobs; all guarded by its lock */

/* capacity: requests waiting for one version of a model whose settings do not say. NULL when out of
 * memory. */
struct ad_queue *ad_queue_create(size_t capacity);
void ad_queue_free(struct ad_queue *queue); /* must be empty; NULL is fine */

/* Called for any push that comes after a quiet time (see ad_queue_rest). Set before threads run. */
void ad_queue_on_stir(struct ad_queue *queue, void (*on_stir)(void *context),
                      void *context);

/* On success *request is the queue's (nulled here) and on_done will run exactly once.
 * On failure (AD_UNAVAILABLE: full or closed, with a code) the caller keeps it and on_done never runs. */
enum ad_status ad_queue_push(struct ad_queue *queue, struct ad_request **request,
                             struct ad_error *error) AD_MUST_CHECK;

enum ad_work_kind {
    AD_WORK_END,    /* the queue is closed, and there is nothing left to do */
    AD_WORK_DECODE, /* one request; then `decoded` says whether it is to wait for its run */
    AD_WORK_RUN,    /* requests to be run together */
    AD_WORK_HELP,   /* a job, joined: it must be left */
    AD_WORK_REFUSE /* nothing but what has expired */
};

/* What one worker has in hand. All zeros before the first take. */
struct ad_work {
    enum ad_work_kind kind;
    struct ad_requests requests;
    struct ad_requests
        expired; /* of any kind: they waited too long, and are to be answered so */
    struct ad_job *job;

    /* Filled by the worker before it takes the next. */
    struct ad_request
        *decoded; /* NULL: it failed or was all done, and has been answered */
    int64_t spent_ns;

    /* The queue's. */
    struct ad_lane *lane;
    size_t n_taken;
};

/* Give back what was taken, and wait for more. helper false: no jobs (then no caller may take them, or
 * a wake-up meant for a helper could end here). */
void ad_queue_take(struct ad_queue *queue, bool helper, struct ad_work *work);

/* In the middle of a large request: is there small work? Takes no lock. */
bool ad_queue_has_small(struct ad_queue *queue);

/* The same, but of small work alone and without waiting: AD_WORK_END when there is none. */
void ad_queue_take_small(struct ad_queue *queue, struct ad_work *work);

/* Refuse further pushes; those inside are still taken. */
void ad_queue_close(struct ad_queue *queue);

/* Take out everything that waits (for a stop that does not drain). */
void ad_queue_take_all(struct ad_queue *queue, struct ad_requests *all);

size_t ad_queue_length(struct ad_queue *queue); /* of requests that wait; takes no lock */

/* ---- watching (watch.h) -------------------------------------------------------------------- */

/* Take out what may not wait any longer at now_ns; the earliest deadline of the rest, or INT64_MAX. */
int64_t ad_queue_expire(struct ad_queue *queue, int64_t now_ns,
                        struct ad_requests *expired);

/* A request that waits, by what survives it. */
struct ad_waiter {
    uint64_t number;
    int fd;
};

/* At most n of those that were pushed before before_ns and have a socket; their number. *from goes on
 * from call to call, so that in the end all get their turn; it begins as 0. */
size_t ad_queue_waiters(struct ad_queue *queue, int64_t before_ns, size_t *from,
                        struct ad_waiter *waiters, size_t n);

/* Take out the requests of these numbers that still wait. */
void ad_queue_remove(struct ad_queue *queue, const struct ad_waiter *waiters, size_t n,
                     struct ad_requests *removed);

/* The watch goes to sleep unless anything waits, or is in hand and may come back to wait: true, and
 * on_stir is called at the next push. */
bool ad_queue_rest(struct ad_queue *queue);

/* ---- jobs ---------------------------------------------------------------------------------- */

/* Has a worker something better to do than to help? Takes no lock. */
bool ad_queue_has_work(struct ad_queue *queue);

/* Let workers that find no request join the job, and wake up to n_tasks - 1 of those
 * that sleep. Closed or not makes no difference. Owner of the job. */
void ad_queue_offer(struct ad_queue *queue, struct ad_job *job);

/* After the last task was taken: wait until every helper has left. The job, and all that
 * its tasks wrote, is then the owner's alone. */
void ad_queue_retract(struct ad_queue *queue, struct ad_job *job);

/* The end of a help: the job may be gone when this returns. */
void ad_queue_leave(struct ad_queue *queue, struct ad_job *job);

#endif
