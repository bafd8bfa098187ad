/* Does each task run exactly once, on as many workers as are idle, and does its owner never
 * depend on them? */
#include "sched/team.h"
#include "sched/workers.h"

#include "unit/sched/fixture.h"

#include <sched.h>
#include <stdint.h>

#define MAX_WORKERS 8
#define MAX_TASKS 100

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
    if (!fixture_reaches(&stage->n_begun, stage->n_meet)) {
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
    ad_request_free(request);
    atomic_fetch_add(&tally->n_done, 1);
}

typedef void serve_request(struct ad_request *request, struct ad_worker *worker);

struct setup {
    struct ad_queue *queue;
    struct ad_workers *workers;
    struct ad_version *version;
    serve_request *serve;
};

/* What decoding finds out; the priority, which has no other use here, says whether it is much. */
static enum ad_status decode(void *context, struct ad_request *request)
{
    (void)context;
    request->cost = request->priority ? 1e12 : 1;
    return AD_OK;
}

static void run(void *context, const struct ad_requests *batch, struct ad_worker *worker)
{
    const struct setup *setup = context;
    for (struct ad_request *request = batch->first; request; request = request->next) {
        setup->serve(request, worker);
    }
}

static void push(const struct setup *setup, struct tally *tally, uint64_t number,
                 bool large)
{
    struct ad_request *request = fixture_request(setup->version);
    request->context = tally;
    request->on_done = on_done;
    request->mode.seed = number;
    request->priority = large;
    fixture_push(setup->queue, request);
}

static void start(struct setup *setup, size_t n_workers, serve_request *serve)
{
    *setup = (struct setup){
        .queue = ad_queue_create(1000), .version = fixture_version("a"), .serve = serve};
    setup->version->settings.max_batch_requests = 1;
    const struct ad_stages stages = {setup, decode, run};
    ck_assert_int_eq(
        ad_workers_start(n_workers, setup->queue, &stages, &setup->workers, NULL), AD_OK);
}

static void stop(struct setup *setup)
{
    ad_queue_close(setup->queue);
    ck_assert(ad_workers_join(setup->workers, ad_clock_now_ns() + 60 * NS_PER_S));
    ad_workers_free(setup->workers);
    ad_queue_free(setup->queue);
    ad_version_release(setup->version);
}

/* ---- jobs, step by step -------------------------------------------------------------------- */

static void count_task(void *argument, size_t task, size_t worker)
{
    int *n_runs = argument;
    n_runs[task] += 1 + (int)worker;
}

START_TEST(a_job_is_joined_when_no_request_waits)
{
    int n_runs[2] = {0, 0};
    struct ad_job job;
    struct ad_queue *queue = ad_queue_create(1);
    struct ad_version *version = fixture_version("a");
    struct ad_work work = {.kind = AD_WORK_END};
    struct ad_request *request = fixture_push(queue, fixture_request(version));
    ad_job_init(&job, 2, count_task, n_runs);
    ad_queue_offer(queue, &job);
    ad_queue_take(queue, true, &work);
    ck_assert_int_eq(work.kind, AD_WORK_DECODE);
    ck_assert_ptr_eq(ad_requests_shift(&work.requests), request);
    ad_request_free(request);
    ad_queue_close(queue); /* makes no difference to a job */
    ad_queue_take(queue, false, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END); /* for who does not help */
    ad_queue_take(queue, true, &work);
    ck_assert_int_eq(work.kind, AD_WORK_HELP);
    ck_assert_ptr_eq(work.job, &job);
    ck_assert(ad_job_step(work.job, 0));
    ck_assert(ad_job_is_open(work.job));
    ck_assert(ad_job_step(&job, 1));
    ck_assert(!ad_job_is_open(work.job));
    ck_assert(!ad_job_step(work.job, 0));
    ad_queue_leave(queue, work.job);
    ad_queue_take(queue, true, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END); /* no task is left to help with */
    ad_queue_retract(queue, &job);
    ck_assert_int_eq(n_runs[0], 1);
    ck_assert_int_eq(n_runs[1], 2);
    ad_queue_free(queue);
    ad_version_release(version);
}
END_TEST

