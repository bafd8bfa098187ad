/* test_stats.c - counters and histograms of a model version: what is added is read, each number in
 * its place, from any number of threads. */
#include "base/stats.h"
#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* begun 100, queued +1, taken +10, decoded +100, computing +1000, computed +10000, encoded +100000,
 * replied +1000000 */
static const struct ad_times whole = {.begun_ns = 100,
                                      .queued_ns = 101,
                                      .decoding_ns = 111,
                                      .decoded_ns = 211,
                                      .computing_ns = 1211,
                                      .computed_ns = 11211,
                                      .encoded_ns = 111211,
                                      .replied_ns = 1111211};

static void assert_duration(struct ad_duration_count got, uint64_t count, uint64_t ns)
{
    ck_assert_uint_eq(got.count, count);
    ck_assert_uint_eq(got.ns, ns);
}

static uint64_t total(const struct ad_histogram *histogram)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= AD_HISTOGRAM_BUCKETS; i++) {
        n += histogram->counts[i];
    }
    return n;
}

START_TEST(test_new_is_zero)
{
    static const struct ad_stats_view zero;
    struct ad_stats *stats = ad_stats_create();
    struct ad_stats_view view;
    memset(&view, 0xff, sizeof view);
    ad_stats_read(stats, &view);
    ck_assert_mem_eq(&view, &zero, sizeof view);
    ad_stats_release(stats);
    ad_stats_release(NULL);
}
END_TEST

START_TEST(test_success)
{
    struct ad_stats *stats = ad_stats_create();
    ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 3, &whole);
    ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 4, &whole);
    struct ad_stats_view view;
    ad_stats_read(stats, &view);
    ck_assert_int_gt(view.last_inference_ms, INT64_C(1500000000000));
    ck_assert_uint_eq(view.n_items, 7);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_SUCCESS], 2);
    assert_duration(view.success, 2, 2 * 1111111);
    assert_duration(view.fail, 0, 0);
    assert_duration(view.queue, 2, 2 * 1010);
    assert_duration(view.compute_input, 2, 2 * 100);
    assert_duration(view.compute_infer, 2, 2 * 10000);
    assert_duration(view.compute_output, 2, 2 * 100000);
    ck_assert_uint_eq(total(&view.request_duration), 2);
    ck_assert_uint_eq(total(&view.queue_duration), 2);
    ck_assert_uint_eq(total(&view.compute_duration), 2);
    ck_assert_uint_eq(view.queue_duration.counts[0], 2);
    ck_assert_uint_eq(view.compute_duration.counts[0], 2); /* 10 us is the first bound */
    ad_stats_release(stats);
}
END_TEST

/* A failure counts by its kind, with whatever times it has, and touches no histogram. */
START_TEST(test_failures)
{
    static const struct ad_times never_begun = {.replied_ns = 5};
    static const struct ad_times refused = {.begun_ns = 5, .replied_ns = 12};
    struct ad_stats *stats = ad_stats_create();
    for (int outcome = AD_OUTCOME_REJECTED; outcome < AD_N_OUTCOMES; outcome++) {
        for (int i = 0; i < outcome; i++) {
            ad_stats_add_request(stats, (enum ad_outcome)outcome, 1, &refused);
        }
    }
    ad_stats_add_request(stats, AD_OUTCOME_REJECTED, 1, &never_begun);
    struct ad_stats_view view;
    ad_stats_read(stats, &view);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_SUCCESS], 0);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_REJECTED], 2);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_CANCELED], 2);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_BACKEND], 3);
    ck_assert_uint_eq(view.n_requests[AD_OUTCOME_OTHER], 4);
    assert_duration(view.fail, 11, 10 * 7);
    assert_duration(view.success, 0, 0);
    ck_assert_uint_eq(view.n_items, 0);
    ck_assert_uint_eq(total(&view.request_duration), 0);
    ad_stats_release(stats);
}
END_TEST

