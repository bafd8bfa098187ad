/* Everything of scheduling at once: is each request answered exactly once, and does every count come to
 * what was pushed? Three threads push what is small and large, good and bad, in a hurry, of clients
 * that leave and of sequences, to three versions; a stop ends it all. */
#include "sched/sequences.h"
#include "sched/watch.h"

#include "unit/sched/fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_PRODUCERS 3
#define N_EACH 6000
#define N_VERSIONS 3
#define N_EARLY 5
#define N_REQUESTS (N_PRODUCERS * N_EACH + N_EARLY)
#define N_TASKS 16

/* What a request is, by bits of its seed; the rest of that is its number. */
enum trait { FAILS = 1, LARGE = 2, NAPS = 4, IN_SEQUENCE = 8, TRAIT_BITS = 4 };

struct stress {
    struct ad_queue *queue;
    struct ad_sequences *sequences;
    struct ad_watch *watch;
    struct ad_workers *workers;
    struct ad_version *versions[N_VERSIONS];
    int closed_fd; /* of a client that has gone */
    int open_fd;
    atomic_int seen[N_REQUESTS]; /* how often each was answered */
    atomic_int n_producers, n_faults, n_tasks_due, n_tasks_run;
    /* by their answer */
    atomic_int n_refused, n_good, n_bad, n_late, n_canceled, n_conflicts, n_stopped;
};

