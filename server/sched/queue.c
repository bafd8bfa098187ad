/* queue.c - where the workers wait: the bounded queue of requests, and the jobs that want help.
 *
 * Any thread may call any function; main creates and frees. Everything is under one lock, held for
 * a few list operations at a time; two flags tell without it whether there is work at all.
 *
 * Sleeping workers wait on one condition for requests and jobs alike, so any one that wakes looks for
 * both: a wake-up is never wasted on a worker that wants the other kind. Waking costs the waker more
 * than a small request takes, so a push wakes nobody while one that was called is still on its way;
 * that one calls another if it leaves more behind than it will be back for at once. The owner of a
 * job wakes one, and each that joins two more. */
#include "sched/queue.h"
#include "base/clock.h"
#include "base/cond.h"
#include "sched/queue_state.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How long a worker stays awake for the next job or request: about what one more sleep would cost.
 * Waking a thread on another processor took the waker 2 microseconds at best and 29 on a
 * virtual machine, and the thread was there after 60. A forward has a few stages with
 * next to nothing between them, so that its helpers are woken once; a client that sends one
 * request after the other finds the worker awake. */
#define LINGER_NS 100000

/* Work of which a worker is back before another could be there: multiply-adds, bytes of a body. */
#define BRIEF_COST 3e6
#define BRIEF_BODY ((size_t)16 << 10)

/* ---- life ---------------------------------------------------------------------------------- */