START_TEST(the_oldest_open_job_comes_first)
{
    int n_runs[1] = {0};
    struct ad_job jobs[3];
    struct ad_queue *queue = ad_queue_create(1);
    struct ad_work work = {.kind = AD_WORK_END};
    for (size_t i = 0; i < 3; i++) {
        ad_job_init(&jobs[i], 1, count_task, n_runs);
        ad_queue_offer(queue, &jobs[i]);
    }
    ck_assert(ad_job_step(&jobs[0], 0));
    for (size_t i = 1; i < 3; i++) {
        ad_queue_take(queue, true, &work);
        ck_assert_ptr_eq(work.job, &jobs[i]);
        ck_assert(ad_job_step(work.job, 0));
        ad_queue_leave(queue, work.job);
        ad_queue_retract(queue, &jobs[i]);
    }
    ad_queue_retract(queue, &jobs[0]);
    ck_assert_int_eq(n_runs[0], 3);
    ad_queue_free(queue);
}
END_TEST

/* ---- tests ------------------------------------------------------------------------------- */

START_TEST(alone_runs_each_task_once)
{
    struct ad_team team = {.n_workers = 1};
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
    struct ad_team team = {.queue = queue, .index = 2, .n_workers = 3};
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
        struct setup setup;
        start(&setup, n, serve_meeting);
        for (int i = 0; i < 5; i++) {
            struct tally tally = {.n_tasks = n, .n_meet = (int)n};
            push(&setup, &tally, 0, true);
            ck_assert(fixture_reaches(&tally.n_done, 1));
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
    if (request->mode.seed == 0) {
        atomic_fetch_add(&tally->n_begun, 1);
        atomic_fetch_add(&tally->n_faults, !fixture_reaches(&tally->n_done, 1));
        return;
    }
    struct stage stage = {.n_tasks = MAX_TASKS};
    atomic_fetch_add(&tally->n_faults, run_stage(&worker->team, &stage));
}

START_TEST(busy_workers_are_not_needed)
{
    struct tally tally = {.n_tasks = 0};
    struct setup setup;
    start(&setup, 2, serve_beside_busy);
    push(&setup, &tally, 0, true);
    ck_assert(fixture_reaches(&tally.n_begun, 1));
    push(&setup, &tally, 1, true);
    ck_assert(fixture_reaches(&tally.n_done, 2));
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
        fixture_nap(100000);
    }
}

