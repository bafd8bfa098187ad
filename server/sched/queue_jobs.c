/* queue_jobs.c - the jobs that want help, in the queue where workers look for work.
 *
 * Jobs are a list of one per worker at the most, oldest first. Any thread; under the queue's lock. */
#include "sched/queue_state.h"

size_t ad_queue_ask(struct ad_queue *queue, struct ad_job *job, size_t most)
{
    size_t n = job->n_unasked < most ? job->n_unasked : most;
    n = queue->n_idle < n ? queue->n_idle : n;
    job->n_unasked -= n;
    return n;
}

void ad_queue_wake(struct ad_queue *queue, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pthread_cond_signal(&queue->work);
    }
}

struct ad_job *ad_queue_join(struct ad_queue *queue)
{
    struct ad_job *job = queue->jobs;
    while (job && !ad_job_is_open(job)) {
        job = job->next;
    }
    if (job) {
        atomic_fetch_add_explicit(&job->n_helpers, 1, memory_order_relaxed);
    }
    return job;
}

void ad_queue_offer(struct ad_queue *queue, struct ad_job *job)
{
    pthread_mutex_lock(&queue->lock);
    struct ad_job **last = &queue->jobs;
    while (*last) {
        last = &(*last)->next;
    }
    *last = job;
    atomic_fetch_add_explicit(&queue->n_offered, 1, memory_order_relaxed);
    job->n_unasked = job->n_tasks - 1;
    size_t n_wake = ad_queue_ask(queue, job, 1);
    pthread_mutex_unlock(&queue->lock);
    ad_queue_wake(queue, n_wake);
}

void ad_queue_retract(struct ad_queue *queue, struct ad_job *job)
{
    pthread_mutex_lock(&queue->lock);
    struct ad_job **link = &queue->jobs;
    while (*link != job) {
        link = &(*link)->next;
    }
    *link = job->next;
    job->awaited = true;
    while (atomic_load_explicit(&job->n_helpers, memory_order_relaxed) > 0) {
        pthread_cond_wait(&queue->helpers_left, &queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
}

void ad_queue_leave(struct ad_queue *queue, struct ad_job *job)
{
    pthread_mutex_lock(&queue->lock);
    bool last = atomic_fetch_sub_explicit(&job->n_helpers, 1, memory_order_relaxed) == 1;
    bool awaited = last && job->awaited;
    pthread_mutex_unlock(&queue->lock);
    /* The job may be gone by now; the condition is the queue's, and all owners that
     * wait look again. */
    if (awaited) {
        pthread_cond_broadcast(&queue->helpers_left);
    }
}
