/* Does each task run exactly once, on as many workers as are idle, and does its owner never
 * depend on them? */
#include "sched/team.h"
#include "sched/workers.h"

#include "base/clock.h"
#include "unit/support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define MAX_WORKERS 8
#define MAX_TASKS 100

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 100000};
    nanosleep(&pause, NULL);
}

/* True once *value >= least; false after 20 s. */
static bool reaches(const atomic_int *value, int least)
{
    int64_t until_ns = ad_clock_now_ns() + 20 * NS_PER_S;
    while (atomic_load(value) < least) {
        if (ad_clock_now_ns() > until_ns) {
            return false;
        }
        nap();
    }
    return true;
}

/* One run of tasks and what it saw. */
struct stage {
    size_t n_tasks;
    int n_runs
        [MAX_TASKS]; /* by task; no atomics: its owner must see what helpers wrote */
    atomic_int n_faults;
    atomic_int busy[MAX_WORKERS];
    atomic_int n_begun;
    int n_meet; /* so many tasks must be under way at once before any ends */
};

static void stage_task(void *argument, size_t task, size_t worker)
{
    struct stage *stage = argument;
    if (task >= stage->n_tasks || worker >= MAX_WORKERS ||
        atomic_exchange(&stage->busy[worker], 1)) {
        atomic_fetch_add(&stage->n_faults, 1);
        return;
    }
    stage->n_runs[task]++;
    atomic_fetch_add(&stage->n_begun, 1);
    if (!reaches(&stage->n_begun, stage->n_meet)) {
        atomic_fetch_add(&stage->n_faults, 1);
    }
    atomic_store(&stage->busy[worker], 0);
}

/* Run the stage; the number of its faults. */
static int run_stage(struct ad_team *team, struct stage *stage)
{
    struct attn_parallel parallel = ad_team_parallel(team);
    parallel.run(parallel.context, stage->n_tasks, stage_task, stage);
    int n_faults = atomic_load(&stage->n_faults);
    for (size_t i = 0; i < MAX_TASKS; i++) {
        n_faults += stage->n_runs[i] != (i < stage->n_tasks);
    }
    return n_faults;
}

/* ---- requests that run stages ------------------------------------------------------------ */

struct tally {
    atomic_int n_faults, n_served, n_done, n_begun;
    atomic_int may_end; /* what blocks waits for it */
    size_t n_tasks;
    int n_meet;
};

static void on_done(struct ad_request *request)
{
    struct tally *tally = request->context;
    atomic_fetch_add(&tally->n_done, 1);
    ad_request_free(request);
}

static void push(struct ad_queue *queue, struct tally *tally, int64_t number)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    request->context = tally;
    request->on_done = on_done;
    request->received_ns = number;
    ck_assert_int_eq(ad_queue_push(queue, &request, NULL), AD_OK);
}

struct setup {
    struct ad_queue *queue;
    struct ad_workers *workers;
};

static struct setup start(size_t n_workers, ad_serve *serve)
{
    struct setup setup = {.queue = ad_queue_create(1000)};
    ck_assert_int_eq(
        ad_workers_start(n_workers, setup.queue, serve, &setup.workers, NULL), AD_OK);
    return setup;
}

static void stop(struct setup *setup)
{
    ad_queue_close(setup->queue);
    ck_assert(ad_workers_join(setup->workers, ad_clock_now_ns() + 60 * NS_PER_S));
    ad_workers_free(setup->workers);
    ad_queue_free(setup->queue);
}

/* ---- tests ------------------------------------------------------------------------------- */

START_TEST(alone_runs_each_task_once)
{
    struct ad_team team = {NULL, 0, 1};
    for (size_t n = 0; n <= MAX_TASKS; n++) {
        struct stage stage = {.n_tasks = n};
        ck_assert_int_eq(run_stage(&team, &stage), 0);
    }
    ck_assert_uint_eq(ad_team_parallel(&team).n_workers, 1);
}
END_TEST

/* No worker is there to help, and none is needed. */
START_TEST(nobody_comes)
{
    struct ad_queue *queue = ad_queue_create(1);
    struct ad_team team = {queue, 2, 3};
    for (size_t n = 0; n <= MAX_TASKS; n++) {
        struct stage stage = {.n_tasks = n};
        ck_assert_int_eq(run_stage(&team, &stage), 0);
    }
    ad_queue_free(queue);
}
END_TEST

static void serve_meeting(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    struct stage stage = {.n_tasks = tally->n_tasks, .n_meet = tally->n_meet};
    atomic_fetch_add(&tally->n_faults, run_stage(&worker->team, &stage));
}

/* As many tasks as workers, none of which ends before all have begun: only when every worker
 * takes one, at once and with an index of its own, does this end. */
START_TEST(every_idle_worker_helps)
{
    for (size_t n = 1; n <= MAX_WORKERS; n++) {
        struct setup setup = start(n, serve_meeting);
        for (int i = 0; i < 5; i++) {
            struct tally tally = {.n_tasks = n, .n_meet = (int)n};
            push(setup.queue, &tally, 0);
            ck_assert(reaches(&tally.n_done, 1));
            ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
        }
        stop(&setup);
    }
}
END_TEST

