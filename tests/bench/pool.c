/* pool.c - worker threads that spin for a short while before they sleep, and take tasks one by one.
 *
 * The job in hand is described by three fields and a ticket: the high half of the ticket counts
 * jobs, the low half is the next task. A worker claims a task by moving the ticket on with a compare
 * and swap, so one that comes late, with a ticket of an earlier job, claims nothing. Between jobs
 * the ticket is closed: its low half is CLOSED, beyond every task, and only then the fields change. */
#include "bench/pool.h"

#include "bench/cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CLOSED UINT32_MAX
#define SPINS 20000

struct worker {
    struct pool *pool;
    size_t index;
    pthread_t thread;
};

struct pool {
    struct attn_parallel parallel; /* immutable */
    struct worker *workers;        /* immutable; [0] has no thread */
    _Atomic uint64_t ticket;
    _Atomic(attn_task *) task;
    _Atomic(void *) argument;
    _Atomic size_t n_tasks, n_done;
    _Atomic size_t n_asleep;
    _Atomic bool stop;
    pthread_mutex_t lock; /* for sleeping alone */
    pthread_cond_t wake;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Take tasks until none is left. */
static void work(struct pool *pool, size_t worker)
{
    for (;;) {
        uint64_t ticket = atomic_load(&pool->ticket);
        uint32_t next = (uint32_t)ticket;
        if (next == CLOSED || next >= atomic_load(&pool->n_tasks)) {
            return;
        }
        attn_task *task = atomic_load(&pool->task);
        void *argument = atomic_load(&pool->argument);
        if (atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) {
            task(argument, next, worker);
            atomic_fetch_add(&pool->n_done, 1);
        }
    }
}

static bool has_news(struct pool *pool, uint32_t seen)
{
    return (uint32_t)(atomic_load(&pool->ticket) >> 32) != seen ||
           atomic_load(&pool->stop);
}

static void wait_for_news(struct pool *pool, uint32_t seen)
{
    for (size_t i = 0; i < SPINS; i++) {
        if (has_news(pool, seen)) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (!has_news(pool, seen)) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *live(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    uint32_t seen = 0;
    while (!atomic_load(&pool->stop)) {
        wait_for_news(pool, seen);
        seen = (uint32_t)(atomic_load(&pool->ticket) >> 32);
        work(pool, worker->index);
    }
    return NULL;
}

/* Wake those that sleep. A worker counts itself asleep before it looks for news a last time, and
 * news are published before this looks at the count. */
static void wake_all(struct pool *pool)
{
    if (atomic_load(&pool->n_asleep) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void run(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    struct pool *pool = context;
    if (n_tasks >= CLOSED) {
        die("more tasks than the pool can count");
    }
    uint64_t job = atomic_load(&pool->ticket) >> 32;
    atomic_store(&pool->ticket, job << 32 | CLOSED);
    atomic_store(&pool->task, task);
    atomic_store(&pool->argument, argument);
    atomic_store(&pool->n_tasks, n_tasks);
    atomic_store(&pool->n_done, 0);
    atomic_store(&pool->ticket, (job + 1) << 32);
    wake_all(pool);
    work(pool, 0);
    while (atomic_load(&pool->n_done) < n_tasks) {
        relax();
    }
}

struct pool *pool_create(size_t n_workers)
{
    struct pool *pool = calloc(1, sizeof *pool);
    struct worker *workers = calloc(n_workers, sizeof *workers);
    if (!pool || !workers) {
        die("out of memory");
    }
    pool->parallel = (struct attn_parallel){n_workers, run, pool};
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    atomic_store(&pool->ticket, CLOSED);
    for (size_t i = 1; i < n_workers; i++) {
        workers[i] = (struct worker){.pool = pool, .index = i};
        if (pthread_create(&workers[i].thread, NULL, live, &workers[i])) {
            die("cannot start a thread");
        }
    }
    return pool;
}

void pool_free(struct pool *pool)
{
    if (!pool) {
        return;
    }
    atomic_store(&pool->stop, true);
    wake_all(pool);
    for (size_t i = 1; i < pool->parallel.n_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

const struct attn_parallel *pool_parallel(struct pool *pool)
{
    return &pool->parallel;
}
