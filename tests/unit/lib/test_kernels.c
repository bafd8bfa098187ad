/* test_kernels.c - every table of kernels against double precision: sizes around the width of
 * vectors, odd addresses, rows that are blocked, infinite, NaN, huge, tiny. */
#include "kernels/kernels.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <float.h>
#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Twice the widest vector, and one more. */
#define MOST (2 * 16 + 1)
/* Floats beside each array that must stay as they are. */
#define MARGIN 4

static const struct attni_kernels *const tables[] = {&attni_kernels_ref};

/* An array of n floats at an address that is `shift` floats past an aligned one. */
struct guarded {
    float memory[MOST * MOST * 3 + 16 + 2 * MARGIN];
    float *data;
    size_t n;
};

static float *guard(struct guarded *guarded, size_t n, size_t shift)
{
    for (size_t i = 0; i < COUNT(guarded->memory); i++) {
        guarded->memory[i] = -12345.0f;
    }
    guarded->data = guarded->memory + MARGIN + shift;
    guarded->n = n;
    ck_assert_uint_le(n + shift + 2 * MARGIN, COUNT(guarded->memory));
    return guarded->data;
}

static void check_guard(const struct guarded *guarded)
{
    for (size_t i = 0; i < MARGIN; i++) {
        ck_assert_float_eq(guarded->data[guarded->n + i], -12345.0f);
        ck_assert_float_eq(guarded->data[-1 - (ptrdiff_t)i], -12345.0f);
    }
}

static const char *table_name(int index)
{
    return tables[index]->name;
}

static void check_near(int table, double got, double expected, double tolerance)
{
    ck_assert_msg(isnan(expected) ? isnan(got)
                                  : got == expected || fabs(got - expected) <= tolerance,
                  "%s: expected %.9g, got %.9g", table_name(table), expected, got);
}

/* ---- scores -------------------------------------------------------------------------------- */

/* A float sum of n products, in any order, is off by less than n roundings of the sum of their
 * sizes; scaling rounds twice more. */
static void check_scores(int table, size_t n_queries, size_t n_keys, size_t width,
                         size_t shift, struct dice *dice)
{
    static struct guarded query, key, scores;
    size_t query_stride = width + shift, key_stride = width + 2 * shift,
           score_stride = n_keys + shift;
    dice_fill(dice, guard(&query, n_queries * query_stride, shift),
              n_queries * query_stride, 2);
    dice_fill(dice, guard(&key, n_keys * key_stride, shift), n_keys * key_stride, 2);
    guard(&scores, n_queries * score_stride, shift);
    float scale = dice_real(dice);
    tables[table]->scores_f32(n_queries, n_keys, width, scale, query.data, query_stride,
                              key.data, key_stride, scores.data, score_stride);
    for (size_t i = 0; i < n_queries; i++) {
        for (size_t j = 0; j < n_keys; j++) {
            double sum = 0, size = 0;
            for (size_t d = 0; d < width; d++) {
                double product = (double)query.data[i * query_stride + d] *
                                 (double)key.data[j * key_stride + d];
                sum += product;
                size += fabs(product);
            }
            check_near(table, (double)scores.data[i * score_stride + j],
                       (double)scale * sum,
                       fabs((double)scale) * size * (double)(width + 2) * 6e-8);
        }
        for (size_t j = n_keys; j < score_stride; j++) {
            ck_assert_float_eq(scores.data[i * score_stride + j], -12345.0f);
        }
    }
    check_guard(&scores);
}

START_TEST(scores)
{
    struct dice dice = {1};
    for (size_t size = 0; size <= MOST; size++) {
        for (size_t shift = 0; shift < 3; shift++) {
            check_scores(_i, 3, 5, size, shift, &dice);
            check_scores(_i, size, 2, 7, shift, &dice);
            check_scores(_i, 2, size, 7, shift, &dice);
        }
    }
    check_scores(_i, MOST, MOST, MOST, 1, &dice);
}
END_TEST

START_TEST(scores_not_finite)
{
    for (size_t width = 1; width <= MOST; width++) {
        float query[MOST] = {0}, key[MOST] = {0}, score = 0;
        query[width - 1] = INFINITY;
        key[width - 1] = 1;
        tables[_i]->scores_f32(1, 1, width, 1, query, width, key, width, &score, 1);
        ck_assert(score == INFINITY);
        key[width - 1] = 0;
        tables[_i]->scores_f32(1, 1, width, 1, query, width, key, width, &score, 1);
        ck_assert(isnan(score));
        query[width - 1] = 1e-30f; /* a product far below the smallest float is 0 */
        key[width - 1] = 1e-30f;
        tables[_i]->scores_f32(1, 1, width, 1, query, width, key, width, &score, 1);
        ck_assert(score == 0);
    }
}
END_TEST