struct ad_queue *ad_queue_create(size_t capacity)
{
    struct ad_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        return NULL;
    }
    queue->capacity = capacity;
    queue->resting = true;
    atomic_init(&queue->length, 0);
    atomic_init(&queue->has_work, false);
    atomic_init(&queue->has_small, false);
    atomic_init(&queue->n_offered, 0);
    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        goto out;
    }
    if (ad_cond_init(&queue->work) != 0) {
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

void ad_queue_on_stir(struct ad_queue *queue, void (*on_stir)(void *context),
                      void *context)
{
    queue->on_stir = on_stir;
    queue->stir_context = context;
}

void ad_queue_free(struct ad_queue *queue)
{
    if (!queue) {
        return;
    }
    assert(!queue->lanes.first && !queue->jobs);
    pthread_cond_destroy(&queue->helpers_left);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* ---- what can be seen without the lock ----------------------------------------------------- */

size_t ad_queue_length(struct ad_queue *queue)
{
    return atomic_load_explicit(&queue->length, memory_order_relaxed);
}

bool ad_queue_has_work(struct ad_queue *queue)
{
    return atomic_load_explicit(&queue->has_work, memory_order_relaxed);
}

bool ad_queue_has_small(struct ad_queue *queue)
{
    return atomic_load_explicit(&queue->has_small, memory_order_relaxed);
}

void ad_queue_move(struct ad_queue *queue, const struct ad_lane *lane, long waiting,
                   long running)
{
    atomic_store_explicit(&queue->length, ad_queue_length(queue) + (size_t)waiting,
                          memory_order_relaxed);
    ad_stats_move(lane->stats, waiting, running);
}

void ad_queue_take_out(struct ad_queue *queue, struct ad_lane *lane,
                       struct ad_requests *list, struct ad_request *request,
                       struct ad_requests *out)
{
    ad_requests_remove(list, request);
    ad_requests_append(out, request);
    ad_queue_move(queue, lane, -1, 0);
}

/* ---- coming in ----------------------------------------------------------------------------- */

/* A request waits from now on in one of the lane's lists. */
static void enter_locked(struct ad_queue *queue, struct ad_requests *list,
                         struct ad_request *request, bool ready)
{
    ad_requests_insert(list, request);
    ad_queue_set_flag(&queue->has_work, true);
    if (ad_lane_is_small(request, ready)) {
        ad_queue_set_flag(&queue->has_small, true);
    }
}

static enum ad_status refuse_full(const struct ad_request *request, size_t limit,
                                  struct ad_error *error)
{
    return ad_fail_code(error, AD_UNAVAILABLE, "queue_full",
                        "Exceeds maximum queue size: %zu requests are waiting for model "
                        "'%.128s', which is the limit (--queue-size, or max_queue_size "
                        "of the model); try again",
                        limit, request->version->model);
}

static enum ad_status append_locked(struct ad_queue *queue, struct ad_request *request,
                                    struct ad_error *error)
{
    if (queue->closed) {
        return ad_fail_code(error, AD_UNAVAILABLE, "stopping",
                            "the server is stopping and takes no new inference requests");
    }
    struct ad_lane *lane = ad_lanes_get(&queue->lanes, request->version);
    if (!lane) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    size_t limit = request->version->settings.max_queue_size;
    limit = limit ? limit : queue->capacity;
    if (lane->raw.n + lane->ready.n >= limit) {
        ad_lanes_tidy(&queue->lanes, lane);
        return refuse_full(request, limit, error);
    }
    request->number = ++queue->n_pushed;
    enter_locked(queue, &lane->raw, request, false);
    ad_queue_move(queue, lane, 1, 0);
    return AD_OK;
}

/* Whether a sleeper is to be woken for a request. */
static bool call_locked(struct ad_queue *queue)
{
    if (queue->lingers || queue->n_called > 0 || queue->n_idle == 0) {
        return false;
    }
    queue->n_called++;
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
    pushed->times.queued_ns = ad_clock_now_ns();
    ad_lane_admit(pushed, pushed->times.queued_ns);
    pthread_mutex_lock(&queue->lock);
    enum ad_status status = append_locked(queue, pushed, error);
    bool call = status == AD_OK && call_locked(queue);
    bool stir = status == AD_OK && queue->resting && queue->on_stir;
    queue->resting = queue->resting && status != AD_OK;
    pthread_mutex_unlock(&queue->lock);
    if (call) {
        pthread_cond_signal(&queue->work);
    }
    if (stir) {
        queue->on_stir(queue->stir_context);
    }
    if (status) {
        *request = pushed;
    }
    return status;
}

void ad_queue_close(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->lock);
}

/* ---- going out ----------------------------------------------------------------------------- */

void ad_queue_take_all(struct ad_queue *queue, struct ad_requests *all)
{
    pthread_mutex_lock(&queue->lock);
    struct ad_lane *next = NULL;
    for (struct ad_lane *lane = queue->lanes.first; lane; lane = next) {
        next = lane->next;
        while (lane->raw.first) {
            ad_queue_take_out(queue, lane, &lane->raw, lane->raw.first, all);
        }
        while (lane->ready.first) {
            ad_queue_take_out(queue, lane, &lane->ready, lane->ready.first, all);
        }
        ad_lanes_tidy(&queue->lanes, lane);
    }
    pthread_mutex_unlock(&queue->lock);
}

/* ---- taking -------------------------------------------------------------------------------- */

/* What the worker brings back: a request that is decoded waits again, others are done. */
static void settle_locked(struct ad_queue *queue, struct ad_work *work)
{
    struct ad_lane *lane = work->lane;
    if (lane) {
        lane->spent_ns += work->spent_ns;
        lane->n_taken -= work->n_taken;
        if (work->decoded) {
            enter_locked(queue, &lane->ready, work->decoded, true);
        }
        ad_queue_move(queue, lane, work->decoded ? 1 : 0, -(long)work->n_taken);
        ad_lanes_tidy(&queue->lanes, lane);
    }
    *work = (struct ad_work){.kind = AD_WORK_END};
}

/* Move those that came too late to be started. */
static void sort_out_expired(struct ad_work *work, int64_t now_ns)
{
    struct ad_request *next = NULL;
    for (struct ad_request *request = work->requests.first; request; request = next) {
        next = request->next;
        if (request->deadline_ns != 0 && request->deadline_ns <= now_ns) {
            ad_requests_remove(&work->requests, request);
            ad_requests_append(&work->expired, request);
        }
    }
    if (work->requests.n == 0) {
        work->kind = AD_WORK_REFUSE;
    }
}

/* The next thing to do for a request, if there is any before *until_ns. */
static bool take_locked(struct ad_queue *queue, bool small_only, struct ad_work *work,
                        int64_t *until_ns)
{
    if (ad_queue_length(queue) == 0) {
        ad_queue_set_flag(&queue->has_work, false);
        ad_queue_set_flag(&queue->has_small, false);
        *until_ns = INT64_MAX;
        return false;
    }
    enum ad_step step = AD_STEP_NONE;
    int64_t now_ns = ad_clock_now_ns();
    /* at a stop no batch waits for more */
    struct ad_lane *lane = ad_lanes_choose(
        &queue->lanes, queue->closed ? INT64_MAX : now_ns, small_only, &step, until_ns);
    if (!lane) {
        ad_queue_set_flag(small_only ? &queue->has_small : &queue->has_work, false);
        return false;
    }
    if (step == AD_STEP_DECODE) {
        work->kind = AD_WORK_DECODE;
        ad_requests_append(&work->requests, ad_lane_take_raw(lane, small_only));
    } else {
        work->kind = AD_WORK_RUN;
        ad_lane_take_batch(lane, small_only, &work->requests);
    }
    work->lane = lane;
    work->n_taken = work->requests.n;
    ad_queue_move(queue, lane, -(long)work->n_taken, (long)work->n_taken);
    sort_out_expired(work, now_ns);
    return true;
}

/* Is what the worker takes, with others waiting behind it, so much that a sleeper should come? */
static bool is_long(const struct ad_work *work)
{
    double cost = 0;
    for (const struct ad_request *r = work->requests.first; r; r = r->next) {
        cost += work->kind == AD_WORK_RUN ? r->cost : 0;
        if (work->kind == AD_WORK_DECODE &&
            (r->body.size > BRIEF_BODY || r->coding != AD_CODING_IDENTITY || r->move)) {
            return true;
        }
    }
    return cost > BRIEF_COST;
}

/* Stay awake until there may be work, for a moment; gives way to any other thread. */
static void linger(struct ad_queue *queue, size_t n_offered)
{
    int64_t until_ns = ad_clock_now_ns() + LINGER_NS;
    while (!ad_queue_has_work(queue) &&
           atomic_load_explicit(&queue->n_offered, memory_order_relaxed) == n_offered &&
           ad_clock_now_ns() < until_ns) {
        sched_yield();
    }
}

static void sleep_locked(struct ad_queue *queue, int64_t until_ns)
{
    queue->n_idle++;
    if (until_ns == INT64_MAX) {
        pthread_cond_wait(&queue->work, &queue->lock);
    } else {
        (void)ad_cond_wait_until(&queue->work, &queue->lock, until_ns);
    }
    queue->n_idle--;
    queue->n_called -= queue->n_called > 0;
}

/* Until there may be work: awake for a moment if so told, else asleep. True when jobs were
 * offered in its sleep, so that it was probably woken for one. */
static bool wait_locked(struct ad_queue *queue, bool lingers, int64_t until_ns)
{
    size_t n_offered = atomic_load_explicit(&queue->n_offered, memory_order_relaxed);
    if (lingers) {
        bool first = !queue->lingers;
        queue->lingers = true;
        pthread_mutex_unlock(&queue->lock);
        linger(queue, n_offered);
        pthread_mutex_lock(&queue->lock);
        queue->lingers = queue->lingers && !first;
        return false;
    }
    sleep_locked(queue, until_ns);
    return atomic_load_explicit(&queue->n_offered, memory_order_relaxed) != n_offered;
}

void ad_queue_take(struct ad_queue *queue, bool helper, struct ad_work *work)
{
    bool helped = helper && work->kind == AD_WORK_HELP;
    bool served = helper && work->kind == AD_WORK_RUN;
    int64_t until_ns = INT64_MAX;
    size_t n_wake = 0;
    pthread_mutex_lock(&queue->lock);
    settle_locked(queue, work);
    while (!take_locked(queue, false, work, &until_ns)) {
        if (helper && (work->job = ad_queue_join(queue)) != NULL) {
            work->kind = AD_WORK_HELP;
            n_wake = ad_queue_ask(queue, work->job, 2);
            break;
        }
        if (queue->closed && ad_queue_length(queue) == 0) {
            break;
        }
        /* of those that served, one stays awake for the next request; a helper that came too late for
         * its stage is in time for the next */
        bool lingers = helped || (served && !queue->lingers);
        helped = wait_locked(queue, lingers, until_ns) && helper;
        served = false;
    }
    if (work->requests.n > 0 && ad_queue_has_work(queue) && ad_queue_length(queue) > 0 &&
        is_long(work) && call_locked(queue)) {
        n_wake++;
    }
    pthread_mutex_unlock(&queue->lock);
    ad_queue_wake(queue, n_wake);
}

void ad_queue_take_small(struct ad_queue *queue, struct ad_work *work)
{
    int64_t until_ns = INT64_MAX;
    pthread_mutex_lock(&queue->lock);
    settle_locked(queue, work);
    (void)take_locked(queue, true, work, &until_ns);
    pthread_mutex_unlock(&queue->lock);
}
