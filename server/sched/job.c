/* job.c - the tasks of one stage of a forward, handed out one by one.
 *
 * Owner: the worker that runs the forward. The count of tasks taken is all that workers
 * share; what the tasks wrote reaches the owner through the queue's lock, which each
 * helper takes to leave and the owner takes to retract. */
#include "sched/job.h"

void ad_job_init(struct ad_job *job, size_t n_tasks, attn_task *task, void *argument)
{
    job->task = task;
    job->argument = argument;
    job->n_tasks = n_tasks;
    atomic_init(&job->n_taken, 0);
    atomic_init(&job->n_helpers, 0);
    job->n_unasked = 0;
    job->awaited = false;
    job->next = NULL;
}

bool ad_job_is_open(const struct ad_job *job)
{
    return atomic_load_explicit(&job->n_taken, memory_order_relaxed) < job->n_tasks;
}

bool ad_job_step(struct ad_job *job, size_t worker)
{
    size_t task = atomic_fetch_add_explicit(&job->n_taken, 1, memory_order_relaxed);
    if (task >= job->n_tasks) {
        return false;
    }
    job->task(job->argument, task, worker);
    return true;
}
