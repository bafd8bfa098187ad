/* test_moments.c - mean and variance over draws, against two passes in double precision. */
#include "moments.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>

#define N 40000 /* more than two tasks */

/* Values far from 0 that differ by little: the mean of their squares would tell nothing. */
static float value_of(size_t draw, size_t i)
{
    struct dice dice = {draw * N + i};
    return 1000.0f + 0.01f * dice_real(&dice);
}

static void gather(const struct attni_moments *moments, size_t n_draws, float *mean,
                   float *variance)
{
    float *values = need_memory(N * sizeof *values);
    for (size_t draw = 0; draw < n_draws; draw++) {
        for (size_t i = 0; i < N; i++) {
            values[i] = value_of(draw, i);
        }
        for (size_t task = attni_moments_n_tasks(moments); task-- > 0;) {
            attni_moments_add(moments, draw, values, task);
        }
    }
    for (size_t task = attni_moments_n_tasks(moments); task-- > 0;) {
        attni_moments_finish(moments, n_draws, mean, variance, task);
    }
    free(values);
}

START_TEST(two_passes)
{
    size_t n_draws = (size_t)_i, n_bytes = 0;
    ck_assert(attni_moments_bytes(N, &n_bytes));
    double *memory = need_memory(n_bytes);
    memset(memory, 0xff, n_bytes); /* what was there does not matter */
    const struct attni_moments moments = {memory, memory + N, N};
    float *mean = need_memory(N * sizeof *mean);
    float *variance = need_memory(N * sizeof *variance);
    gather(&moments, n_draws, mean, variance);
    for (size_t i = 0; i < N; i += 97) {
        double sum = 0, squares = 0;
        for (size_t draw = 0; draw < n_draws; draw++) {
            sum += (double)value_of(draw, i);
        }
        sum /= (double)n_draws;
        for (size_t draw = 0; draw < n_draws; draw++) {
            squares += pow((double)value_of(draw, i) - sum, 2);
        }
        squares /= (double)n_draws;
        /* each is rounded to a float */
        ck_assert_double_le(fabs((double)mean[i] - sum), fabs(sum) * 6e-8);
        ck_assert_double_le(fabs((double)variance[i] - squares), squares * 1e-6);
    }
    free(memory);
    free(mean);
    free(variance);
}
END_TEST

/* Either may be left out; what is not finite shows in both. */
START_TEST(one_of_both)
{
    double memory[2 * 3];
    const struct attni_moments moments = {memory, memory + 3, 3};
    static const float draws[2][3] = {{1, INFINITY, NAN}, {3, 1, 1}};
    float mean[3], variance[3];
    for (size_t draw = 0; draw < 2; draw++) {
        attni_moments_add(&moments, draw, draws[draw], 0);
    }
    attni_moments_finish(&moments, 2, mean, NULL, 0);
    attni_moments_finish(&moments, 2, NULL, variance, 0);
    ck_assert_float_eq(mean[0], 2);
    ck_assert_float_eq(variance[0], 1);
    for (size_t i = 1; i < 3; i++) {
        ck_assert(!isfinite(mean[i]));
        ck_assert(isnan(variance[i]));
    }
}
END_TEST

START_TEST(too_many)
{
    size_t n_bytes;
    ck_assert(!attni_moments_bytes(SIZE_MAX / 8, &n_bytes));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("moments");
    TCase *tcase = tcase_create("moments");
    tcase_add_loop_test(tcase, two_passes, 1, 6);
    tcase_add_test(tcase, one_of_both);
    tcase_add_test(tcase, too_many);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
