/* test_linear.c - projections against sums in double precision, and from many threads at once. */
#include "linear.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>
#include <pthread.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct problem {
    struct attni_linear linear;
    size_t n_rows;
    float *weight, *bias, *x, *y;
    double *expected, *size; /* of each y: its value, and the sum of its terms' sizes */
};

static void solve(struct problem *p)
{
    const struct attni_linear *l = &p->linear;
    for (size_t r = 0; r < p->n_rows; r++) {
        for (size_t o = 0; o < l->n_out; o++) {
            double sum = l->bias ? (double)p->bias[o] : 0, size = fabs(sum);
            for (size_t i = 0; i < l->n_in; i++) {
                size_t at = l->in_out ? i * l->n_out + o : o * l->n_in + i;
                double term = (double)p->weight[at] * (double)p->x[r * l->n_in + i];
                sum += term;
                size += fabs(term);
            }
            p->expected[r * l->n_out + o] = sum;
            p->size[r * l->n_out + o] = size;
        }
    }
}

/* Every array starts one float past an aligned address. */
static float *odd_floats(struct dice *dice, size_t n)
{
    float *memory = need_memory((n + 1) * sizeof *memory);
    dice_fill(dice, memory, n + 1, 1);
    return memory + 1;
}

static struct problem make_problem(struct dice *dice, size_t n_rows, size_t n_in,
                                   size_t n_out, bool in_out, bool bias)
{
    struct problem p = {.n_rows = n_rows,
                        .weight = odd_floats(dice, n_in * n_out),
                        .bias = odd_floats(dice, n_out),
                        .x = odd_floats(dice, n_rows * n_in),
                        .y = odd_floats(dice, n_rows * n_out),
                        .expected = need_memory(n_rows * n_out * sizeof(double)),
                        .size = need_memory(n_rows * n_out * sizeof(double))};
    p.linear = (struct attni_linear){.weight = p.weight,
                                     .bias = bias ? p.bias : NULL,
                                     .n_in = n_in,
                                     .n_out = n_out,
                                     .in_out = in_out};
    solve(&p);
    return p;
}

static void problem_free(struct problem *p)
{
    free(p->weight - 1);
    free(p->bias - 1);
    free(p->x - 1);
    free(p->y - 1);
    free(p->expected);
    free(p->size);
}

/* A float sum of n terms in any order is off by less than n roundings of the sum of their sizes. */
static bool is_right(const struct problem *p, const float *y)
{
    bool right = true;
    for (size_t i = 0; i < p->n_rows * p->linear.n_out; i++) {
        double tolerance = p->size[i] * (double)(p->linear.n_in + 1) * 6e-8;
        right = right && fabs((double)y[i] - p->expected[i]) <= tolerance;
    }
    return right;
}

START_TEST(odd_sizes)
{
    static const size_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 65};
    struct dice dice = {1};
    attni_linear_start();
    for (size_t k = 0; k < COUNT(sizes) * COUNT(sizes) * 4; k++) {
        size_t n_rows = k % 3 == 0   ? sizes[k % COUNT(sizes)]
                        : k % 3 == 1 ? 1
                                     : ATTNI_LINEAR_ROWS - k % 2;
        struct problem p = make_problem(&dice, n_rows, sizes[k / 4 % COUNT(sizes)],
                                        sizes[k / 4 / COUNT(sizes)], k & 1, k & 2);
        /* what the memory held before must not matter, were it NaN */
        for (size_t i = 0; i < n_rows * p.linear.n_out; i++) {
            p.y[i] = NAN;
        }
        attni_linear_apply(&p.linear, n_rows, p.x, p.y);
        ck_assert_msg(is_right(&p, p.y), "%zu rows, %zu to %zu", n_rows, p.linear.n_in,
                      p.linear.n_out);
        problem_free(&p);
    }
}
END_TEST

START_TEST(no_rows)
{
    struct dice dice = {2};
    struct problem p = make_problem(&dice, 1, 3, 4, false, true);
    p.y[0] = 12345;
    attni_linear_apply(&p.linear, 0, NULL, p.y);
    attni_linear_apply(&p.linear, 0, NULL, NULL);
    ck_assert_float_eq(p.y[0], 12345);
    problem_free(&p);
}
END_TEST

/* A row's NaN or infinity stays in that row. */
START_TEST(rows_apart)
{
    struct dice dice = {3};
    for (size_t n_rows = 2; n_rows < 40; n_rows++) {
        struct problem p = make_problem(&dice, n_rows, 17, 19, n_rows & 1, true);
        size_t spoilt = dice_below(&dice, n_rows);
        p.x[spoilt * 17 + 5] = n_rows & 2 ? NAN : INFINITY;
        solve(&p);
        attni_linear_apply(&p.linear, n_rows, p.x, p.y);
        for (size_t i = 0; i < n_rows * 19; i++) {
            ck_assert(isfinite(p.y[i]) == (i / 19 != spoilt));
        }
        problem_free(&p);
    }
}
END_TEST

/* ---- many threads -------------------------------------------------------------------------- */

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
        attni_linear_apply(&p->linear, p->n_rows, p->x, y);
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
    attni_linear_start();
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problems[i] = make_problem(&dice, sizes[i], 96, sizes[i], i & 1, true);
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
    Suite *suite = suite_create("linear");
    TCase *tcase = tcase_create("linear");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, odd_sizes);
    tcase_add_test(tcase, no_rows);
    tcase_add_test(tcase, rows_apart);
    tcase_add_test(tcase, many_threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
