/* job.h - the tasks of one stage of a forward, handed out one by one.
 *
 * A job lives with the worker that owns it, from ad_queue_offer to ad_queue_retract. In
 * between any worker may take tasks; each task is given out exactly once. */
#ifndef AD_SCHED_JOB_H
#define AD_SCHED_JOB_H

#include "attention.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ad_job {
    attn_task *task; /* immutable while it is offered, as are the next two */
    void *argument;
    size_t n_tasks;
    atomic_size_t n_taken; /* tasks given out; each worker may raise it once too often */

    /* The queue's. */
    atomic_size_t n_helpers; /* inside; changed under its lock */
    size_t n_unasked; /* guarded by its lock: workers that may still be woken for it */
    bool awaited;     /* guarded by its lock: the owner sleeps until the helpers left */
    struct ad_job *next; /* guarded by its lock */
};

void ad_job_init(struct ad_job *job, size_t n_tasks, attn_task *task, void *argument);

/* Whether tasks are left to be taken. Any thread. */
bool ad_job_is_open(const struct ad_job *job);

/* Run one more task as the given worker. False: none was left. Any thread that is the
 * owner or a helper. */
bool ad_job_step(struct ad_job *job, size_t worker);

#endif
