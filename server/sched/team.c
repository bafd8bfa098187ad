/* team.c - one pass on all workers that have nothing else to do.
 *
 * Runs on workers: run() on the one that serves, ad_team_help on those that came to help.
 * No state of its own; the job is on the stack of the worker that serves. */
#include "sched/team.h"
#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>

/* How long an owner looks for its last helpers to finish before it sleeps: about what a
 * sleep and a wake-up cost. */
#define SPIN_NS 20000

/* Helpers are in their last task. Yield meanwhile, in case one waits for this processor. */
static void spin(const struct ad_job *job)
{
    if (atomic_load_explicit(&job->n_helpers, memory_order_relaxed) == 0) {
        return;
    }
    int64_t until_ns = ad_clock_now_ns() + SPIN_NS;
    while (atomic_load_explicit(&job->n_helpers, memory_order_relaxed) > 0 &&
           ad_clock_now_ns() < until_ns) {
        sched_yield();
    }
}

static void run(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    const struct ad_team *team = context;
    struct ad_job job;
    ad_job_init(&job, n_tasks, task, argument);
    bool offered = n_tasks > 1 && team->n_workers > 1 && team->queue;
    if (offered) {
        ad_queue_offer(team->queue, &job);
    }
    while (ad_job_step(&job, team->index)) {
        if (team->serve_small && ad_queue_has_small(team->queue)) {
            team->serve_small(team->context);
        }
    }
    if (offered) {
        spin(&job);
        ad_queue_retract(team->queue, &job);
    }
}

struct attn_parallel ad_team_parallel(struct ad_team *team)
{
    return (struct attn_parallel){team->n_workers, run, team};
}

void ad_team_help(const struct ad_team *team, struct ad_job *job)
{
    while (!ad_queue_has_work(team->queue) && ad_job_step(job, team->index)) {
    }
    ad_queue_leave(team->queue, job);
}