/* Times that run backwards or are missing count as no time. */
START_TEST(test_odd_times)
{
    static const struct ad_times odd = {
        .begun_ns = 10, .decoding_ns = 9, .decoded_ns = 5, .replied_ns = 3};
    struct ad_stats *stats = ad_stats_create();
    ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 1, &odd);
    ad_stats_add_pass(stats, 1, 1, -1, -5, INT64_MIN);
    struct ad_stats_view view;
    ad_stats_read(stats, &view);
    assert_duration(view.success, 1, 0);
    assert_duration(view.compute_input, 1, 0);
    ck_assert_uint_eq(view.request_duration.counts[0], 1);
    ck_assert_uint_eq(view.batches[0].compute_output.ns, 0);
    ad_stats_release(stats);
}
END_TEST

static void assert_bounds(const int64_t bounds[AD_HISTOGRAM_BUCKETS])
{
    ck_assert_int_gt(bounds[0], 0);
    for (size_t i = 1; i < AD_HISTOGRAM_BUCKETS; i++) {
        ck_assert_int_gt(bounds[i], bounds[i - 1]);
    }
}

/* A value equal to a bound is in its bucket, one more in the next. */
START_TEST(test_buckets)
{
    assert_bounds(ad_duration_bounds_ns);
    assert_bounds(ad_size_bounds);
    for (size_t i = 0; i < AD_HISTOGRAM_BUCKETS; i++) {
        struct ad_stats *stats = ad_stats_create();
        struct ad_times times = {.begun_ns = 1,
                                 .replied_ns = 1 + ad_duration_bounds_ns[i]};
        ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 1, &times);
        times.replied_ns++;
        ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 1, &times);
        ad_stats_add_pass(stats, (uint64_t)ad_size_bounds[i], 1, 0, 0, 0);
        ad_stats_add_pass(stats, (uint64_t)ad_size_bounds[i] + 1, 1, 0, 0, 0);
        struct ad_stats_view view;
        ad_stats_read(stats, &view);
        ck_assert_uint_eq(view.request_duration.counts[i], 1);
        ck_assert_uint_eq(view.request_duration.counts[i + 1], 1);
        ck_assert_uint_eq(view.request_duration.sum,
                          2 * (uint64_t)ad_duration_bounds_ns[i] + 1);
        ck_assert_uint_eq(view.batch_size.counts[i], 1);
        ck_assert_uint_eq(view.batch_size.counts[i + 1], 1);
        ck_assert_uint_eq(view.batch_size.sum, 2 * (uint64_t)ad_size_bounds[i] + 1);
        ad_stats_release(stats);
    }
}
END_TEST

START_TEST(test_passes)
{
    static const struct {
        uint64_t n_items;
        size_t index;
    } cases[] = {{0, 0}, {1, 0}, {2, 1}, {63, 62}, {64, 63}, {65, 63}, {UINT64_MAX, 63}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ad_stats *stats = ad_stats_create();
        ad_stats_add_pass(stats, 2, cases[i].n_items, 3, 5, 7);
        ad_stats_add_pass(stats, UINT64_MAX, cases[i].n_items, 3, 5, 7);
        struct ad_stats_view view;
        ad_stats_read(stats, &view);
        ck_assert_uint_eq(view.n_passes, 2);
        ck_assert_uint_eq(view.batch_size.counts[1], 1);
        ck_assert_uint_eq(view.batch_size.counts[AD_HISTOGRAM_BUCKETS], 1);
        for (size_t j = 0; j < AD_STATS_BATCH_SIZES; j++) {
            bool here = j == cases[i].index;
            ck_assert_uint_eq(view.batches[j].batch_size, here ? j + 1 : 0);
            assert_duration(view.batches[j].compute_input, here ? 2 : 0, here ? 6 : 0);
            assert_duration(view.batches[j].compute_infer, here ? 2 : 0, here ? 10 : 0);
            assert_duration(view.batches[j].compute_output, here ? 2 : 0, here ? 14 : 0);
        }
        ad_stats_release(stats);
    }
}
END_TEST

