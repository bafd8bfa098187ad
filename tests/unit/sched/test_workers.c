/* Do the workers decode, run and answer each request once, keep their scratch, and end when asked
 * to? */
#include "sched/workers.h"

#include "unit/sched/fixture.h"

#include <sched.h>
#include <stdint.h>

#define N_REQUESTS 2000

/* What the requests of one test share. */
struct tally {
    atomic_int n_decoded, n_run, n_passes;
    atomic_int n_good, n_refused, n_late; /* done, by their answer */
    atomic_int n_bad;                     /* done, but not as they should be */
    atomic_bool blocked;                  /* a run waits while this is set */
    atomic_int n_begun;
};

static int n_done(const struct tally *tally)
{
    return atomic_load(&tally->n_good) + atomic_load(&tally->n_refused) +
           atomic_load(&tally->n_late) + atomic_load(&tally->n_bad);
}

static int64_t seconds_from_now(int64_t n)
{
    return ad_clock_now_ns() + n * NS_PER_S;
}

/* A seed of 1 cannot be decoded. */
static enum ad_status decode(void *context, struct ad_request *request)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->n_decoded, 1);
    request->timeout_us = request->mode.seed == 2 ? 1 : 0;
    return request->mode.seed == 1 ? ad_fail(&request->error, AD_INVALID, "seed 1")
                                   : AD_OK;
}

static void run(void *context, const struct ad_requests *batch, struct ad_worker *worker)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->n_begun, 1);
    while (atomic_load(&tally->blocked)) {
        fixture_nap(NS_PER_MS);
    }
    char *memory = ad_scratch_get(&worker->scratch, 1000);
    memset(memory, 1, 1000);
    for (struct ad_request *request = batch->first; request; request = request->next) {
        if (!ad_buffer_append(&request->reply, "answer", 6) ||
            request->n_batch != batch->n) {
            ad_fail(&request->error, AD_INTERNAL, "out of memory");
        }
        atomic_fetch_add(&tally->n_run, 1);
    }
    atomic_fetch_add(&tally->n_passes, 1);
}

/* Which count the answer belongs to. */
static atomic_int *judge(struct tally *tally, const struct ad_request *request)
{
    const struct ad_times *times = &request->times;
    if (request->error.status == AD_OK && request->reply.size == 6 &&
        times->decoding_ns >= times->queued_ns &&
        times->decoded_ns >= times->decoding_ns &&
        times->computing_ns >= times->decoded_ns) {
        return &tally->n_good;
    }
    if (request->error.status == AD_INVALID && request->mode.seed == 1 &&
        times->computing_ns == 0) {
        return &tally->n_refused;
    }
    if (request->error.status == AD_UNAVAILABLE && times->computing_ns == 0 &&
        strcmp(request->error.code, "timeout") == 0 &&
        strstr(request->error.message, "Request timeout expired")) {
        return &tally->n_late;
    }
    return &tally->n_bad;
}

static void on_done(struct ad_request *request)
{
    atomic_int *count = judge(request->context, request);
    ad_request_free(request);
    atomic_fetch_add(count, 1);
}

static struct ad_version *version;
static struct ad_queue *queue;
static struct tally tally;

static void setup(void)
{
    version = fixture_version("a");
    queue = ad_queue_create(N_REQUESTS);
    ck_assert_ptr_nonnull(queue);
    memset(&tally, 0, sizeof tally);
}

static void teardown(void)
{
    fixture_check_gauges(version, 0, 0);
    ad_queue_free(queue);
    ad_version_release(version);
}

static struct ad_workers *start(size_t n)
{
    const struct ad_stages stages = {&tally, decode, run};
    struct ad_workers *workers = NULL;
    ck_assert_int_eq(ad_workers_start(n, queue, &stages, &workers, NULL), AD_OK);
    return workers;
}

static void push(uint64_t seed, uint64_t timeout_us)
{
    struct ad_request *request = fixture_request(version);
    request->context = &tally;
    request->on_done = on_done;
    request->mode.seed = seed;
    request->timeout_us = timeout_us;
    fixture_push(queue, request);
}

START_TEST(all_requests_are_served)
{
    struct ad_workers *workers = start(3);
    for (uint64_t i = 0; i < N_REQUESTS; i++) {
        push(i % 10 == 1 ? 1 : 0, 0);
    }
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ck_assert(ad_workers_join(workers, 0)); /* again is fine */
    ck_assert_int_eq(atomic_load(&tally.n_decoded), N_REQUESTS);
    ck_assert_int_eq(atomic_load(&tally.n_run), N_REQUESTS / 10 * 9);
    ck_assert_int_eq(atomic_load(&tally.n_good), N_REQUESTS / 10 * 9);
    ck_assert_int_eq(atomic_load(&tally.n_refused), N_REQUESTS / 10);
    ck_assert_int_eq(n_done(&tally), N_REQUESTS);
    ad_workers_free(workers);
}
END_TEST

