/* test_bf16.c - rounding to bf16 and products of pairs of bf16, in every table that runs here, against
 * double precision. */
#include "kernels/bf16.h"
#include "unit/lib/kernel_tables.h"

#include <float.h>

static struct arena a_memory, b_memory, bias_memory, c_memory;

/* The bf16 in one half of a pair. */
static float half_of(const float *pair, size_t half)
{
    uint16_t halves[2];
    memcpy(halves, pair, sizeof halves);
    return attni_bf16_to_f32(halves[half]);
}

/* ---- rounding ------------------------------------------------------------------------------ */

/* The nearest of the numbers that have 8 binary digits (fewer below the normal range), and of two as
 * near the even one; beyond the largest, infinity. */
static double nearest(double x)
{
    int exponent;
    frexp(x, &exponent);
    double unit = ldexp(1, (exponent < -125 ? -125 : exponent) - 8);
    double rounded = rint(x / unit) * unit;
    return fabs(rounded) >= ldexp(1, 128) ? copysign((double)INFINITY, x) : rounded;
}

static void check_rounding(const struct attni_kernels *table, const float *x, size_t n)
{
    float *row = arena_floats(&a_memory, n);
    float *pairs = arena_floats(&c_memory, (n + 1) / 2);
    for (size_t j = 0; j < n; j++) {
        row[j] = x[j];
    }
    table->round_pairs_bf16(n, row, pairs);
    for (size_t j = 0; j < (n + 1) / 2 * 2; j++) {
        double expected = j == n           ? 0
                          : isfinite(x[j]) ? nearest((double)x[j])
                                           : (double)x[j];
        check_near(table, half_of(&pairs[j / 2], j % 2), expected, 0);
    }
    check_margin(&c_memory);
}

START_TEST(rounding)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {1};
    for (size_t n = 0; n <= 69; n++) {
        float x[69];
        for (size_t trial = 0; trial < 40; trial++) {
            dice_fill(&dice, x, n, ldexpf(1, (int)dice_below(&dice, 240) - 120));
            check_rounding(table, x, n);
        }
    }
}
END_TEST

/* Every upper half, with lower halves around the middle: ties, infinities, NaN of all kinds. */
START_TEST(rounding_of_ties)
{
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (uint32_t upper = 0; upper < 0x10000; upper++) {
        float x[COUNT(lower)];
        for (size_t j = 0; j < COUNT(lower); j++) {
            uint32_t bits = upper << 16 | lower[j];
            memcpy(&x[j], &bits, sizeof bits);
        }
        check_rounding(table, x, COUNT(lower));
    }
}
END_TEST

/* ---- product ------------------------------------------------------------------------------- */

/* Fill n pairs with bf16 from -1 to 1. */
static float *pairs_of(const struct attni_kernels *table, struct arena *arena,
                       struct dice *dice, size_t n)
{
    float *numbers = need_memory(2 * n * sizeof *numbers);
    dice_fill(dice, numbers, 2 * n, 1);
    float *pairs = arena_floats(arena, n);
    table->round_pairs_bf16(2 * n, numbers, pairs);
    free(numbers);
    return pairs;
}

/* Rows of c, and the same rows one at a time, which must have the same bits. Products of bf16 are
 * exact in float; a sum is as far off as one of floats, whether pairs are added first or not. */
static void check_product(const struct attni_kernels *table, struct dice *dice, size_t m,
                          size_t n, size_t k)
{
    size_t n_panel = table->n_panel, n_panels = (n + n_panel - 1) / n_panel;
    struct attni_gemm g = {.m = m, .n = n, .k = k, .accumulate = k % 3 == 0};
    g.a_stride = k + m % 2;
    g.panel_stride = k * n_panel + n % 2;
    g.c_stride = n + k % 2;
    g.a = pairs_of(table, &a_memory, dice, (m - 1) * g.a_stride + k);
    g.b = pairs_of(table, &b_memory, dice, (n_panels - 1) * g.panel_stride + k * n_panel);
    const float *bias = arena_reals(&bias_memory, dice, n, 1);
    g.bias = k % 3 == 1 ? bias : NULL;
    float *c = g.c = arena_floats(&c_memory, (m - 1) * g.c_stride + n);
    float alone[256];
    table->gemm_bf16(&g);
    for (size_t i = 0; i < m; i++) {
        const float *row = c + i * g.c_stride;
        for (size_t j = 0; j < n; j++) {
            struct exact exact = {0};
            exact_add(&exact, (double)(g.accumulate ? UNTOUCHED : g.bias ? bias[j] : 0));
            for (size_t d = 0; d < 2 * k; d++) {
                const float *b = g.b + j / n_panel * g.panel_stride + d / 2 * n_panel;
                exact_add(&exact, (double)half_of(g.a + i * g.a_stride + d / 2, d % 2) *
                                      (double)half_of(b + j % n_panel, d % 2));
            }
            check_exact(table, row[j], &exact);
            alone[j] = UNTOUCHED;
        }
        struct attni_gemm one = g;
        one.m = 1;
        one.a += i * g.a_stride;
        one.c = alone;
        table->gemm_bf16(&one);
        check_same(table, alone, row, n);
        if (i + 1 < m) {
            check_untouched(row + n, g.c_stride - n);
        }
    }
    check_margin(&c_memory);
}

START_TEST(products)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    size_t panel = table->n_panel;
    const size_t columns[] = {1,         panel - 1,     panel,
                              panel + 1, 2 * panel + 1, 4 * panel + 1};
    struct dice dice = {2};
    for (size_t i = 0; i < COUNT(columns); i++) {
        for (size_t m = 1; m <= 29; m++) {
            check_product(table, &dice, m, columns[i], 1 + m % 5);
        }
    }
    for (size_t n = 1; n <= 2 * panel + 1; n++) {
        check_product(table, &dice, 1 + n % 15, n, 1 + n % 7);
    }
    for (size_t k = 0; k <= 33; k++) {
        check_product(table, &dice, 1 + k % 4, panel + 3, k);
    }
    check_product(table, &dice, 7, panel, 256);
}
END_TEST

/* NaN and infinity stay in their row. */
START_TEST(not_finite)
{
    static const float spoilers[] = {NAN, INFINITY, -INFINITY};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t m = 1; m <= 29; m++) {
        struct dice dice = {m};
        size_t n = table->n_panel + 1, spoilt = dice_below(&dice, m);
        struct attni_gemm g = {.m = m, .n = n, .k = 3, .a_stride = 3, .c_stride = n};
        float *a = pairs_of(table, &a_memory, &dice, 3 * m);
        table->round_pairs_bf16(1, &spoilers[m % 3], &a[spoilt * 3 + 1]);
        g.a = a;
        g.panel_stride = 3 * table->n_panel;
        g.b = pairs_of(table, &b_memory, &dice, 2 * g.panel_stride);
        g.c = arena_floats(&c_memory, m * n);
        table->gemm_bf16(&g);
        bool apart = true;
        for (size_t i = 0; i < m * n; i++) {
            apart = apart && isfinite(g.c[i]) == (i / n != spoilt);
        }
        ck_assert(apart);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bf16");
    TCase *tcase = tcase_create("bf16");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    add_table_test(tcase, rounding);
    add_table_test(tcase, rounding_of_ties);
    add_table_test(tcase, products);
    add_table_test(tcase, not_finite);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
