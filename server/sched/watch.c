/* watch.c - the thread that looks after what waits.
 *
 * Owner: main, which starts and stops it. It shares the queue and the sequences, each under its own
 * lock, and with the queue's pushes the word that it is to wake up. */
#include "sched/watch.h"
#include "base/clock.h"
#include "base/cond.h"
#include "sched/workers.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* Requests that have waited for less are not worth a look at their socket. */
#define PATIENCE_NS (2 * AD_WATCH_TICK_NS)

/* Sockets looked at in one tick, at most. */
#define MOST_WAITERS 1024

/* Without requests for so long, the watch sleeps until there are some. */
#define QUIET_NS NS_PER_S

struct ad_watch {
    struct ad_queue *queue; /* immutable, as is the next */
    struct ad_sequences *sequences;
    pthread_t thread; /* owner: main */
    pthread_mutex_t lock;
    pthread_cond_t stirred_cond;
    bool stirred; /* guarded by lock, as is the next */
    bool stopping;

    /* Owner: the thread. */
    struct ad_waiter waiters[MOST_WAITERS];
    struct pollfd polled[MOST_WAITERS];
    size_t from;      /* where the next look at sockets begins */
    int64_t busy_ns;  /* when requests were waiting last */
    int64_t swept_ns; /* when idle sequences were looked for last */
};

/* ---- what it looks after ------------------------------------------------------------------- */

static void cancel(struct ad_requests *gone)
{
    struct ad_request *request = NULL;
    while ((request = ad_requests_shift(gone)) != NULL) {
        ad_fail_code(&request->error, AD_CANCELED, "canceled",
                     "the client closed the connection before the request's turn came");
        ad_sequences_give(request, ad_clock_now_ns());
        request->on_done(request);
    }
}

/* Those of the waiters whose client has closed its side, moved to the front; their number. */
static size_t find_gone(struct ad_watch *watch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        watch->polled[i] = (struct pollfd){watch->waiters[i].fd, POLLRDHUP, 0};
    }
    if (poll(watch->polled, (nfds_t)n, 0) <= 0) {
        return 0;
    }
    size_t n_gone = 0;
    for (size_t i = 0; i < n; i++) {
        if (watch->polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
            watch->waiters[n_gone++] = watch->waiters[i];
        }
    }
    return n_gone;
}

static void drop_gone(struct ad_watch *watch, int64_t now_ns)
{
    struct ad_requests gone = {NULL, NULL, 0};
    size_t n = ad_queue_waiters(watch->queue, now_ns - PATIENCE_NS, &watch->from,
                                watch->waiters, MOST_WAITERS);
    n = n > 0 ? find_gone(watch, n) : 0;
    if (n > 0) {
        ad_queue_remove(watch->queue, watch->waiters, n, &gone);
        cancel(&gone);
    }
}

/* One round; the earliest deadline that is left. */
static int64_t look(struct ad_watch *watch, int64_t now_ns)
{
    struct ad_requests expired = {NULL, NULL, 0};
    int64_t deadline_ns = ad_queue_expire(watch->queue, now_ns, &expired);
    ad_workers_refuse(&expired);
    if (ad_queue_length(watch->queue) > 0) {
        drop_gone(watch, now_ns);
        watch->busy_ns = now_ns;
    }
    if (now_ns - watch->swept_ns >= NS_PER_S) {
        ad_sequences_sweep(watch->sequences, now_ns);
        watch->swept_ns = now_ns;
    }
    return deadline_ns;
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* When to look again: INT64_MAX is when it is stirred. */
static int64_t next_look(struct ad_watch *watch, int64_t now_ns, int64_t deadline_ns)
{
    if (now_ns - watch->busy_ns < QUIET_NS || !ad_queue_rest(watch->queue)) {
        int64_t tick_ns = now_ns + AD_WATCH_TICK_NS;
        return deadline_ns < tick_ns ? deadline_ns : tick_ns;
    }
    return ad_sequences_count(watch->sequences).n > 0 ? now_ns + NS_PER_S : INT64_MAX;
}

static bool wait_locked(struct ad_watch *watch, int64_t until_ns)
{
    bool in_time = true;
    while (!watch->stirred && !watch->stopping && in_time) {
        if (until_ns == INT64_MAX) {
            pthread_cond_wait(&watch->stirred_cond, &watch->lock);
        } else {
            in_time = ad_cond_wait_until(&watch->stirred_cond, &watch->lock, until_ns);
        }
    }
    if (watch->stirred) {
        /* even if that request is gone by now: it is a busy time */
        watch->stirred = false;
        watch->busy_ns = ad_clock_now_ns();
    }
    return !watch->stopping;
}

static void *work(void *argument)
{
    struct ad_watch *watch = argument;
    bool goes_on = true;
    (void)pthread_setname_np(pthread_self(), "watch");
    while (goes_on) {
        int64_t now_ns = ad_clock_now_ns();
        int64_t until_ns = next_look(watch, now_ns, look(watch, now_ns));
        pthread_mutex_lock(&watch->lock);
        goes_on = wait_locked(watch, until_ns);
        pthread_mutex_unlock(&watch->lock);
    }
    return NULL;
}

/* A request came after a quiet time. */
static void stir(void *context)
{
    struct ad_watch *watch = context;
    pthread_mutex_lock(&watch->lock);
    watch->stirred = true;
    pthread_cond_signal(&watch->stirred_cond);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- start and stop ------------------------------------------------------------------------ */

static struct ad_watch *create_watch(struct ad_queue *queue,
                                     struct ad_sequences *sequences)
{
    struct ad_watch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        return NULL;
    }
    watch->queue = queue;
    watch->sequences = sequences;
    if (pthread_mutex_init(&watch->lock, NULL) != 0) {
        free(watch);
        return NULL;
    }
    if (ad_cond_init(&watch->stirred_cond) != 0) {
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return NULL;
    }
    return watch;
}

static void free_watch(struct ad_watch *watch)
{
    pthread_cond_destroy(&watch->stirred_cond);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

enum ad_status ad_watch_start(struct ad_queue *queue, struct ad_sequences *sequences,
                              struct ad_watch **watch, struct ad_error *error)
{
    *watch = create_watch(queue, sequences);
    if (!*watch) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    ad_queue_on_stir(queue, stir, *watch);
    int code = pthread_create(&(*watch)->thread, NULL, work, *watch);
    if (code != 0) {
        ad_queue_on_stir(queue, NULL, NULL);
        free_watch(*watch);
        *watch = NULL;
        return ad_fail(error, AD_INTERNAL, "cannot start the watch: %s", strerror(code));
    }
    return AD_OK;
}

void ad_watch_stop(struct ad_watch *watch)
{
    if (!watch) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_signal(&watch->stirred_cond);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}
