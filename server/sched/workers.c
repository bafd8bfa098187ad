/* workers.c - the threads that compute.
 *
 * Owner: main, which starts, joins and frees them. Each thread runs work(); the only
 * state they share is the queue, with the jobs in it, and the count of those still
 * running. */
#include "sched/workers.h"
#include "base/clock.h"
#include "base/cond.h"
#include "sched/sequences.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US 1000

/* One thread. */
struct member {
    struct ad_workers *workers; /* immutable */
    struct ad_worker worker;    /* owner: the thread, as is the next */
    struct ad_worker between;   /* what small requests use in the middle of a large one */
    pthread_t thread;           /* owner: main */
};

struct ad_workers {
    struct ad_queue
        *queue; /* immutable, as are stages, members and n once all have started */
    struct ad_stages stages;
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

/* ---- work ---------------------------------------------------------------------------------- */

void ad_workers_refuse(struct ad_requests *expired)
{
    struct ad_request *request = NULL;
    while ((request = ad_requests_shift(expired)) != NULL) {
        int64_t now_ns = ad_clock_now_ns();
        ad_fail_code(
            &request->error, AD_UNAVAILABLE, "timeout",
            "Request timeout expired: it waited for %lld microseconds",
            (long long)(ad_times_between(request->times.queued_ns, now_ns) / NS_PER_US));
        ad_sequences_give(request, now_ns);
        request->on_done(request);
    }
}

static const struct attn_parallel *helpers_of(const struct ad_worker *worker)
{
    return worker->team.queue ? &worker->helpers : NULL;
}

/* Decode one; it is answered at once when that fails, or was all. */
static void decode(const struct ad_stages *stages, struct ad_work *work,
                   const struct ad_worker *worker)
{
    struct ad_request *request = ad_requests_shift(&work->requests);
    request->times.decoding_ns = ad_clock_now_ns();
    request->helpers = helpers_of(worker);
    enum ad_status status = stages->decode(stages->context, request);
    request->helpers = NULL;
    request->times.decoded_ns = ad_clock_now_ns();
    work->spent_ns = request->times.decoded_ns - request->times.decoding_ns;
    if (status || request->move) {
        request->on_done(request);
        return;
    }
    /* what it asks for may have been out of sight before */
    ad_lane_admit(request, request->times.queued_ns);
    work->decoded = request;
}

static void run(const struct ad_stages *stages, struct ad_work *work,
                struct ad_worker *worker)
{
    int64_t started_ns = ad_clock_now_ns();
    struct ad_request *request = NULL;
    for (request = work->requests.first; request; request = request->next) {
        request->times.computing_ns = started_ns;
        request->n_batch = work->requests.n;
        request->helpers = helpers_of(worker);
    }
    stages->run(stages->context, &work->requests, worker);
    while ((request = ad_requests_shift(&work->requests)) != NULL) {
        request->on_done(request);
    }
    work->spent_ns = ad_clock_now_ns() - started_ns;
    ad_scratch_trim(&worker->scratch);
}

static void serve(struct member *member, struct ad_work *work, struct ad_worker *worker)
{
    ad_workers_refuse(&work->expired);
    switch (work->kind) {
    case AD_WORK_DECODE:
        decode(&member->workers->stages, work, worker);
        return;
    case AD_WORK_RUN:
        run(&member->workers->stages, work, worker);
        return;
    case AD_WORK_HELP:
        ad_team_help(&member->worker.team, work->job);
        return;
    case AD_WORK_REFUSE:
    case AD_WORK_END:
        return;
    }
}

/* Between two tasks of a large request: with other memory, and without help. */
static void serve_small(void *context)
{
    struct member *member = context;
    struct ad_queue *queue = member->workers->queue;
    struct ad_work work = {.kind = AD_WORK_END};
    for (ad_queue_take_small(queue, &work); work.kind != AD_WORK_END;
         ad_queue_take_small(queue, &work)) {
        serve(member, &work, &member->between);
    }
}

static void reset_worker(struct ad_worker *worker)
{
    ad_scratch_reset(&worker->scratch);
    ad_scratch_reset(&worker->records);
}

static void *work(void *argument)
{
    struct member *member = argument;
    struct ad_workers *workers = member->workers;
    struct ad_work work = {.kind = AD_WORK_END};
    (void)pthread_setname_np(pthread_self(), "worker");
    for (ad_queue_take(workers->queue, true, &work); work.kind != AD_WORK_END;
         ad_queue_take(workers->queue, true, &work)) {
        serve(member, &work, &member->worker);
    }
    reset_worker(&member->worker);
    reset_worker(&member->between);
    pthread_mutex_lock(&workers->lock);
    workers->n_running--;
    if (workers->n_running == 0) {
        pthread_cond_broadcast(&workers->ended);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------ */

static struct ad_workers *create_workers(size_t n, struct ad_queue *queue,
                                         const struct ad_stages *stages)
{
    struct ad_workers *workers = calloc(1, sizeof *workers);
    if (!workers) {
        return NULL;
    }
    workers->queue = queue;
    workers->stages = *stages;
    workers->members = calloc(n, sizeof *workers->members);
    if (!workers->members) {
        goto out;
    }
    if (pthread_mutex_init(&workers->lock, NULL) != 0) {
        goto out;
    }
    if (ad_cond_init(&workers->ended) != 0) {
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
    member->worker.team =
        (struct ad_team){workers->queue, workers->n, n, serve_small, member};
    member->worker.helpers = ad_team_parallel(&member->worker.team);
    member->between.team = (struct ad_team){.n_workers = 1};
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
    workers->n++;
    return 0;
}

enum ad_status ad_workers_start(size_t n, struct ad_queue *queue,
                                const struct ad_stages *stages,
                                struct ad_workers **workers, struct ad_error *error)
{
    assert(n > 0);
    *workers = create_workers(n, queue, stages);
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
    bool in_time = true;
    pthread_mutex_lock(&workers->lock);
    while (workers->n_running > 0 && in_time) {
        in_time = ad_cond_wait_until(&workers->ended, &workers->lock, deadline_ns);
    }
    bool ended = workers->n_running == 0;
    pthread_mutex_unlock(&workers->lock);
    return ended;
}

bool ad_workers_join(struct ad_workers *workers, int64_t deadline_ns)
{
    if (!wait_ended(workers, deadline_ns)) {
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
