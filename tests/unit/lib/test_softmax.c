/* test_softmax.c - the softmax that comes in parts, in every table that runs here, against one in
 * double precision: rows cut anywhere, blocked, infinite, NaN, huge, tiny. */
#include "unit/lib/kernel_tables.h"

#include <float.h>

/* Rows that go through a step together, and the longest of them: twice the widest vector and one
 * more. */
#define N_ROWS 3
#define MOST (2 * 16 + 1)

static struct arena row_memory;

/* A softmax under way, and what its steps gave. */
struct softmax {
    const struct attni_kernels *table;
    float scale, max[N_ROWS], sum[N_ROWS];
    float weights[N_ROWS][4 * MOST]; /* under the present maximum */
    size_t n[N_ROWS];                /* gathered so far */
};

static struct softmax begin_softmax(const struct attni_kernels *table, float scale)
{
    struct softmax s = {.table = table, .scale = scale};
    for (size_t i = 0; i < N_ROWS; i++) {
        s.max[i] = -INFINITY;
    }
    return s;
}

/* A step over n[i] elements of each row; sees that the padding is 0 and nothing else is written. */
static void step(struct softmax *s, const float *const *parts, const size_t n[N_ROWS])
{
    size_t lanes = s->table->n_lanes, stride = 0;
    float factor[N_ROWS];
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t whole = (n[i] + lanes - 1) / lanes * lanes;
        stride = whole > stride ? whole : stride;
    }
    stride += n[0] % 2;
    size_t last = (n[N_ROWS - 1] + lanes - 1) / lanes * lanes;
    float *rows = arena_floats(&row_memory, (N_ROWS - 1) * stride + last);
    for (size_t i = 0; i < N_ROWS; i++) {
        for (size_t j = 0; j < n[i]; j++) {
            rows[i * stride + j] = parts[i][j];
        }
    }
    s->table->softmax_step_f32(N_ROWS, n, s->scale, rows, stride, s->max, s->sum, factor);
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t whole = (n[i] + lanes - 1) / lanes * lanes;
        for (size_t j = 0; j < s->n[i]; j++) {
            s->weights[i][j] *= factor[i];
        }
        for (size_t j = 0; j < n[i]; j++) {
            s->weights[i][s->n[i]++] = rows[i * stride + j];
        }
        for (size_t j = n[i]; j < whole; j++) {
            ck_assert_float_eq(rows[i * stride + j], 0);
        }
        if (i + 1 < N_ROWS) {
            check_untouched(rows + i * stride + whole, stride - whole);
        }
    }
    check_margin(&row_memory);
}

/* Against a softmax in double precision. A scaled score and the maximum may each be rounded (6e-8 of
 * their size), and so may their difference, at most 88 in size (5e-6), and each step's factor; exp, sum
 * and quotient add a few units. A share is wrong by as much as its argument, in proportion. What is
 * below the normal range may be flushed to 0. */
static void check_softmax(const struct softmax *s, size_t i, const float *row)
{
    double max = -(double)INFINITY, sum = 0, scale = (double)s->scale;
    for (size_t j = 0; j < s->n[i]; j++) {
        max = fmax(max, scale * (double)row[j]);
    }
    if (max == -(double)INFINITY) {
        ck_assert(s->max[i] == -INFINITY && s->sum[i] == 0);
        for (size_t j = 0; j < s->n[i]; j++) {
            ck_assert_float_eq(s->weights[i][j], 0);
        }
        return;
    }
    check_near(s->table, s->max[i], max, fabs(max) * 6e-8 + 1.5e-45);
    for (size_t j = 0; j < s->n[i]; j++) {
        sum += exp(scale * (double)row[j] - max);
    }
    for (size_t j = 0; j < s->n[i]; j++) {
        double score = scale * (double)row[j], expected = exp(score - max) / sum;
        double rounding = isfinite(score) ? 6e-8 * (fabs(score) + fabs(max)) : 0;
        check_near(s->table, s->weights[i][j] / s->sum[i], expected,
                   expected * (2e-5 + rounding) + (double)FLT_MIN);
    }
}