static bool is(const struct ad_request *request, enum trait trait)
{
    return (request->mode.seed & trait) != 0;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static enum ad_status decode(void *context, struct ad_request *request)
{
    struct stress *stress = context;
    enum ad_status status = AD_OK;
    request->cost = is(request, LARGE) ? 2 * AD_SMALL_COST : 1000;
    request->joins = !is(request, NAPS);
    if (is(request, IN_SEQUENCE)) {
        status = ad_sequences_take(stress->sequences, request, ad_clock_now_ns(),
                                   &request->error);
    }
    if (!status && is(request, FAILS)) {
        status = ad_fail(&request->error, AD_INVALID, "bad");
    }
    if (status) {
        ad_sequences_give(request, ad_clock_now_ns());
    }
    return status;
}

static void count_task(void *argument, size_t task, size_t worker)
{
    struct stress *stress = argument;
    (void)task;
    (void)worker;
    for (int64_t until_ns = ad_clock_now_ns() + 10000; ad_clock_now_ns() < until_ns;) {
    }
    atomic_fetch_add(&stress->n_tasks_run, 1);
}

static void run_one(struct stress *stress, struct ad_request *request,
                    struct ad_worker *worker)
{
    char *memory = ad_scratch_get(&worker->scratch, 1000);
    memory[0] = memory[999] = 1;
    if (is(request, LARGE)) {
        struct attn_parallel parallel = ad_team_parallel(&worker->team);
        atomic_fetch_add(&stress->n_tasks_due, N_TASKS);
        parallel.run(parallel.context, N_TASKS, count_task, stress);
    }
    if (is(request, NAPS)) {
        fixture_nap(2 * NS_PER_MS);
    }
    atomic_fetch_add(&stress->n_faults,
                     request->deadline_ns != 0 &&
                         request->deadline_ns <= request->times.queued_ns);
    ad_sequences_give(request, ad_clock_now_ns());
}

static void run(void *context, const struct ad_requests *batch, struct ad_worker *worker)
{
    struct ad_version *version = batch->first->version;
    struct stress *stress = context;
    atomic_fetch_add(&stress->n_faults, batch->n > version->settings.max_batch_requests);
    for (struct ad_request *request = batch->first; request; request = request->next) {
        atomic_fetch_add(&stress->n_faults, request->version != version);
        run_one(stress, request, worker);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static atomic_int *count_of(struct stress *stress, const struct ad_error *error)
{
    switch (error->status) {
    case AD_OK:
        return &stress->n_good;
    case AD_INVALID:
        return &stress->n_bad;
    case AD_CANCELED:
        return &stress->n_canceled;
    case AD_CONFLICT:
        return &stress->n_conflicts;
    case AD_UNAVAILABLE:
        return strcmp(error->code, "timeout") == 0    ? &stress->n_late
               : strcmp(error->code, "stopping") == 0 ? &stress->n_stopped
                                                      : &stress->n_conflicts;
    default:
        return &stress->n_faults;
    }
}

static void on_done(struct ad_request *request)
{
    struct stress *stress = request->context;
    atomic_fetch_add(&stress->seen[request->mode.seed >> TRAIT_BITS], 1);
    atomic_fetch_add(&stress->n_faults, request->sequence != NULL);
    atomic_fetch_add(count_of(stress, &request->error), 1);
    ad_request_free(request);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static struct ad_request *make_request(struct stress *stress, size_t number,
                                       unsigned *state)
{
    static const uint64_t timeouts_us[] = {0, 0, 0, 1, 300, 2000, 20000, 100000000};
    static const size_t sizes[] = {0, 100, 20000, AD_SMALL_BODY + 1};
    static const char *const ids[] = {"a", "b", "c", "d"};
    bool in_sequence = next_random(state) % 4 == 0;
    struct ad_version *version =
        stress->versions[in_sequence ? 0 : next_random(state) % N_VERSIONS];
    struct ad_request *request = fixture_request(version);
    unsigned traits = (next_random(state) % 16 == 0 ? FAILS : 0U) |
                      (next_random(state) % 8 == 0 ? LARGE : 0U) |
                      (next_random(state) % 64 == 0 ? NAPS : 0U) |
                      (in_sequence ? IN_SEQUENCE : 0U);
    request->mode.seed = (uint64_t)number << TRAIT_BITS | traits;
    request->timeout_us = timeouts_us[next_random(state) % 8];
    request->priority = next_random(state) % 4;
    fixture_body(request, sizes[next_random(state) % 4]);
    request->n_rows = 1 + next_random(state) % 100;
    request->fd = next_random(state) % 8 == 0   ? stress->closed_fd
                  : next_random(state) % 2 == 0 ? stress->open_fd
                                                : -1;
    request->sequence_call =
        (struct ad_sequence_call){.id = ids[next_random(state) % 4],
                                  .start = next_random(state) % 2 == 0,
                                  .end = next_random(state) % 4 == 0};
    request->on_done = on_done;
    request->context = stress;
    return request;
}

static void *produce(void *argument)
{
    struct stress *stress = argument;
    size_t first = (size_t)atomic_fetch_add(&stress->n_producers, 1) * N_EACH;
    unsigned state = (unsigned)first;
    for (size_t i = first; i < first + N_EACH; i++) {
        struct ad_request *request = make_request(stress, i, &state);
        struct ad_error error = {.status = AD_OK};
        if (ad_queue_push(stress->queue, &request, &error) != AD_OK) {
            atomic_fetch_add(&stress->n_refused, 1);
            atomic_fetch_add(&stress->seen[i], 1);
            ad_request_free(request);
            fixture_nap(100000);
        }
    }
    return NULL;
}

/* Some wait before there is anybody to serve them, and their clients do not. */
static void push_early(struct stress *stress)
{
    unsigned state = 1;
    for (size_t i = N_REQUESTS - N_EARLY; i < N_REQUESTS; i++) {
        struct ad_request *request = make_request(stress, i, &state);
        request->timeout_us = 0;
        request->fd = stress->closed_fd;
        fixture_push(stress->queue, request);
    }
    ck_assert(fixture_reaches(&stress->n_canceled, 1));
}

/* ---- start and stop -------------------------------------------------------------------------- */

static struct stress *start(void)
{
    struct stress *stress = calloc(1, sizeof *stress);
    const struct ad_sequences_config config = {
        .max = 3, .max_bytes = 1 << 20, .idle_ns = 10 * NS_PER_MS};
    const struct ad_stages stages = {stress, decode, run};
    int closed[2], open[2];
    ck_assert_ptr_nonnull(stress);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, closed), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, open), 0);
    close(closed[1]);
    stress->closed_fd = closed[0];
    stress->open_fd = open[0]; /* the other end stays open until the process ends */
    for (size_t i = 0; i < N_VERSIONS; i++) {
        stress->versions[i] = fixture_causal("a");
    }
    stress->versions[0]->settings.n_priorities = 3;
    stress->versions[0]->settings.default_priority = 2;
    stress->versions[1]->settings.max_queue_delay_us = 300;
    stress->versions[1]->settings.max_batch_rows = 200;
    stress->versions[2]->settings.max_batch_requests = 3;
    stress->versions[2]->settings.max_queue_size = 20;
    stress->versions[2]->settings.default_timeout_us = 50000;
    stress->queue = ad_queue_create(300);
    stress->sequences = ad_sequences_create(&config);
    ck_assert_int_eq(
        ad_watch_start(stress->queue, stress->sequences, &stress->watch, NULL), AD_OK);
    push_early(stress);
    ck_assert_int_eq(ad_workers_start(3, stress->queue, &stages, &stress->workers, NULL),
                     AD_OK);
    return stress;
}

/* What still waits is answered by whoever stops. */
static void fail_waiting(struct stress *stress)
{
    struct ad_requests waiting = {NULL, NULL, 0};
    struct ad_request *request;
    ad_queue_take_all(stress->queue, &waiting);
    while ((request = ad_requests_shift(&waiting)) != NULL) {
        ad_fail_code(&request->error, AD_UNAVAILABLE, "stopping", "stopping");
        ad_sequences_give(request, ad_clock_now_ns());
        request->on_done(request);
    }
}

static void stop(struct stress *stress)
{
    ad_queue_close(stress->queue);
    if (!ad_workers_join(stress->workers, ad_clock_now_ns() + NS_PER_MS)) {
        fail_waiting(stress);
    }
    ck_assert(ad_workers_join(stress->workers, ad_clock_now_ns() + 60 * NS_PER_S));
    ad_watch_stop(stress->watch);
    ad_workers_free(stress->workers);
    ck_assert_uint_eq(ad_queue_length(stress->queue), 0);
    ad_queue_free(stress->queue);
    ad_sequences_sweep(stress->sequences, INT64_MAX);
    ck_assert_uint_eq(ad_sequences_count(stress->sequences).n, 0);
    ad_sequences_free(stress->sequences);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        fixture_check_gauges(stress->versions[i], 0, 0);
        ck_assert_uint_eq(atomic_load(&stress->versions[i]->references), 1);
        ad_version_release(stress->versions[i]);
    }
}

