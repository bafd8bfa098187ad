/* Does the memory for waiting bodies stay within its limit, and is there always some for who comes
 * next? */
#include "sched/budget.h"

#include "unit/support.h"

#include <pthread.h>
#include <stdint.h>

#define LIMIT ((size_t)3000)
#define MAX_HOLDERS 4

/* n_holders take turns to ask for step bytes more until nobody gets any: what each of them has. */
static const struct {
    size_t n_holders, step, each;
} floods[] = {
    {1, 1, LIMIT / 2}, {2, 1, LIMIT / 3}, {3, 1, LIMIT / 4},
    {4, 1, LIMIT / 5}, {1, 700, 1400}, /* not 2100, which would leave 900 */
};

START_TEST(a_holder_has_as_much_as_it_leaves)
{
    struct ad_budget budget = {.limit = LIMIT};
    atomic_size_t shares[MAX_HOLDERS] = {0};
    size_t n_holders = floods[_i].n_holders, n_more = 1;
    while (n_more > 0) {
        n_more = 0;
        for (size_t i = 0; i < n_holders; i++) {
            n_more += ad_budget_take(&budget, &shares[i], floods[_i].step);
        }
    }
    for (size_t i = 0; i < n_holders; i++) {
        ck_assert_uint_eq(atomic_load(&shares[i]), floods[_i].each);
    }
    ck_assert_uint_eq(atomic_load(&budget.total), n_holders * floods[_i].each);
    /* whoever comes next finds room */
    atomic_size_t next = 0;
    ck_assert(ad_budget_take(&budget, &next, floods[_i].step));
    ad_budget_give(&budget, &next, floods[_i].step);
    for (size_t i = 0; i < n_holders; i++) {
        ad_budget_give(&budget, &shares[i], floods[_i].each);
        ck_assert_uint_eq(atomic_load(&shares[i]), 0);
    }
    ck_assert_uint_eq(atomic_load(&budget.total), 0);
}
END_TEST

static const struct {
    size_t limit, n;
    bool fits;
} sizes[] = {
    {100, 0, true},
    {100, 50, true},
    {100, 51, false},
    {100, 100, false},
    {100, SIZE_MAX, false},
    {0, 0, true},
    {0, 1, false},
    {SIZE_MAX, SIZE_MAX, false},
    {SIZE_MAX, SIZE_MAX / 2, true},
};

START_TEST(one_body)
{
    struct ad_budget budget = {.limit = sizes[_i].limit};
    atomic_size_t share = 0;
    ck_assert(ad_budget_take(&budget, &share, sizes[_i].n) == sizes[_i].fits);
    size_t held = sizes[_i].fits ? sizes[_i].n : 0;
    ck_assert_uint_eq(atomic_load(&share), held);
    ck_assert_uint_eq(atomic_load(&budget.total), held);
}
END_TEST

/* ---- many at once ---------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_ROUNDS 20000

struct crowd {
    struct ad_budget budget;
    atomic_size_t shares[2]; /* two threads each */
    atomic_size_t granted;   /* what the threads hold at least */
    atomic_int n_over, n_taken, n_threads;
};

static void *take_and_give(void *argument)
{
    struct crowd *crowd = argument;
    unsigned state = (unsigned)atomic_fetch_add(&crowd->n_threads, 1);
    atomic_size_t *share = &crowd->shares[state % 2];
    for (size_t i = 0; i < N_ROUNDS; i++) {
        state = state * 1664525 + 1013904223;
        size_t n = state >> 20;
        if (ad_budget_take(&crowd->budget, share, n)) {
            size_t now = atomic_fetch_add(&crowd->granted, n) + n;
            atomic_fetch_add(&crowd->n_over, now > crowd->budget.limit);
            atomic_fetch_add(&crowd->n_taken, 1);
            atomic_fetch_sub(&crowd->granted, n);
            ad_budget_give(&crowd->budget, share, n);
        }
    }
    return NULL;
}

START_TEST(never_over_the_limit)
{
    pthread_t threads[N_THREADS];
    struct crowd crowd = {.budget = {.limit = 6000}};
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, &crowd), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&crowd.n_over), 0);
    ck_assert_int_gt(atomic_load(&crowd.n_taken), N_ROUNDS / 10);
    ck_assert_uint_eq(atomic_load(&crowd.shares[0]), 0);
    ck_assert_uint_eq(atomic_load(&crowd.shares[1]), 0);
    ck_assert_uint_eq(atomic_load(&crowd.budget.total), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *tcase = tcase_create("budget");
    tcase_add_loop_test(tcase, a_holder_has_as_much_as_it_leaves, 0,
                        sizeof floods / sizeof *floods);
    tcase_add_loop_test(tcase, one_body, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(tcase, never_over_the_limit);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
