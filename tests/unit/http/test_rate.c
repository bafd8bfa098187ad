/* Does a bucket give as many tokens as its limit says, at any clock, to any number of threads? */
#include "http/rate.h"

#include "unit/support.h"

#include <pthread.h>

#define NS_PER_S INT64_C(1000000000)
#define N_THREADS 4
#define N_TRIES 20000

/* How many tokens can be taken at a moment, and when the next one comes. */
static size_t drain(struct ad_bucket *bucket, const struct ad_limit *limit,
                    int64_t now_ns, int64_t *wait_ns)
{
    size_t n = 0;
    while (n < 3 * (size_t)AD_BURST_MAX &&
           ad_bucket_take(bucket, limit, now_ns, wait_ns)) {
        ck_assert_int_eq(*wait_ns, 0);
        n++;
    }
    return n;
}

static const struct {
    double rate;
    uint64_t burst;
    int64_t wait_ns; /* from an empty bucket to the first token */
} limits[] = {
    {1, 1, NS_PER_S},
    {10, 5, NS_PER_S / 10},
    {0.001, 1, 1000 * NS_PER_S},
    {0.001, AD_BURST_MAX, 1000 * NS_PER_S},
    {1e6, AD_BURST_MAX, 1000},
    {3, 7, 333333333},
    {0.5, 2, 2 * NS_PER_S},
};

START_TEST(burst)
{
    const struct ad_limit limit = ad_limit_make(limits[_i].rate, limits[_i].burst);
    const int64_t starts[] = {0, 1, 123456789012345, INT64_C(4000000000000000000)};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct ad_bucket *bucket = ad_bucket_create();
        int64_t wait_ns = 0;
        const int64_t now_ns = starts[i];
        ck_assert_ptr_nonnull(bucket);
        ck_assert_uint_eq(drain(bucket, &limit, now_ns, &wait_ns), limits[_i].burst);
        ck_assert_int_eq(wait_ns, limits[_i].wait_ns);
        ck_assert_uint_eq(drain(bucket, &limit, now_ns + wait_ns - 1, &wait_ns), 0);
        ck_assert_int_eq(wait_ns, 1);
        ck_assert_uint_eq(drain(bucket, &limit, now_ns + limits[_i].wait_ns, &wait_ns),
                          1);
        ck_assert_int_eq(wait_ns, limits[_i].wait_ns);
        ad_bucket_release(bucket);
    }
}
END_TEST

START_TEST(fills_no_further)
{
    const struct ad_limit limit = ad_limit_make(10, 5);
    struct ad_bucket *bucket = ad_bucket_create();
    int64_t wait_ns = 0;
    ck_assert_uint_eq(drain(bucket, &limit, NS_PER_S, &wait_ns), 5);
    ck_assert_uint_eq(drain(bucket, &limit, NS_PER_S + NS_PER_S / 4, &wait_ns), 2);
    ck_assert_int_eq(wait_ns, NS_PER_S / 20);
    ck_assert_uint_eq(drain(bucket, &limit, 1000 * NS_PER_S, &wait_ns), 5);
    ad_bucket_release(bucket);
}
END_TEST

/* Another thread's clock may be a little behind. */
START_TEST(earlier)
{
    const struct ad_limit limit = ad_limit_make(10, 2);
    struct ad_bucket *bucket = ad_bucket_create();
    int64_t wait_ns = 0;
    ck_assert(ad_bucket_take(bucket, &limit, NS_PER_S, &wait_ns));
    ck_assert(ad_bucket_take(bucket, &limit, NS_PER_S - 10, &wait_ns) == false);
    ck_assert_int_eq(wait_ns, 10);
    ck_assert_uint_eq(drain(bucket, &limit, NS_PER_S, &wait_ns), 1);
    ad_bucket_release(bucket);
}
END_TEST

/* Nobody waits for tokens that a limit of a moment ago would have made rare. */
START_TEST(other_limit)
{
    const struct ad_limit slow = ad_limit_make(0.001, 100);
    const struct ad_limit fast = ad_limit_make(100, 10);
    struct ad_bucket *bucket = ad_bucket_create();
    int64_t wait_ns = 0;
    ck_assert_uint_eq(drain(bucket, &slow, NS_PER_S, &wait_ns), 100);
    ck_assert_uint_eq(drain(bucket, &fast, NS_PER_S, &wait_ns), 0);
    ck_assert_int_eq(wait_ns, NS_PER_S / 100);
    ck_assert_uint_eq(drain(bucket, &fast, NS_PER_S + NS_PER_S / 100, &wait_ns), 0);
    ad_bucket_release(bucket);
}
END_TEST

struct share {
    struct ad_bucket *bucket;
    struct ad_limit limit;
    size_t n_taken;
};

static void *take_share(void *context)
{
    struct share *share = context;
    int64_t wait_ns = 0;
    for (size_t i = 0; i < N_TRIES; i++) {
        share->n_taken +=
            ad_bucket_take(share->bucket, &share->limit, NS_PER_S, &wait_ns);
    }
    return NULL;
}

START_TEST(threads)
{
    pthread_t ids[N_THREADS];
    struct share shares[N_THREADS];
    struct ad_bucket *bucket = ad_bucket_create();
    size_t n_taken = 0;
    for (size_t i = 0; i < N_THREADS; i++) {
        shares[i] = (struct share){bucket, ad_limit_make(1, N_TRIES / 2), 0};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, take_share, &shares[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(ids[i], NULL);
        n_taken += shares[i].n_taken;
    }
    ck_assert_uint_eq(n_taken, N_TRIES / 2);
    ad_bucket_release(bucket);
    ad_bucket_release(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rate");
    TCase *tcase = tcase_create("rate");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, burst, 0, sizeof limits / sizeof limits[0]);
    tcase_add_test(tcase, fills_no_further);
    tcase_add_test(tcase, earlier);
    tcase_add_test(tcase, other_limit);
    tcase_add_test(tcase, threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
