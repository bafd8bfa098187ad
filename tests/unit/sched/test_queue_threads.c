/* Is the queue exact when many threads use it at once, and does none sleep on while there is work? */
#include "sched/queue.h"

#include "unit/sched/fixture.h"

#include <pthread.h>
#include <sched.h>

/* ---- sleeping and waking --------------------------------------------------------------------- */

static void *take_one(void *argument)
{
    struct ad_work work = {.kind = AD_WORK_HELP};
    ad_queue_take(argument, false, &work);
    return (void *)(uintptr_t)(work.kind == AD_WORK_END);
}

START_TEST(close_wakes_all_that_wait)
{
    pthread_t threads[3];
    struct ad_queue *queue = ad_queue_create(1);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_one, queue), 0);
    }
    fixture_nap(5 * NS_PER_MS);
    ad_queue_close(queue);
    for (int i = 0; i < 3; i++) {
        void *ended = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &ended), 0);
        ck_assert_ptr_nonnull(ended);
    }
    ad_queue_free(queue);
}
END_TEST

/* What the workers of one test share. */
struct crew {
    struct ad_queue *queue;
    atomic_int n_served, n_in_hand, most_in_hand, n_faults, n_started;
    int n_meet;       /* a run goes on when so many have begun, or after a while */
    double cost;      /* what decoding finds out */
    bool fails;       /* every third cannot be decoded */
    atomic_int *seen; /* by number: how often it was run; NULL: nobody counts */
};

static void note_begun(struct crew *crew)
{
    int n = atomic_fetch_add(&crew->n_in_hand, 1) + 1;
    int most = atomic_load(&crew->most_in_hand);
    while (n > most && !atomic_compare_exchange_weak(&crew->most_in_hand, &most, n)) {
    }
    if (crew->n_meet > 0 && !fixture_reaches(&crew->most_in_hand, crew->n_meet)) {
        atomic_fetch_add(&crew->n_faults, 1);
    }
}

static void end_request(struct crew *crew, struct ad_request *request)
{
    if (crew->seen) {
        atomic_fetch_add(&crew->seen[request->mode.seed], 1);
    }
    ad_request_free(request);
    atomic_fetch_add(&crew->n_served, 1);
}

static void serve(struct crew *crew, struct ad_work *work)
{
    struct ad_request *request;
    if (work->kind == AD_WORK_DECODE) {
        request = ad_requests_shift(&work->requests);
        if (crew->fails && request->mode.seed % 3 == 0) {
            end_request(crew, request);
            return;
        }
        request->cost = crew->cost;
        work->decoded = request;
        return;
    }
    note_begun(crew);
    while ((request = ad_requests_shift(&work->requests)) != NULL) {
        end_request(crew, request);
    }
    atomic_fetch_sub(&crew->n_in_hand, 1);
}

static void *work_on(void *argument)
{
    struct crew *crew = argument;
    struct ad_work work = {.kind = AD_WORK_END};
    atomic_fetch_add(&crew->n_started, 1);
    for (ad_queue_take(crew->queue, true, &work); work.kind != AD_WORK_END;
         ad_queue_take(crew->queue, true, &work)) {
        serve(crew, &work);
    }
    return NULL;
}

#define MAX_WORKERS 4

struct crew_threads {
    pthread_t threads[MAX_WORKERS];
    size_t n;
};

static struct crew_threads start_crew(struct crew *crew, size_t n)
{
    struct crew_threads threads = {.n = n};
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_create(&threads.threads[i], NULL, work_on, crew), 0);
    }
    ck_assert(fixture_reaches(&crew->n_started, (int)n));
    return threads;
}

