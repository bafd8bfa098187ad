/* queue.h - where the workers wait: the bounded queue of requests, and the jobs that
 * want help.
 *
 * Requests are first in, first out. A push that finds the queue full or closed is
 * refused at once. Requests come before jobs: a worker helps while no request waits, so
 * many small requests share the machine and a large one uses what is idle.
 *
 * Lock order of the daemon: the queue's lock is the only one that is held while another
 * could be taken, and none is: no callback and no task runs under it. */
#ifndef AD_SCHED_QUEUE_H
#define AD_SCHED_QUEUE_H

#include "base/error.h"
#include "sched/job.h"
#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>

struct ad_queue; /* lock, conditions, lists; all guarded by its lock */

struct ad_queue *ad_queue_create(size_t capacity); /* NULL when out of memory */
void ad_queue_free(struct ad_queue *queue);        /* must be empty; NULL is fine */

/* On success *request is the queue's (nulled here) and on_done will run exactly once.
 * On failure (AD_UNAVAILABLE: full or closed) the caller keeps it and on_done never
 * runs. */
enum ad_status ad_queue_push(struct ad_queue *queue, struct ad_request **request,
                             struct ad_error *error) AD_MUST_CHECK;

/* Wait for work. The oldest request; or, while none waits, NULL and in *job one with
 * tasks left, which the caller has joined and must leave; or NULL twice once the queue
 * is closed and has neither. *job not NULL on entry: the caller has just helped with one,
 * and stays awake a moment for the next. job NULL: requests alone (then no caller may
 * pass one, or a wake-up meant for a helper could end here). */
struct ad_request *ad_queue_pop(struct ad_queue *queue, struct ad_job **job);

/* Refuse further pushes; those inside are still popped. */
void ad_queue_close(struct ad_queue *queue);

/* Take out everything that waits, as a list through ->next (for a stop that does not
 * drain). */
struct ad_request *ad_queue_take_all(struct ad_queue *queue);

size_t ad_queue_length(struct ad_queue *queue); /* of requests; takes no lock */

/* Let workers that find no request join the job, and wake up to n_tasks - 1 of those
 * that sleep. Closed or not makes no difference. Owner of the job. */
void ad_queue_offer(struct ad_queue *queue, struct ad_job *job);

/* After the last task was taken: wait until every helper has left. The job, and all that
 * its tasks wrote, is then the owner's alone. */
void ad_queue_retract(struct ad_queue *queue, struct ad_job *job);

/* The end of a help: the job may be gone when this returns. */
void ad_queue_leave(struct ad_queue *queue, struct ad_job *job);

#endif
