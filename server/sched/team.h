/* team.h - one pass on all workers that have nothing else to do.
 *
 * The worker that serves a request always works on its own tasks, so that progress never
 * depends on others; workers without a request of their own join it, and leave it between
 * two tasks as soon as a request waits. The server of a large request serves small ones between
 * two of its tasks too: nobody waits behind it for longer than a task takes. */
#ifndef AD_SCHED_TEAM_H
#define AD_SCHED_TEAM_H

#include "attention.h"
#include "sched/queue.h"

#include <stddef.h>

/* One worker's place among those that share a queue. Immutable. All zeros but n_workers = 1: alone. */
struct ad_team {
    struct ad_queue *queue; /* NULL: nobody to help */
    size_t index;           /* of this worker: < n_workers, and no other's */
    size_t n_workers;       /* at least 1 */
    /* Serve what ad_queue_take_small gives, until it gives nothing; NULL: small work waits. */
    void (*serve_small)(void *context);
    void *context;
};

/* What attn_forward takes to spread its tasks. Refers to team; for its worker alone. Handing
 * a stage over costs microseconds: for what takes less, pass NULL to attn_forward. */
struct attn_parallel ad_team_parallel(struct ad_team *team);

/* Help with a job that ad_queue_take gave, until its tasks are taken or something else is to do, and
 * leave it. */
void ad_team_help(const struct ad_team *team, struct ad_job *job);

#endif