/* Request 0 blocks until request 1 is done. */
static void serve_beside_busy(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    if (request->received_ns == 0) {
        atomic_fetch_add(&tally->n_begun, 1);
        atomic_fetch_add(&tally->n_faults, !reaches(&tally->n_done, 1));
        return;
    }
    struct stage stage = {.n_tasks = MAX_TASKS};
    atomic_fetch_add(&tally->n_faults, run_stage(&worker->team, &stage));
}

START_TEST(busy_workers_are_not_needed)
{
    struct tally tally = {.n_tasks = 0};
    struct setup setup = start(2, serve_beside_busy);
    push(setup.queue, &tally, 0);
    ck_assert(reaches(&tally.n_begun, 1));
    push(setup.queue, &tally, 1);
    ck_assert(reaches(&tally.n_done, 2));
    ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
    stop(&setup);
}
END_TEST

/* A task of a large request: it takes long until may_end. */
static void slow_task(void *argument, size_t task, size_t worker)
{
    struct tally *tally = argument;
    (void)task;
    (void)worker;
    atomic_fetch_add(&tally->n_begun, 1);
    if (!atomic_load(&tally->may_end)) {
        nap();
    }
}

static void serve_large_or_small(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    if (request->received_ns == 1) {
        atomic_store(&tally->may_end, 1);
        return;
    }
    struct attn_parallel parallel = ad_team_parallel(&worker->team);
    parallel.run(parallel.context, tally->n_tasks, slow_task, tally);
    /* by then the small one was served, by the helper */
    atomic_fetch_add(&tally->n_faults, !atomic_load(&tally->may_end));
}

/* One worker owns a job of minutes and the other helps with it: a request that comes then is
 * served between two of its tasks. */
START_TEST(requests_come_before_jobs)
{
    struct setup setup = start(2, serve_large_or_small);
    struct tally tally = {.n_tasks = 2000000};
    push(setup.queue, &tally, 0);
    ck_assert(reaches(&tally.n_begun, 10));
    push(setup.queue, &tally, 1);
    ck_assert(reaches(&tally.n_done, 2));
    ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
    ck_assert_int_eq(atomic_load(&tally.n_begun), 2000000);
    stop(&setup);
}
END_TEST

static void blocked_task(void *argument, size_t task, size_t worker)
{
    struct tally *tally = argument;
    (void)task;
    (void)worker;
    atomic_fetch_add(&tally->n_begun, 1);
    atomic_fetch_add(&tally->n_faults, !reaches(&tally->may_end, 1));
}

static void serve_blocked(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    struct attn_parallel parallel = ad_team_parallel(&worker->team);
    parallel.run(parallel.context, tally->n_tasks, blocked_task, tally);
}

/* All three are inside the tasks when the queue closes: the stop waits for them. */
START_TEST(stop_while_helping)
{
    struct tally tally = {.n_tasks = 50};
    struct setup setup = start(3, serve_blocked);
    push(setup.queue, &tally, 0);
    ck_assert(reaches(&tally.n_begun, 3));
    ad_queue_close(setup.queue);
    ck_assert(!ad_workers_join(setup.workers, ad_clock_now_ns() + NS_PER_S / 50));
    ck_assert_ptr_null(ad_queue_take_all(setup.queue));
    ck_assert(!ad_workers_join(setup.workers, 0));
    atomic_store(&tally.may_end, 1);
    stop(&setup);
    ck_assert_int_eq(atomic_load(&tally.n_done), 1);
    ck_assert_int_eq(atomic_load(&tally.n_begun), 50);
    ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
}
END_TEST

#define N_REQUESTS 3000

/* Stages of all sizes, one after the other as in a forward, with the numbers checked. */
static void serve_stages(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    uint64_t state = (uint64_t)request->received_ns;
    for (int i = 0; i < 4; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct stage stage = {.n_tasks = (size_t)(state >> 33) % (MAX_TASKS + 1)};
        stage.n_tasks = state >> 63 ? stage.n_tasks : stage.n_tasks % 4;
        atomic_fetch_add(&tally->n_faults, run_stage(&worker->team, &stage));
    }
    atomic_fetch_add(&tally->n_served, 1);
}

/* Bursts, so that workers are now owners, now helpers, now asleep. */
START_TEST(many_owners_at_once)
{
    struct tally tally = {.n_tasks = 0};
    struct setup setup = start(5, serve_stages);
    for (int i = 0; i < N_REQUESTS; i++) {
        push(setup.queue, &tally, i);
        if (i % 7 == 0 || i % 500 > 490) {
            ck_assert(reaches(&tally.n_done, i - 2));
        }
        while (ad_queue_length(setup.queue) > 900) {
            sched_yield();
        }
    }
    stop(&setup);
    ck_assert_int_eq(atomic_load(&tally.n_served), N_REQUESTS);
    ck_assert_int_eq(atomic_load(&tally.n_done), N_REQUESTS);
    ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tcase = tcase_create("team");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, alone_runs_each_task_once);
    tcase_add_test(tcase, nobody_comes);
    tcase_add_test(tcase, every_idle_worker_helps);
    tcase_add_test(tcase, busy_workers_are_not_needed);
    tcase_add_test(tcase, requests_come_before_jobs);
    tcase_add_test(tcase, stop_while_helping);
    tcase_add_test(tcase, many_owners_at_once);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