/* ---- clip ---------------------------------------------------------------------------------- */

/* tanh in float is good to 2 units in the last place; the product rounds once more. */
START_TEST(clipping)
{
    static const float extremes[] = {0,      INFINITY, -INFINITY, FLT_MAX,  -FLT_MAX,
                                     1e-40f, 1e-5f,    9.5f,      -0.0003f, 88.0f};
    static const float clips[] = {10, -2.5f, 0, 1e30f};
    static struct guarded row;
    struct dice dice = {2};
    for (size_t n = 0; n <= MOST; n++) {
        float before[MOST + 1];
        float clip = clips[n % COUNT(clips)];
        guard(&row, n, n % 3);
        dice_fill(&dice, before, MOST + 1, 4);
        for (size_t i = 0; i < COUNT(extremes) && i < n; i++) {
            before[n - 1 - i] = extremes[i];
        }
        memcpy(row.data, before, n * sizeof *before);
        tables[_i]->clip_f32(n, clip, row.data);
        for (size_t j = 0; j < n; j++) {
            double expected = (double)clip * tanh((double)before[j]);
            check_near(_i, (double)row.data[j], expected,
                       fabs(expected) * 4e-7 + 1e-45 * fabs((double)clip));
        }
        check_guard(&row);
    }
    float nan = NAN;
    tables[_i]->clip_f32(1, 10, &nan);
    ck_assert(isnan(nan));
}
END_TEST

/* ---- softmax ------------------------------------------------------------------------------- */

/* The exponent's argument is off by half a unit in its last place (up to 6e-8 of its size, and the
 * share is 0 for arguments below -104), exp by another, and so are sum and product: 1e-5 of the
 * share covers it. What is below float's normal range may be flushed to 0. */
static void check_softmax(int table, const float *before, size_t n, size_t shift)
{
    static struct guarded row;
    memcpy(guard(&row, n, shift), before, n * sizeof *before);
    ck_assert(tables[table]->softmax_f32(n, row.data));
    double max = -INFINITY, sum = 0, total = 0;
    for (size_t j = 0; j < n; j++) {
        max = fmax(max, (double)before[j]);
    }
    for (size_t j = 0; j < n; j++) {
        sum += exp((double)before[j] - max);
    }
    for (size_t j = 0; j < n; j++) {
        double expected = exp((double)before[j] - max) / sum;
        check_near(table, (double)row.data[j], expected,
                   expected * 1e-5 + (double)FLT_MIN);
        total += (double)row.data[j];
        ck_assert(before[j] != -INFINITY || row.data[j] == 0);
    }
    check_near(table, total, 1, 1e-5);
    check_guard(&row);
}

START_TEST(softmax)
{
    static const float sizes[] = {1e-42f, 1e-3f, 1, 30, 100, 1e6f, 3e38f};
    struct dice dice = {3};
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t k = 0; k < COUNT(sizes); k++) {
            float row[MOST];
            dice_fill(&dice, row, n, sizes[k]);
            check_softmax(_i, row, n, k % 3);
            for (size_t j = 0; j + 1 < n; j++) {
                row[(j + k) % n] = dice_bool(&dice) ? -INFINITY : row[(j + k) % n];
            }
            row[dice_below(&dice, n)] = sizes[k];
            check_softmax(_i, row, n, k % 3);
        }
    }
}
END_TEST

START_TEST(softmax_of_equals)
{
    static const float values[] = {0, 1e-45f, -FLT_MAX, FLT_MAX, -77};
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t k = 0; k < COUNT(values); k++) {
            float row[MOST];
            for (size_t j = 0; j < n; j++) {
                row[j] = values[k];
            }
            check_softmax(_i, row, n, 1);
        }
    }
}
END_TEST

START_TEST(softmax_of_nothing)
{
    for (size_t n = 0; n <= MOST; n++) {
        static struct guarded row;
        guard(&row, n, n % 3);
        for (size_t j = 0; j < n; j++) {
            row.data[j] = -INFINITY;
        }
        ck_assert(!tables[_i]->softmax_f32(n, row.data));
        for (size_t j = 0; j < n; j++) {
            ck_assert(row.data[j] == -INFINITY);
        }
        check_guard(&row);
    }
}
END_TEST