static void serve_large_or_small(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    if (request->mode.seed == 1) {
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
    struct setup setup;
    start(&setup, 2, serve_large_or_small);
    struct tally tally = {.n_tasks = 2000000};
    push(&setup, &tally, 0, true);
    ck_assert(fixture_reaches(&tally.n_begun, 10));
    push(&setup, &tally, 1, true);
    ck_assert(fixture_reaches(&tally.n_done, 2));
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
    atomic_fetch_add(&tally->n_faults, !fixture_reaches(&tally->may_end, 1));
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
    struct setup setup;
    start(&setup, 3, serve_blocked);
    push(&setup, &tally, 0, true);
    ck_assert(fixture_reaches(&tally.n_begun, 3));
    ad_queue_close(setup.queue);
    ck_assert(!ad_workers_join(setup.workers, ad_clock_now_ns() + NS_PER_S / 50));
    struct ad_requests waiting = {NULL, NULL, 0};
    ad_queue_take_all(setup.queue, &waiting);
    ck_assert_uint_eq(waiting.n, 0);
    ck_assert(!ad_workers_join(setup.workers, 0));
    atomic_store(&tally.may_end, 1);
    stop(&setup);
    ck_assert_int_eq(atomic_load(&tally.n_done), 1);
    ck_assert_int_eq(atomic_load(&tally.n_begun), 50);
    ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
}
END_TEST

/* ---- small work in the middle of large ----------------------------------------------------- */

/* Request 0 is a job whose tasks go on until request 1 is served, which only its own worker can do:
 * with other memory, and without a team. Then it goes on until request 2 waits, which is large and
 * must not be served in between. */
static void long_task(void *argument, size_t task, size_t worker)
{
    struct tally *tally = argument;
    (void)worker;
    atomic_fetch_add(&tally->n_begun, 1);
    if (task + 2 < tally->n_tasks && !atomic_load(&tally->may_end)) {
        fixture_nap(10000);
    }
}

static void serve_between(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    int order = atomic_fetch_add(&tally->n_served, 1);
    struct attn_parallel parallel = ad_team_parallel(&worker->team);
    char *memory = ad_scratch_get(&worker->scratch, 1000);
    memset(memory, 1, 1000);
    switch (request->mode.seed) {
    case 0:
        parallel.run(parallel.context, tally->n_tasks, long_task, tally);
        for (size_t i = 0; i < 1000; i++) {
            atomic_fetch_add(&tally->n_faults, memory[i] != 1);
        }
        atomic_fetch_add(&tally->n_faults, atomic_load(&tally->n_served) != 2);
        return;
    case 1:
        memset(memory, 2, 1000);
        atomic_fetch_add(&tally->n_faults, order != 1 || parallel.n_workers != 1);
        parallel.run(parallel.context, 2, long_task, tally);
        atomic_store(&tally->may_end, 1);
        return;
    default:
        memset(memory, 3, 1000);
        atomic_fetch_add(&tally->n_faults, order != 2);
    }
}

START_TEST(small_work_is_served_between_two_tasks)
{
    for (int i = 0; i < 20; i++) {
        struct setup setup;
        struct tally tally = {.n_tasks = 2000000};
        start(&setup, 1, serve_between);
        push(&setup, &tally, 0, true);
        ck_assert(fixture_reaches(&tally.n_begun, 3));
        push(&setup, &tally, 2, true);
        push(&setup, &tally, 1, false);
        ck_assert(fixture_reaches(&tally.n_done, 3));
        ck_assert_int_eq(atomic_load(&tally.n_faults), 0);
        ck_assert_int_eq(atomic_load(&tally.n_begun), 2000002);
        stop(&setup);
    }
}
END_TEST

static void brief_task(void *argument, size_t task, size_t worker)
{
    struct tally *tally = argument;
    (void)task;
    (void)worker;
    atomic_fetch_add(&tally->n_begun, 1);
    for (int64_t until_ns = ad_clock_now_ns() + 20000; ad_clock_now_ns() < until_ns;) {
    }
}

static void serve_mixed(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    struct attn_parallel parallel = ad_team_parallel(&worker->team);
    if (request->priority) {
        parallel.run(parallel.context, tally->n_tasks, brief_task, tally);
    }
    atomic_fetch_add(&tally->n_served, 1);
}

/* Large ones without end on every worker, and small ones among them: all are served, each task once. */
START_TEST(large_and_small_together)
{
    for (size_t n_workers = 1; n_workers <= 3; n_workers++) {
        struct setup setup;
        struct tally tally = {.n_tasks = 30};
        int n = 600;
        start(&setup, n_workers, serve_mixed);
        for (int i = 0; i < n; i++) {
            push(&setup, &tally, 0, i % 3 == 0);
            while (ad_queue_length(setup.queue) > 50) {
                sched_yield();
            }
        }
        ck_assert(fixture_reaches(&tally.n_done, n));
        stop(&setup);
        ck_assert_int_eq(atomic_load(&tally.n_served), n);
        ck_assert_int_eq(atomic_load(&tally.n_begun), n / 3 * (int)tally.n_tasks);
    }
}
END_TEST

#define N_REQUESTS 3000

/* Stages of all sizes, one after the other as in a forward, with the numbers checked. */
static void serve_stages(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    uint64_t state = request->mode.seed;
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
    struct setup setup;
    start(&setup, 5, serve_stages);
    for (int i = 0; i < N_REQUESTS; i++) {
        push(&setup, &tally, (uint64_t)i, i % 3 != 0);
        if (i % 7 == 0 || i % 500 > 490) {
            ck_assert(fixture_reaches(&tally.n_done, i - 2));
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
    tcase_add_test(tcase, a_job_is_joined_when_no_request_waits);
    tcase_add_test(tcase, the_oldest_open_job_comes_first);
    tcase_add_test(tcase, alone_runs_each_task_once);
    tcase_add_test(tcase, nobody_comes);
    tcase_add_test(tcase, every_idle_worker_helps);
    tcase_add_test(tcase, busy_workers_are_not_needed);
    tcase_add_test(tcase, requests_come_before_jobs);
    tcase_add_test(tcase, stop_while_helping);
    tcase_add_test(tcase, small_work_is_served_between_two_tasks);
    tcase_add_test(tcase, large_and_small_together);
    tcase_add_test(tcase, many_owners_at_once);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