START_TEST(test_gauges)
{
    struct ad_stats *stats = ad_stats_create();
    struct ad_stats_view view;
    ad_stats_move(stats, 3, 0);
    ad_stats_move(stats, -2, 2);
    ad_stats_read(stats, &view);
    ck_assert_int_eq(view.n_waiting, 1);
    ck_assert_int_eq(view.n_running, 2);
    ad_stats_move(stats, -1, -2);
    ad_stats_move(stats, 0, -1); /* seen before what it takes back */
    ad_stats_read(stats, &view);
    ck_assert_int_eq(view.n_waiting, 0);
    ck_assert_int_eq(view.n_running, 0);
    ad_stats_release(stats);
}
END_TEST

START_TEST(test_references)
{
    struct ad_stats *stats = ad_stats_create();
    ck_assert_ptr_eq(ad_stats_hold(stats), stats);
    ad_stats_release(stats);
    ad_stats_move(stats, 1, 1);
    ad_stats_release(stats);
}
END_TEST

START_TEST(test_out_of_memory)
{
    fail_allocation(1);
    struct ad_stats *stats = ad_stats_create();
    if (allocation_failed()) {
        ck_assert_ptr_null(stats);
    }
    ad_stats_release(stats);
}
END_TEST

#define N_THREADS 4
#define N_ROUNDS 20000

struct crowd {
    struct ad_stats *stats;
    atomic_int n_left;
};

static void *add_all(void *context)
{
    struct crowd *crowd = context;
    for (int i = 0; i < N_ROUNDS; i++) {
        ad_stats_move(crowd->stats, 1, 0);
        ad_stats_move(crowd->stats, -1, 1);
        ad_stats_add_pass(crowd->stats, 2, 3, 1, 2, 3);
        ad_stats_add_request(crowd->stats, AD_OUTCOME_SUCCESS, 3, &whole);
        ad_stats_add_request(crowd->stats, AD_OUTCOME_OTHER, 3, &whole);
        ad_stats_move(crowd->stats, 0, -1);
    }
    atomic_fetch_sub(&crowd->n_left, 1);
    return NULL;
}

static void assert_not_below(const struct ad_stats_view *now,
                             const struct ad_stats_view *before)
{
    ck_assert_int_ge(now->last_inference_ms, before->last_inference_ms);
    ck_assert_uint_ge(now->n_items, before->n_items);
    ck_assert_uint_ge(now->n_passes, before->n_passes);
    ck_assert_uint_ge(now->success.count, before->success.count);
    ck_assert_uint_ge(now->success.ns, before->success.ns);
    ck_assert_uint_ge(now->fail.count, before->fail.count);
    ck_assert_uint_ge(now->batches[2].compute_input.ns,
                      before->batches[2].compute_input.ns);
}

START_TEST(test_threads)
{
    struct crowd crowd = {ad_stats_create(), N_THREADS};
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_all, &crowd), 0);
    }
    struct ad_stats_view view, before = {0};
    while (atomic_load(&crowd.n_left) > 0) {
        ad_stats_read(crowd.stats, &view);
        assert_not_below(&view, &before);
        before = view;
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    const uint64_t n = N_THREADS * N_ROUNDS;
    ad_stats_read(crowd.stats, &view);
    assert_duration(view.success, n, n * 1111111);
    assert_duration(view.fail, n, n * 1111111);
    assert_duration(view.queue, n, n * 1010);
    ck_assert_uint_eq(view.n_items, 3 * n);
    ck_assert_uint_eq(view.n_passes, n);
    ck_assert_uint_eq(view.batches[2].batch_size, 3);
    assert_duration(view.batches[2].compute_output, n, 3 * n);
    ck_assert_int_eq(view.n_waiting, 0);
    ck_assert_int_eq(view.n_running, 0);
    ad_stats_release(crowd.stats);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *tests = tcase_create("stats");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_new_is_zero);
    tcase_add_test(tests, test_success);
    tcase_add_test(tests, test_failures);
    tcase_add_test(tests, test_odd_times);
    tcase_add_test(tests, test_buckets);
    tcase_add_test(tests, test_passes);
    tcase_add_test(tests, test_gauges);
    tcase_add_test(tests, test_references);
    tcase_add_test(tests, test_out_of_memory);
    tcase_add_test(tests, test_threads);
    return support_run(suite);
}