/* What came while the worker was busy shares passes. */
START_TEST(what_waits_shares_a_pass)
{
    atomic_store(&tally.blocked, true);
    version->settings.max_batch_requests = 8;
    struct ad_workers *workers = start(1);
    push(0, 0);
    ck_assert(fixture_reaches(&tally.n_begun, 1));
    for (size_t i = 0; i < 20; i++) {
        push(0, 0);
    }
    atomic_store(&tally.blocked, false);
    ck_assert(fixture_reaches(&tally.n_good, 21));
    ck_assert_int_eq(atomic_load(&tally.n_passes), 4); /* 1, 8, 8 and 4 */
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ad_workers_free(workers);
}
END_TEST

/* One that waited too long is never started: decoded, or run. Its timeout may be known only once it is
 * decoded, and counts from when it came all the same. */
START_TEST(expired_ones_are_refused)
{
    atomic_store(&tally.blocked, true);
    struct ad_workers *workers = start(1);
    push(0, 0);
    ck_assert(fixture_reaches(&tally.n_begun, 1));
    push(0, 1000);
    push(2, 0);
    push(0, 60000000);
    fixture_nap(2 * NS_PER_MS);
    atomic_store(&tally.blocked, false);
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ck_assert_int_eq(atomic_load(&tally.n_late), 2);
    ck_assert_int_eq(atomic_load(&tally.n_good), 2);
    ck_assert_int_eq(atomic_load(&tally.n_decoded), 3);
    ck_assert_int_eq(n_done(&tally), 4);
    ad_workers_free(workers);
}
END_TEST

START_TEST(idle_workers_end_at_once)
{
    struct ad_workers *workers = start(2);
    ck_assert(!ad_workers_join(workers, ad_clock_now_ns() + NS_PER_S / 100));
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ad_workers_free(workers);
}
END_TEST

START_TEST(join_gives_up_at_its_deadline)
{
    struct ad_requests waiting = {NULL, NULL, 0};
    atomic_store(&tally.blocked, true);
    struct ad_workers *workers = start(1);
    push(0, 0);
    ck_assert(fixture_reaches(&tally.n_begun, 1));
    push(0, 0);
    ad_queue_close(queue);
    ck_assert(!ad_workers_join(workers, ad_clock_now_ns() + NS_PER_S / 20));
    ck_assert(!ad_workers_join(workers, 0));
    ad_queue_take_all(queue, &waiting);
    ck_assert_uint_eq(fixture_free_all(&waiting), 1);
    atomic_store(&tally.blocked, false);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ck_assert_int_eq(n_done(&tally), 1);
    ad_workers_free(workers);
}
END_TEST

START_TEST(scratch_grows_and_is_kept)
{
    struct ad_scratch scratch = {NULL, 0};
    ck_assert_ptr_nonnull(ad_scratch_get(&scratch, 0));
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        char *memory = ad_scratch_get(&scratch, size);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 64, 0);
        ck_assert_uint_ge(scratch.size, size);
        memset(memory, 0xff, size);
        ck_assert_ptr_eq(ad_scratch_get(&scratch, size / 2), memory);
        ad_scratch_trim(&scratch);
        ck_assert_ptr_eq(ad_scratch_get(&scratch, size), memory);
    }
    ad_scratch_reset(&scratch);
    ck_assert_ptr_null(scratch.data);
    ck_assert_uint_eq(scratch.size, 0);
    ad_scratch_reset(&scratch);
}
END_TEST

START_TEST(large_scratch_is_given_back)
{
    struct ad_scratch scratch = {NULL, 0};
    ck_assert_ptr_nonnull(ad_scratch_get(&scratch, AD_SCRATCH_KEPT));
    ad_scratch_trim(&scratch);
    ck_assert_ptr_nonnull(scratch.data);
    ck_assert_ptr_nonnull(ad_scratch_get(&scratch, AD_SCRATCH_KEPT + 1));
    ad_scratch_trim(&scratch);
    ck_assert_ptr_null(scratch.data);
    ck_assert_ptr_nonnull(ad_scratch_get(&scratch, 10));
    ad_scratch_reset(&scratch);
}
END_TEST

START_TEST(absurd_scratch_is_refused)
{
    struct ad_scratch scratch = {NULL, 0};
    ck_assert_ptr_null(ad_scratch_get(&scratch, SIZE_MAX));
    ck_assert_ptr_null(ad_scratch_get(&scratch, SIZE_MAX - 10));
    ck_assert_ptr_nonnull(ad_scratch_get(&scratch, 10));
    ad_scratch_reset(&scratch);
}
END_TEST

START_TEST(null_is_fine)
{
    struct ad_requests none = {NULL, NULL, 0};
    ad_workers_free(NULL);
    ad_workers_refuse(&none);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("workers");
    TCase *tcase = tcase_create("workers");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, all_requests_are_served);
    tcase_add_test(tcase, what_waits_shares_a_pass);
    tcase_add_test(tcase, expired_ones_are_refused);
    tcase_add_test(tcase, idle_workers_end_at_once);
    tcase_add_test(tcase, join_gives_up_at_its_deadline);
    tcase_add_test(tcase, scratch_grows_and_is_kept);
    tcase_add_test(tcase, large_scratch_is_given_back);
    tcase_add_test(tcase, absurd_scratch_is_refused);
    tcase_add_test(tcase, null_is_fine);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