/* Rows of which some elements are blocked; the first parts of some rows are blocked altogether. */
static void fill_row(struct dice *dice, float *row, size_t n, float size, size_t closed)
{
    size_t rare = dice_below(dice, 4);
    dice_fill(dice, row, n, size);
    for (size_t j = 0; j < n; j++) {
        if (j < closed || (rare && dice_below(dice, 1 + rare) == 0)) {
            row[j] = -INFINITY;
        }
    }
}

/* Three rows in one, two or three parts, each cut where it falls. */
static void check_parts(const struct attni_kernels *table, struct dice *dice, size_t most,
                        float size)
{
    static const float scales[] = {1, 0.125f, 0.57735027f, 0.1f};
    struct softmax s = begin_softmax(table, scales[dice_below(dice, COUNT(scales))]);
    float rows[N_ROWS][3 * MOST];
    size_t n[3][N_ROWS], n_parts = 1 + dice_below(dice, 3);
    for (size_t i = 0; i < N_ROWS; i++) {
        n[0][i] = most;
        n[1][i] = dice_below(dice, most + 1);
        n[2][i] = dice_below(dice, most + 1);
        size_t closed = dice_below(dice, 3) ? 0 : dice_below(dice, 3 * most + 1);
        fill_row(dice, rows[i], 3 * most, size, closed);
    }
    for (size_t part = 0; part < n_parts; part++) {
        const float *parts[N_ROWS];
        for (size_t i = 0; i < N_ROWS; i++) {
            parts[i] = rows[i] + s.n[i];
        }
        step(&s, parts, n[part]);
        for (size_t i = 0; i < N_ROWS; i++) {
            check_softmax(&s, i, rows[i]);
        }
    }
}

START_TEST(parts)
{
    static const float sizes[] = {0, 1e-42f, 1e-3f, 1, 30, 100, 1000};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {1};
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t k = 0; k < 4 * COUNT(sizes); k++) {
            check_parts(table, &dice, n, sizes[k % COUNT(sizes)]);
        }
    }
}
END_TEST

/* One row alone through a step. */
static struct softmax one_step(const struct attni_kernels *table, float scale,
                               const float *row, size_t n)
{
    struct softmax s = begin_softmax(table, scale);
    const float *const rows[N_ROWS] = {row, row, row};
    step(&s, rows, (const size_t[N_ROWS]){n, n, n});
    return s;
}

/* Scores so large that their rounding alone is worth many factors of e: equal ones have equal shares,
 * all others nothing, whatever the scale does to them. */
START_TEST(huge)
{
    static const float sizes[] = {2e6f, 1e10f, -1e10f, 1e25f, 3e38f, -1e38f, FLT_MAX};
    static const float scales[] = {1, 0.57735027f, 0.1f, 0.03f};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t k = 0; k < COUNT(sizes) * COUNT(scales); k++) {
        float size = sizes[k % COUNT(sizes)], scale = scales[k / COUNT(sizes)];
        for (size_t n = 1; n <= MOST; n++) {
            float row[MOST];
            size_t n_equal = 0;
            for (size_t j = 0; j < n; j++) {
                bool equal = j % 3 == n % 3 || j + 1 == n;
                row[j] = equal ? size : size - fabsf(size) * 0.01f;
                n_equal += equal;
            }
            struct softmax s = one_step(table, scale, row, n);
            for (size_t j = 0; j < n; j++) {
                float share = s.weights[0][j] / s.sum[0];
                check_near(table, share, row[j] == size ? 1 / (double)n_equal : 0, 1e-6);
            }
            /* the probabilities, made from the scores and the maximum, are the same */
            float again[MOST];
            memcpy(again, row, n * sizeof *again);
            table->exponential_f32(n, scale, s.max[0], 1 / s.sum[0], again);
            for (size_t j = 0; j < n; j++) {
                check_near(table, again[j], row[j] == size ? 1 / (double)n_equal : 0,
                           1e-6);
            }
        }
    }
}
END_TEST

