/* Do the workers serve each request once, keep their scratch, and end when asked to? */
#include "sched/workers.h"

#include "base/clock.h"
#include "unit/support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define N_REQUESTS 2000
#define NS_PER_S INT64_C(1000000000)

/* What the requests of one test share. */
struct tally {
    atomic_int n_served;
    atomic_int n_done;
    atomic_int n_bad;    /* done, but not as they should be */
    atomic_bool blocked; /* serve waits while this is set */
};

static int64_t seconds_from_now(int64_t n)
{
    return ad_clock_now_ns() + n * NS_PER_S;
}

static void serve(struct ad_request *request, struct ad_worker *worker)
{
    struct tally *tally = request->context;
    const struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&tally->blocked)) {
        nanosleep(&pause, NULL);
    }
    char *memory = ad_scratch_get(&worker->scratch, 1000);
    memset(memory, 1, 1000);
    if (!ad_buffer_append(&request->reply, "answer", 6)) {
        ad_fail(&request->error, AD_INTERNAL, "out of memory");
    }
    atomic_fetch_add(&tally->n_served, 1);
}

static void on_done(struct ad_request *request)
{
    struct tally *tally = request->context;
    bool good = request->error.status == AD_OK && request->reply.size == 6 &&
                request->started_ns > 0 && request->finished_ns >= request->started_ns;
    atomic_fetch_add(&tally->n_bad, !good);
    atomic_fetch_add(&tally->n_done, 1);
    ad_request_free(request);
}

static void push(struct ad_queue *queue, struct tally *tally)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    request->context = tally;
    request->on_done = on_done;
    ck_assert_int_eq(ad_queue_push(queue, &request, NULL), AD_OK);
}

START_TEST(all_requests_are_served)
{
    struct tally tally = {0};
    struct ad_workers *workers = NULL;
    struct ad_queue *queue = ad_queue_create(N_REQUESTS);
    ck_assert_int_eq(ad_workers_start(3, queue, serve, &workers, NULL), AD_OK);
    for (int i = 0; i < N_REQUESTS; i++) {
        push(queue, &tally);
    }
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ck_assert(ad_workers_join(workers, 0)); /* again is fine */
    ck_assert_int_eq(atomic_load(&tally.n_served), N_REQUESTS);
    ck_assert_int_eq(atomic_load(&tally.n_done), N_REQUESTS);
    ck_assert_int_eq(atomic_load(&tally.n_bad), 0);
    ad_workers_free(workers);
    ad_queue_free(queue);
}
END_TEST

START_TEST(idle_workers_end_at_once)
{
    struct ad_workers *workers = NULL;
    struct ad_queue *queue = ad_queue_create(1);
    ck_assert_int_eq(ad_workers_start(2, queue, serve, &workers, NULL), AD_OK);
    ck_assert(!ad_workers_join(workers, ad_clock_now_ns() + NS_PER_S / 100));
    ad_queue_close(queue);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ad_workers_free(workers);
    ad_queue_free(queue);
}
END_TEST

START_TEST(join_gives_up_at_its_deadline)
{
    struct tally tally = {0};
    struct ad_workers *workers = NULL;
    struct ad_queue *queue = ad_queue_create(4);
    atomic_store(&tally.blocked, true);
    ck_assert_int_eq(ad_workers_start(1, queue, serve, &workers, NULL), AD_OK);
    push(queue, &tally);
    while (ad_queue_length(queue) > 0) { /* until the worker has it */
        sched_yield();
    }
    push(queue, &tally);
    ad_queue_close(queue);
    ck_assert(!ad_workers_join(workers, ad_clock_now_ns() + NS_PER_S / 20));
    ck_assert(!ad_workers_join(workers, 0));
    struct ad_request *waiting = ad_queue_take_all(queue);
    ck_assert_ptr_nonnull(waiting);
    ck_assert_ptr_null(waiting->next);
    ad_request_free(waiting);
    atomic_store(&tally.blocked, false);
    ck_assert(ad_workers_join(workers, seconds_from_now(30)));
    ck_assert_int_eq(atomic_load(&tally.n_done), 1);
    ad_workers_free(workers);
    ad_queue_free(queue);
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
    ad_workers_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("workers");
    TCase *tcase = tcase_create("workers");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, all_requests_are_served);
    tcase_add_test(tcase, idle_workers_end_at_once);
    tcase_add_test(tcase, join_gives_up_at_its_deadline);
    tcase_add_test(tcase, scratch_grows_and_is_kept);
    tcase_add_test(tcase, large_scratch_is_given_back);
    tcase_add_test(tcase, absurd_scratch_is_refused);
    tcase_add_test(tcase, null_is_fine);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