/* NaN anywhere makes all NaN, -inf beside it or not; so does +inf, whose share is inf / inf. */
START_TEST(softmax_not_finite)
{
    static const float spoilers[] = {NAN, INFINITY};
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t k = 0; k < 4 * n; k++) {
            float row[MOST];
            for (size_t j = 0; j < n; j++) {
                row[j] = k & 1 ? -INFINITY : (float)j;
            }
            row[k / 4] = spoilers[k / 2 % 2];
            ck_assert(tables[_i]->softmax_f32(n, row));
            ck_assert(isnan(row[k / 4]));
            for (size_t j = 0; j < n; j++) {
                ck_assert(isnan(row[j]) || k / 2 % 2 == 1);
            }
        }
    }
}
END_TEST

/* ---- weighted sum -------------------------------------------------------------------------- */

static void check_sum(int table, size_t n, size_t width, size_t shift, struct dice *dice)
{
    static struct guarded weight, value, out;
    size_t stride = width + shift;
    dice_fill(dice, guard(&weight, n, shift), n, 1);
    dice_fill(dice, guard(&value, n * stride, shift), n * stride, 3);
    guard(&out, width, shift);
    tables[table]->weighted_sum_f32(n, width, weight.data, value.data, stride, out.data);
    for (size_t d = 0; d < width; d++) {
        double sum = 0, size = 0;
        for (size_t j = 0; j < n; j++) {
            double term = (double)weight.data[j] * (double)value.data[j * stride + d];
            sum += term;
            size += fabs(term);
        }
        check_near(table, (double)out.data[d], sum, size * (double)(n + 1) * 6e-8);
    }
    check_guard(&out);
}

START_TEST(weighted_sum)
{
    struct dice dice = {4};
    for (size_t size = 0; size <= MOST; size++) {
        for (size_t shift = 0; shift < 3; shift++) {
            check_sum(_i, 5, size, shift, &dice);
            check_sum(_i, size, 3, shift, &dice);
        }
    }
    check_sum(_i, MOST, MOST, 1, &dice);
}
END_TEST

/* A key of weight 0 may hold anything: padding is often garbage. */
START_TEST(weight_of_zero)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    for (size_t width = 1; width <= MOST; width++) {
        for (size_t k = 0; k < 3; k++) {
            float weight[3] = {0.25f, -0.0f, 0.5f}, value[3 * MOST], out[MOST];
            weight[1] = k == 0 ? 0.0f : -0.0f;
            for (size_t d = 0; d < width; d++) {
                value[d] = 4;
                value[width + d] = garbage[(d + k) % 3];
                value[2 * width + d] = 6;
            }
            tables[_i]->weighted_sum_f32(3, width, weight, value, width, out);
            for (size_t d = 0; d < width; d++) {
                ck_assert_float_eq(out[d], 4);
            }
            weight[0] = NAN;
            tables[_i]->weighted_sum_f32(3, width, weight, value, width, out);
            for (size_t d = 0; d < width; d++) {
                ck_assert(isnan(out[d]));
            }
        }
    }
}
END_TEST

/* ---- choice -------------------------------------------------------------------------------- */

START_TEST(chosen_table)
{
    bool listed = false;
    for (size_t i = 0; i < COUNT(tables); i++) {
        listed = listed || tables[i] == attni_kernels();
    }
    ck_assert(listed);
    ck_assert_str_eq(attni_kernels()->name, attn_kernels_name());
    const char *wanted = getenv("ATTN_ISA");
    for (size_t i = 0; wanted && i < COUNT(tables); i++) {
        if (strcmp(wanted, tables[i]->name) == 0) {
            ck_assert_str_eq(attn_kernels_name(), wanted);
        }
    }
}
END_TEST

int main(void)
{
    int n = (int)COUNT(tables);
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_loop_test(tcase, scores, 0, n);
    tcase_add_loop_test(tcase, scores_not_finite, 0, n);
    tcase_add_loop_test(tcase, clipping, 0, n);
    tcase_add_loop_test(tcase, softmax, 0, n);
    tcase_add_loop_test(tcase, softmax_of_equals, 0, n);
    tcase_add_loop_test(tcase, softmax_of_nothing, 0, n);
    tcase_add_loop_test(tcase, softmax_not_finite, 0, n);
    tcase_add_loop_test(tcase, weighted_sum, 0, n);
    tcase_add_loop_test(tcase, weight_of_zero, 0, n);
    tcase_add_test(tcase, chosen_table);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
