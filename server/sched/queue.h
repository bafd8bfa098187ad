/* queue.h - the bounded queue between the I/O threads and the workers.
 *
 * First in, first out. A push that finds it full or closed is refused at once. Lock
 * order of the daemon: the queue's lock is the only one that is held while another
 * could be taken, and none is: no callback runs under it. */
#ifndef AD_SCHED_QUEUE_H
#define AD_SCHED_QUEUE_H

#include "base/error.h"
#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>

struct ad_queue; /* lock, condition, list; all guarded by its lock */

struct ad_queue *ad_queue_create(size_t capacity); /* NULL when out of memory */
void ad_queue_free(struct ad_queue *queue);        /* must be empty; NULL is fine */

/* On success *request is the queue's (nulled here) and on_done will run exactly once.
 * On failure (AD_UNAVAILABLE: full or closed) the caller keeps it and on_done never
 * runs. */
enum ad_status ad_queue_push(struct ad_queue *queue, struct ad_request **request,
                             struct ad_error *error) AD_MUST_CHECK;

/* Wait for the oldest request; NULL once the queue is closed and empty. */
struct ad_request *ad_queue_pop(struct ad_queue *queue);

/* Refuse further pushes; those inside are still popped. */
void ad_queue_close(struct ad_queue *queue);

/* Take out everything that waits, as a list through ->next (for a stop that does not
 * drain). */
struct ad_request *ad_queue_take_all(struct ad_queue *queue);

size_t ad_queue_length(struct ad_queue *queue);

#endif
