/* workers.c - the threads that compute.
 *
 * Owner: main, which starts, joins and frees them. Each thread runs work(); the only
 * state they share is the queue, with the jobs in it, and the count of those still
 * running. */
#include "sched/workers.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One thread. */
struct member {
    struct ad_workers *workers; /* immutable */
    struct ad_worker worker;    /* owner: the thread */
    pthread_t thread;           /* owner: main */
};

struct ad_workers {
    struct ad_queue
        *queue; /* immutable, as are serve, members and n once all have started */
    ad_serve *serve;
    struct member *members;
    size_t n;
    bool joined; /* owner: main */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* on the monotonic clock */
    size_t n_running;     /* guarded by lock */
};

void *ad_scratch_get(struct ad_scratch *scratch, size_t size)
{
    if (scratch->data && size <= scratch->size) {
        return scratch->data;
    }
    ad_scratch_reset(scratch);
    scratch->data = attn_alloc(size);
    scratch->size = scratch->data ? size : 0;
    return scratch->data;
}

void ad_scratch_trim(struct ad_scratch *scratch)
{
    if (scratch->size > AD_SCRATCH_KEPT) {
        ad_scratch_reset(scratch);
    }
}

void ad_scratch_reset(struct ad_scratch *scratch)
{
    attn_free(scratch->data);
    scratch->data = NULL;
    scratch->size = 0;
}

static void serve_one(struct member *member, struct ad_request *request)
{
    request->started_ns = ad_clock_now_ns();
    member->workers->serve(request, &member->worker);
    request->finished_ns = ad_clock_now_ns();
    request->on_done(request);
    ad_scratch_trim(&member->worker.scratch);
}

static void *work(void *argument)
{
    struct member *member = argument;
    struct ad_workers *workers = member->workers;
    struct ad_request *request = NULL;
    struct ad_job *job = NULL;
    while ((request = ad_queue_pop(workers->queue, &job)) != NULL || job) {
        if (request) {
            serve_one(member, request);
        } else {
            ad_team_help(&member->worker.team, job);
        }
    }
    ad_scratch_reset(&member->worker.scratch);
    pthread_mutex_lock(&workers->lock);
    workers->n_running--;
    if (workers->n_running == 0) {
        pthread_cond_broadcast(&workers->ended);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* A condition whose deadlines are of the monotonic clock; 0 or an errno. */
static int init_monotonic_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    if (code != 0) {
        return code;
    }
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (code == 0) {
        code = pthread_cond_init(cond, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return code;
}

static struct ad_workers *create_workers(size_t n, struct ad_queue *queue,
                                         ad_serve *serve)
{
    struct ad_workers *workers = calloc(1, sizeof *workers);
    if (!workers) {
        return NULL;
    }
    workers->queue = queue;
    workers->serve = serve;
    workers->members = calloc(n, sizeof *workers->members);
    if (!workers->members) {
        goto out;
    }
    if (pthread_mutex_init(&workers->lock, NULL) != 0) {
        goto out;
    }
    if (init_monotonic_cond(&workers->ended) != 0) {
        pthread_mutex_destroy(&workers->lock);
        goto out;
    }
    return workers;
out:
    free(workers->members);
    free(workers);
    return NULL;
}

/* The next of n. The count is raised before the thread exists, and lowered again when it could not
 * start. */
static int start_one(struct ad_workers *workers, size_t n)
{
    struct member *member = &workers->members[workers->n];
    member->workers = workers;
    member->worker.team = (struct ad_team){workers->queue, workers->n, n};
    pthread_mutex_lock(&workers->lock);
    workers->n_running++;
    pthread_mutex_unlock(&workers->lock);
    int code = pthread_create(&member->thread, NULL, work, member);
    if (code != 0) {
        pthread_mutex_lock(&workers->lock);
        workers->n_running--;
        pthread_mutex_unlock(&workers->lock);
        return code;
    }
    (void)pthread_setname_np(member->thread, "worker");
    workers->n++;
    return 0;
}

enum ad_status ad_workers_start(size_t n, struct ad_queue *queue, ad_serve *serve,
                                struct ad_workers **workers, struct ad_error *error)
{
    assert(n > 0);
    *workers = create_workers(n, queue, serve);
    if (!*workers) {
        return ad_fail(error, AD_INTERNAL, "out of memory for %zu workers", n);
    }
    for (size_t i = 0; i < n; i++) {
        int code = start_one(*workers, n);
        if (code != 0) {
            ad_queue_close(queue);
            (void)ad_workers_join(*workers, INT64_MAX);
            ad_workers_free(*workers);
            *workers = NULL;
            return ad_fail(error, AD_INTERNAL, "cannot start worker %zu of %zu: %s",
                           i + 1, n, strerror(code));
        }
    }
    return AD_OK;
}

/* True when none runs any more; waits until then or until the deadline. */
static bool wait_ended(struct ad_workers *workers, int64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                .tv_nsec = (long)(deadline_ns % 1000000000)};
    int code = 0;
    pthread_mutex_lock(&workers->lock);
    while (workers->n_running > 0 && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&workers->ended, &workers->lock, &deadline);
    }
    bool ended = workers->n_running == 0;
    pthread_mutex_unlock(&workers->lock);
    return ended;
}

bool ad_workers_join(struct ad_workers *workers, int64_t deadline_ns)
{
    if (!wait_ended(workers, deadline_ns < 0 ? 0 : deadline_ns)) {
        return false;
    }
    if (!workers->joined) {
        for (size_t i = 0; i < workers->n; i++) {
            pthread_join(workers->members[i].thread, NULL);
        }
        workers->joined = true;
    }
    return true;
}

void ad_workers_free(struct ad_workers *workers)
{
    if (!workers) {
        return;
    }
    assert(workers->joined);
    pthread_cond_destroy(&workers->ended);
    pthread_mutex_destroy(&workers->lock);
    free(workers->members);
    free(workers);
}