/* What came before a much larger maximum is multiplied by 0, and counts for nothing. */
START_TEST(factor_of_zero)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    const float low[] = {-3, -2, -1}, high[] = {3e38f, -3e38f, 200};
    struct softmax s = one_step(table, 1, low, 3);
    const float *const rows[N_ROWS] = {high, high, high};
    step(&s, rows, (const size_t[N_ROWS]){3, 3, 3});
    for (size_t j = 0; j < 6; j++) {
        ck_assert_float_eq(s.weights[0][j], j == 3);
    }
    ck_assert_float_eq(s.sum[0], 1);
    ck_assert_float_eq(s.max[0], 3e38f);
}
END_TEST

/* NaN of any bits, in any place, beside numbers or -inf, before or after other parts: the sum is NaN
 * and stays NaN. So it is with +inf, whose share is inf / inf. Rows beside it are left alone. */
START_TEST(not_finite)
{
    static const uint32_t bits[] = {0x7fc00000, 0xffc00001, 0x7f800001,
                                    0x7fc00155, 0xffffffff, 0x7f800000};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t k = 0; k < MOST * COUNT(bits) * 4; k++) {
        size_t place = k % MOST, n = place + 1 + k % (MOST - place);
        bool among_blocked = k / MOST & 1, first = k / MOST & 2;
        float spoilt[MOST], good[MOST];
        for (size_t j = 0; j < n; j++) {
            good[j] = (float)(j % 7);
            spoilt[j] = among_blocked ? -INFINITY : good[j];
        }
        memcpy(&spoilt[place], &bits[k / MOST / 4], sizeof *spoilt);
        struct softmax s = begin_softmax(table, 0.57735027f);
        const float *const with[N_ROWS] = {good, spoilt, good};
        const float *const without[N_ROWS] = {good, good, good};
        step(&s, first ? with : without, (const size_t[N_ROWS]){n, n, n});
        ck_assert(isnan(s.sum[1]) == first);
        step(&s, first ? without : with, (const size_t[N_ROWS]){n, n, n});
        ck_assert(isnan(s.sum[1]));
        step(&s, without, (const size_t[N_ROWS]){0, 0, 0});
        ck_assert(isnan(s.sum[1]));
        ck_assert(isfinite(s.sum[0]) && s.sum[0] == s.sum[2]);
    }
}
END_TEST

/* A row's bits do not depend on the rows beside it, nor on their number. */
START_TEST(rows_apart)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {2};
    for (size_t n = 1; n <= MOST; n++) {
        float rows[N_ROWS][MOST];
        size_t lengths[N_ROWS];
        const float *all[N_ROWS];
        for (size_t i = 0; i < N_ROWS; i++) {
            fill_row(&dice, rows[i], n, 10, 0);
            lengths[i] = i == 1 ? n : dice_below(&dice, n + 1);
            all[i] = rows[i];
        }
        struct softmax together = begin_softmax(table, 0.3f);
        step(&together, all, lengths);
        float alone[MOST + 16], max = -INFINITY, sum = 0, factor = 0;
        memcpy(alone, rows[1], n * sizeof *alone);
        table->softmax_step_f32(1, &n, 0.3f, alone, 0, &max, &sum, &factor);
        check_same(table, alone, together.weights[1], n);
        check_same(table, &sum, &together.sum[1], 1);
        check_same(table, &max, &together.max[1], 1);
        ck_assert_float_eq(factor, 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax");
    TCase *tcase = tcase_create("softmax");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    add_table_test(tcase, parts);
    add_table_test(tcase, huge);
    add_table_test(tcase, factor_of_zero);
    add_table_test(tcase, not_finite);
    add_table_test(tcase, rows_apart);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
