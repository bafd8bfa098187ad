/* queue.c - where the workers wait: the bounded queue of requests, and the jobs that
 * want help.
 *
 * Requests are a singly linked list with a pointer to its last link, so that push and
 * pop take constant time under one lock. `tail` points at `head` when the list is empty,
 * else at the last request's `next`. Jobs are a list too, of one per worker at the most,
 * oldest first. Any thread may call any function; main creates and frees.
 *
 * Sleeping workers wait on one condition for requests and jobs alike, so any one that
 * wakes looks for both: a wake-up is never wasted on a worker that wants the other kind.
 * The owner of a job wakes one, and each that joins two more, so that the owner does not
 * pay for many wake-ups. */
#include "sched/queue.h"
#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How long a helper stays awake for the next job: about what one more sleep would cost.
 * Waking a thread on another processor took the waker 2 microseconds at best and 29 on a
 * virtual machine, and the thread was there after 60. A forward has a few stages with
 * next to nothing between them, so that its helpers are woken once. */
#define LINGER_NS 100000

struct ad_queue {
    size_t capacity; /* immutable */
    pthread_mutex_t lock;
    pthread_cond_t work;         /* a request, a job, or closed */
    pthread_cond_t helpers_left; /* an awaited job has no helper any more */
    struct ad_request *head;     /* guarded by lock, as is all below */
    struct ad_request **tail;
    atomic_size_t length;    /* written under the lock, read without */
    struct ad_job *jobs;     /* open ones, and ones whose owner is about to retract */
    atomic_size_t n_offered; /* jobs so far; written under the lock, read without */
    size_t n_idle;           /* workers asleep, or woken and not yet running */
    bool closed;
};

struct ad_queue *ad_queue_create(size_t capacity)
{
    struct ad_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        return NULL;
    }
    queue->capacity = capacity;
    queue->tail = &queue->head;
    atomic_init(&queue->length, 0);
    atomic_init(&queue->n_offered, 0);
    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        goto out;
    }
    if (pthread_cond_init(&queue->work, NULL) != 0) {
        goto out_lock;
    }
    if (pthread_cond_init(&queue->helpers_left, NULL) != 0) {
        goto out_work;
    }
    return queue;
out_work:
    pthread_cond_destroy(&queue->work);
out_lock:
    pthread_mutex_destroy(&queue->lock);
out:
    free(queue);
    return NULL;
}

void ad_queue_free(struct ad_queue *queue)
{
    if (!queue) {
        return;
    }
    assert(!queue->head && !queue->jobs);
    pthread_cond_destroy(&queue->helpers_left);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

size_t ad_queue_length(struct ad_queue *queue)
{
    return atomic_load_explicit(&queue->length, memory_order_relaxed);
}

static void set_length(struct ad_queue *queue, size_t length)
{
    atomic_store_explicit(&queue->length, length, memory_order_relaxed);
}

/* ---- requests ------------------------------------------------------------------------ */

/* Append under the lock. False: the queue is closed or full, which *closed tells
 * apart. */
static bool append_locked(struct ad_queue *queue, struct ad_request *request,
                          bool *closed)
{
    *closed = queue->closed;
    size_t length = ad_queue_length(queue);
    if (queue->closed || length >= queue->capacity) {
        return false;
    }
    request->next = NULL;
    *queue->tail = request;
    queue->tail = &request->next;
    set_length(queue, length + 1);
    return true;
}

enum ad_status ad_queue_push(struct ad_queue *queue, struct ad_request **request,
                             struct ad_error *error)
{
    /* The caller's pointer is cleared before a worker can see the request: once it
     * can, on_done may run, and nothing of the request's surroundings may be written
     * any more. */
    struct ad_request *pushed = *request;
    *request = NULL;
    bool closed = false;
    pthread_mutex_lock(&queue->lock);
    bool appended = append_locked(queue, pushed, &closed);
    if (appended) {
        pthread_cond_signal(&queue->work);
    }
    pthread_mutex_unlock(&queue->lock);
    if (appended) {
        return AD_OK;
    }
    *request = pushed;
    if (closed) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "the server is stopping and takes no new inference requests");
    }
    return ad_fail(error, AD_UNAVAILABLE,
                   "Exceeds maximum queue size: %zu requests are waiting, which is the "
                   "limit (--queue-size); try again",
                   queue->capacity);
}

