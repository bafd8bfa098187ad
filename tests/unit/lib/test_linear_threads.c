/* test_linear_threads.c - projections from many threads at once. */
#include "unit/lib/linear_problem.h"

#include <pthread.h>

#define N_THREADS 8
#define N_CALLS 4000 /* each */

struct caller {
    pthread_t thread;
    const struct problem *problems;
    size_t n_problems;
    size_t n_wrong;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (size_t i = 0; i < N_CALLS; i++) {
        const struct problem *p = &caller->problems[i % caller->n_problems];
        float *y = need_memory(p->n_rows * p->linear.n_out * sizeof *y);
        apply(p, y);
        caller->n_wrong += !is_right(p, y);
        free(y);
    }
    return NULL;
}

/* A serial build of the matrix library shares work buffers among threads: results then go wrong
 * unless calls take turns. */
START_TEST(many_threads)
{
    static const size_t sizes[] = {96, 64, 33};
    struct dice dice = {4};
    struct problem problems[COUNT(sizes)];
    struct caller callers[N_THREADS];
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problems[i] =
            make_problem(&dice, sizes[i], 96, sizes[i], BIAS | (unsigned)(i & IN_OUT));
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        callers[i] = (struct caller){.problems = problems, .n_problems = COUNT(sizes)};
        ck_assert_int_eq(
            pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    size_t n_wrong = 0;
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(callers[i].thread, NULL), 0);
        n_wrong += callers[i].n_wrong;
    }
    ck_assert_msg(n_wrong == 0, "%zu of %d results are wrong", n_wrong,
                  N_THREADS * N_CALLS);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problem_free(&problems[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linear_threads");
    TCase *tcase = tcase_create("linear_threads");
    tcase_set_timeout(tcase, 300); /* sanitizers are slow, and machines busy */
    tcase_add_test(tcase, many_threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