static void check_counts(const struct stress *stress)
{
    int n = 0;
    const atomic_int *const counts[] = {
        &stress->n_refused,  &stress->n_good,      &stress->n_bad,    &stress->n_late,
        &stress->n_canceled, &stress->n_conflicts, &stress->n_stopped};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        n += atomic_load(counts[i]);
    }
    ck_assert_int_eq(n, N_REQUESTS);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        ck_assert_int_eq(atomic_load(&stress->seen[i]), 1);
    }
    ck_assert_int_eq(atomic_load(&stress->n_faults), 0);
    ck_assert_int_eq(atomic_load(&stress->n_tasks_run),
                     atomic_load(&stress->n_tasks_due));
    /* something of each kind came but perhaps of the first and the last, so that this says something */
    for (size_t i = 1; i + 1 < sizeof counts / sizeof *counts; i++) {
        ck_assert_msg(atomic_load(counts[i]) > 0, "none of kind %zu", i);
    }
}

START_TEST(each_is_answered_once)
{
    pthread_t producers[N_PRODUCERS];
    struct stress *stress = start();
    for (size_t i = 0; i < N_PRODUCERS; i++) {
        ck_assert_int_eq(pthread_create(&producers[i], NULL, produce, stress), 0);
    }
    for (size_t i = 0; i < N_PRODUCERS; i++) {
        ck_assert_int_eq(pthread_join(producers[i], NULL), 0);
    }
    stop(stress);
    check_counts(stress);
    close(stress->closed_fd);
    close(stress->open_fd);
    free(stress);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stress");
    TCase *tcase = tcase_create("stress");
    tcase_set_timeout(tcase, 180);
    tcase_add_test(tcase, each_is_answered_once);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