/* The oldest request, or NULL. */
static struct ad_request *take_locked(struct ad_queue *queue)
{
    struct ad_request *request = queue->head;
    if (request) {
        queue->head = request->next;
        if (!queue->head) {
            queue->tail = &queue->head;
        }
        set_length(queue, ad_queue_length(queue) - 1);
        request->next = NULL;
    }
    return request;
}

void ad_queue_close(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->lock);
}

struct ad_request *ad_queue_take_all(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    struct ad_request *all = queue->head;
    queue->head = NULL;
    queue->tail = &queue->head;
    set_length(queue, 0);
    pthread_mutex_unlock(&queue->lock);
    return all;
}

/* ---- jobs ---------------------------------------------------------------------------- */

/* How many sleepers to signal for the job now, at most so many; they count as asked. */
static size_t ask_locked(struct ad_queue *queue, struct ad_job *job, size_t most)
{
    size_t n = job->n_unasked < most ? job->n_unasked : most;
    n = queue->n_idle < n ? queue->n_idle : n;
    job->n_unasked -= n;
    return n;
}

/* Without the lock: whoever wakes needs it at once. */
static void wake(struct ad_queue *queue, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pthread_cond_signal(&queue->work);
    }
}

/* The oldest job with tasks left, joined; NULL: none. */
static struct ad_job *join_locked(struct ad_queue *queue)
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
    size_t n_wake = ask_locked(queue, job, 1);
    pthread_mutex_unlock(&queue->lock);
    wake(queue, n_wake);
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

/* ---- both ---------------------------------------------------------------------------- */

/* Stay awake until there may be work, for a moment; gives way to any other thread. */
static void linger(struct ad_queue *queue, size_t n_offered)
{
    int64_t until_ns = ad_clock_now_ns() + LINGER_NS;
    while (ad_queue_length(queue) == 0 &&
           atomic_load_explicit(&queue->n_offered, memory_order_relaxed) == n_offered &&
           ad_clock_now_ns() < until_ns) {
        sched_yield();
    }
}

/* Until there may be work: awake for a moment if so told, else asleep. True when jobs were
 * offered in its sleep, so that it was probably woken for one. */
static bool wait_locked(struct ad_queue *queue, bool lingers)
{
    size_t n_offered = atomic_load_explicit(&queue->n_offered, memory_order_relaxed);
    if (lingers) {
        pthread_mutex_unlock(&queue->lock);
        linger(queue, n_offered);
        pthread_mutex_lock(&queue->lock);
        return false;
    }
    queue->n_idle++;
    pthread_cond_wait(&queue->work, &queue->lock);
    queue->n_idle--;
    return atomic_load_explicit(&queue->n_offered, memory_order_relaxed) != n_offered;
}

struct ad_request *ad_queue_pop(struct ad_queue *queue, struct ad_job **job)
{
    bool lingers = job && *job;
    struct ad_request *request = NULL;
    struct ad_job *joined = NULL;
    size_t n_wake = 0;
    pthread_mutex_lock(&queue->lock);
    while (!(request = take_locked(queue)) && !(job && (joined = join_locked(queue))) &&
           !queue->closed) {
        /* one that came too late for its stage is in time for the next */
        lingers = wait_locked(queue, lingers) && job;
    }
    if (joined) {
        n_wake = ask_locked(queue, joined, 2);
    }
    pthread_mutex_unlock(&queue->lock);
    wake(queue, n_wake);
    if (job) {
        *job = joined;
    }
    return request;
}