static void stop_crew(struct crew *crew, struct crew_threads *threads)
{
    ad_queue_close(crew->queue);
    for (size_t i = 0; i < threads->n; i++) {
        ck_assert_int_eq(pthread_join(threads->threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&crew->n_faults), 0);
    ad_queue_free(crew->queue);
}

/* A burst wakes one worker; those that have much to do call the next, until all are at work. */
START_TEST(long_work_calls_every_worker)
{
    for (size_t n = 1; n <= MAX_WORKERS; n++) {
        struct ad_version *version = fixture_version("a");
        struct crew crew = {.queue = ad_queue_create(100), .cost = 1e12};
        version->settings.max_batch_requests = 1;
        crew.n_meet = (int)n;
        struct crew_threads threads = start_crew(&crew, n);
        for (int i = 0; i < 10; i++) {
            atomic_store(&crew.most_in_hand, 0);
            for (size_t j = 0; j < n; j++) {
                fixture_push(crew.queue, fixture_request(version));
            }
            ck_assert(fixture_reaches(&crew.n_served, (i + 1) * (int)n));
            while (atomic_load(&crew.n_in_hand) > 0) {
                sched_yield();
            }
        }
        stop_crew(&crew, &threads);
        ad_version_release(version);
    }
}
END_TEST

/* Pushes that come while a worker is on its way call no other, and none may be forgotten for it. */
START_TEST(every_burst_is_served)
{
    struct ad_version *versions[2] = {fixture_version("a"), fixture_version("b")};
    versions[1]->settings.max_batch_requests = 3;
    versions[1]->settings.max_queue_delay_us = 200;
    for (size_t n = 1; n <= MAX_WORKERS; n++) {
        struct crew crew = {.queue = ad_queue_create(1000), .cost = 1};
        struct crew_threads threads = start_crew(&crew, n);
        int n_pushed = 0;
        for (int i = 0; i < 1500; i++) {
            for (int j = 0; j <= i % 7; j++) {
                fixture_push(crew.queue, fixture_request(versions[(i + j) % 2]));
                n_pushed++;
            }
            ck_assert(fixture_reaches(&crew.n_served, n_pushed));
        }
        stop_crew(&crew, &threads);
    }
    ad_version_release(versions[0]);
    ad_version_release(versions[1]);
}
END_TEST

/* ---- many at once ---------------------------------------------------------------------------- */

#define N_PRODUCERS 4
#define N_EACH 3000
#define N_VERSIONS 3

struct stress {
    struct crew crew;
    struct ad_version *versions[N_VERSIONS];
    atomic_int seen[N_PRODUCERS * N_EACH];
    atomic_int n_refused, n_producers;
};

static void *produce(void *argument)
{
    struct stress *stress = argument;
    int first = atomic_fetch_add(&stress->n_producers, 1) * N_EACH;
    for (int i = 0; i < N_EACH;) {
        struct ad_request *request =
            fixture_request(stress->versions[(first + i) % N_VERSIONS]);
        request->mode.seed = (uint64_t)(first + i);
        request->priority = (uint64_t)(i % 3);
        request->joins = i % 5 != 0;
        if (ad_queue_push(stress->crew.queue, &request, NULL) == AD_OK) {
            i++;
        } else {
            ad_request_free(request);
            atomic_fetch_add(&stress->n_refused, 1);
            sched_yield();
        }
    }
    return NULL;
}

START_TEST(many_threads_each_request_once)
{
    pthread_t producers[N_PRODUCERS];
    struct stress *stress = calloc(1, sizeof *stress);
    ck_assert_ptr_nonnull(stress);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        stress->versions[i] = fixture_version("a");
        stress->versions[i]->settings.n_priorities = 2;
        stress->versions[i]->settings.max_batch_requests = 1 + 4 * i;
    }
    stress->versions[2]->settings.max_queue_delay_us = 100;
    stress->crew = (struct crew){
        .queue = ad_queue_create(16), .cost = 1, .fails = true, .seen = stress->seen};
    struct crew_threads threads = start_crew(&stress->crew, 3);
    for (int i = 0; i < N_PRODUCERS; i++) {
        ck_assert_int_eq(pthread_create(&producers[i], NULL, produce, stress), 0);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        pthread_join(producers[i], NULL);
    }
    ck_assert(fixture_reaches(&stress->crew.n_served, N_PRODUCERS * N_EACH));
    ck_assert_uint_eq(ad_queue_length(stress->crew.queue), 0);
    stop_crew(&stress->crew, &threads);
    for (int i = 0; i < N_PRODUCERS * N_EACH; i++) {
        ck_assert_int_eq(atomic_load(&stress->seen[i]), 1);
    }
    for (size_t i = 0; i < N_VERSIONS; i++) {
        fixture_check_gauges(stress->versions[i], 0, 0);
        ad_version_release(stress->versions[i]);
    }
    free(stress);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue_threads");
    TCase *tcase = tcase_create("queue_threads");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, close_wakes_all_that_wait);
    tcase_add_test(tcase, long_work_calls_every_worker);
    tcase_add_test(tcase, every_burst_is_served);
    tcase_add_test(tcase, many_threads_each_request_once);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
