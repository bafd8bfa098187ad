/* test_kernels.c - which table of kernels is chosen; and the kernels that work on rows of scores, in
 * every table that runs here, against double precision: sizes around the width of vectors, odd
 * addresses, rows that are blocked, infinite, NaN, huge, tiny. */
#include "attention.h"
#include "unit/lib/kernel_tables.h"

#include <float.h>

/* Longest row: twice the widest vector, and one more. */
#define MOST (2 * 16 + 1)

/* NaN of several kinds: their bits differ, and some of those look like an exponent once shifted. */
static float nan_of(size_t kind)
{
    static const uint32_t bits[] = {0x7fc00000, 0xffc00000, 0x7fc00001, 0xffffffff,
                                    0x7f800001, 0xffc00155, 0x7fc000ff};
    float nan;
    memcpy(&nan, &bits[kind % COUNT(bits)], sizeof nan);
    return nan;
}

static struct arena row_memory;

/* ---- choice -------------------------------------------------------------------------------- */

/* What attni_kernels gives is chosen once, so each of these runs in a process of its own. */
static void check_choice(const char *wanted, const struct attni_kernels *expected)
{
    ck_assert_int_eq(wanted ? setenv("ATTN_ISA", wanted, 1) : unsetenv("ATTN_ISA"), 0);
    ck_assert_str_eq(attni_kernels()->name, expected->name);
    ck_assert_str_eq(attn_kernels_name(), expected->name);
    ck_assert_ptr_eq(attni_kernels(), expected);
}

static const struct attni_kernels *best(void)
{
    const struct attni_kernels *table = NULL, *next;
    for (size_t i = 0; (next = attni_kernels_at(i)); i++) {
        table = next;
    }
    return table;
}

START_TEST(chosen_by_name)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    check_choice(table->name, table);
}
END_TEST

START_TEST(chosen_unasked)
{
    check_choice(NULL, best());
}
END_TEST

START_TEST(chosen_for_want_of_another)
{
    static const char *const unknown[] = {"", "sse9", "REF", "ref ", "avx2,avx512"};
    check_choice(unknown[_i], best());
}
END_TEST

START_TEST(sizes_of_tables)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    ck_assert(table->n_lanes > 0 && table->n_lanes <= 16);
    ck_assert_uint_eq(table->n_panel % table->n_lanes, 0);
    ck_assert_ptr_eq(attni_kernels_at(0), &attni_kernels_ref);
    ck_assert(!table->packs == (table == &attni_kernels_ref));
}
END_TEST

/* ---- simple ones --------------------------------------------------------------------------- */

START_TEST(blocking)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {1};
    for (size_t n = 0; n <= 2 * MOST; n++) {
        for (int keeps = 0; keeps < 2; keeps++) {
            unsigned char mask[2 * MOST];
            float before[2 * MOST];
            float *row = arena_reals(&row_memory, &dice, n, 5);
            for (size_t j = 0; j < n; j++) {
                /* any byte but 0 is true */
                mask[j] = dice_bool(&dice) ? (unsigned char)dice_next(&dice) : 0;
                row[j] = j % 5 == 4 ? nan_of(j) : row[j];
                before[j] = row[j];
            }
            table->block_f32(n, mask, keeps, row);
            for (size_t j = 0; j < n; j++) {
                float expected = (mask[j] != 0) != keeps ? -INFINITY : before[j];
                check_same(table, &row[j], &expected, 1);
            }
            check_margin(&row_memory);
        }
    }
}
END_TEST

START_TEST(scaling)
{
    static const float factors[] = {0, 1, -0.5f, 1e-30f, 3e38f, INFINITY, NAN};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {2};
    for (size_t n = 0; n <= MOST; n++) {
        float before[MOST], factor = factors[n % COUNT(factors)];
        float *row = arena_floats(&row_memory, n);
        dice_fill(&dice, before, n, n % 2 ? 1e-38f : 10);
        for (size_t j = 0; j < n; j++) {
            row[j] = before[j];
        }
        table->scale_f32(n, factor, row);
        for (size_t j = 0; j < n; j++) { /* one product is rounded in one way alone */
            check_near(table, row[j], (double)(before[j] * factor), 0);
        }
        check_margin(&row_memory);
    }
}
END_TEST

/* ---- clip ---------------------------------------------------------------------------------- */

/* tanh is within 2e-7 of the exact value; the product with clip rounds once more, by 6e-8 of it. */
static void check_clip(const struct attni_kernels *table, const float *x, size_t n,
                       float clip)
{
    float *row = arena_floats(&row_memory, n);
    for (size_t j = 0; j < n; j++) {
        row[j] = x[j];
    }
    table->clip_f32(n, clip, row);
    for (size_t j = 0; j < n; j++) {
        check_near(table, row[j], (double)clip * tanh((double)x[j]),
                   fabs((double)clip) * (2e-7 + 6e-8));
    }
    check_margin(&row_memory);
}

START_TEST(clipping)
{
    static const float extremes[] = {0,      INFINITY, -INFINITY, FLT_MAX,   -FLT_MAX,
                                     1e-40f, 1e-5f,    9.5f,      -0.0003f,  88.0f,
                                     0.625f, -0.625f,  0.624999f, -43.6682f, -44};
    static const float clips[] = {10, -2.5f, 0, 1e30f, 1e-30f, 1};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {3};
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t k = 0; k < COUNT(clips); k++) {
            float x[MOST];
            dice_fill(&dice, x, n, 4);
            for (size_t j = 0; j < COUNT(extremes) && j < n; j++) {
                x[n - 1 - j] = extremes[j];
            }
            check_clip(table, x, n, clips[k]);
            for (size_t j = 0; j < n; j++) {
                x[j] = nan_of(j + n);
            }
            check_clip(table, x, n, clips[k]);
        }
    }
}
END_TEST

/* Densely over all that is not 1 in float, and finely around 0. */
START_TEST(clipping_everywhere)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    static float x[4096];
    for (int32_t i = -64; i < 64; i++) {
        for (size_t j = 0; j < COUNT(x); j++) {
            x[j] = ((float)i * (float)COUNT(x) + (float)j) * 3.7e-5f;
        }
        check_clip(table, x, COUNT(x), 1);
        for (size_t j = 0; j < COUNT(x); j++) {
            x[j] *= ldexpf(1, 2 * i);
        }
        check_clip(table, x, COUNT(x), -1);
    }
}
END_TEST

/* ---- exponential --------------------------------------------------------------------------- */

/* From here down a result is exactly 0; the smallest normal float is exp(-87.336545). */
#define ZERO_BELOW (-87.33654f)

/* The values at x, n <= 4096, each within 2 units in the last place of the exact one. */
static void check_exponential(const struct attni_kernels *table, const float *x, size_t n)
{
    float *row = arena_floats(&row_memory, n);
    for (size_t j = 0; j < n; j++) {
        row[j] = x[j];
    }
    table->exponential_f32(n, 1, 0, 1, row);
    for (size_t j = 0; j < n; j++) {
        double exact = x[j] < ZERO_BELOW ? 0 : exp((double)x[j]);
        check_near(table, row[j], exact, exact > 0 ? 2 * ldexp(1, ilogb(exact) - 23) : 0);
    }
    check_margin(&row_memory);
}

START_TEST(exponential_everywhere)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    static float x[4096];
    size_t n = 0;
    /* every 1999th float from -0 to -87.4: about 561,000 of them */
    for (uint32_t bits = 0x80000000u; bits < 0xc2aecccdu; bits += 1999) {
        memcpy(&x[n++], &bits, sizeof *x);
        if (n == COUNT(x)) {
            check_exponential(table, x, n);
            n = 0;
        }
    }
    check_exponential(table, x, n);
    /* every float on both sides of what makes 0, and of where the power of 2 changes */
    static const double centres[] = {-87.33654, -86.989971, -0.34657359, -1.0397208,
                                     -43.321698};
    for (size_t c = 0; c < COUNT(centres); c++) {
        x[0] = (float)(centres[c] * (1 - 2048 * 6e-8));
        for (size_t j = 1; j < COUNT(x); j++) {
            x[j] = nextafterf(x[j - 1], -INFINITY);
        }
        check_exponential(table, x, COUNT(x));
    }
}
END_TEST

START_TEST(exponential_at_the_ends)
{
    static const float ends[] = {0,        -0.0f, -1e-45f, -FLT_MIN, -87.34f,
                                 -103.97f, -104,  -1e10f,  -FLT_MAX, -INFINITY};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t n = 1; n <= MOST; n++) {
        float x[MOST];
        for (size_t j = 0; j < n; j++) {
            x[j] = (j + n) % 3 ? ends[(j + n) % COUNT(ends)] : nan_of(j);
        }
        check_exponential(table, x, n);
    }
}
END_TEST

/* The argument, scale * row - shift, is rounded as a product and as a difference: by 6e-8 of the size
 * of each. A result is wrong by as much as its argument, in proportion, by 2 units of exp (2.4e-7) and
 * by the product with factor. */
START_TEST(exponential_of_scores)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {4};
    for (size_t n = 0; n <= MOST; n++) {
        float before[MOST];
        float scale = 0.5f + fabsf(dice_real(&dice)), size = n % 2 ? 40 : 1;
        float shift = scale * size, factor = fabsf(dice_real(&dice)) + 0.01f;
        float *row = arena_floats(&row_memory, n);
        dice_fill(&dice, before, n, size);
        for (size_t j = 0; j < n; j++) {
            row[j] = before[j];
        }
        table->exponential_f32(n, scale, shift, factor, row);
        for (size_t j = 0; j < n; j++) {
            double argument = (double)scale * (double)before[j] - (double)shift;
            double expected = (double)factor * exp(argument);
            check_near(table, row[j], expected,
                       expected * (4e-7 + 6e-8 * (2 * (double)shift - argument)) +
                           (double)FLT_MIN);
        }
        check_margin(&row_memory);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    add_table_test(tcase, chosen_by_name);
    tcase_add_test(tcase, chosen_unasked);
    tcase_add_loop_test(tcase, chosen_for_want_of_another, 0, 5);
    add_table_test(tcase, sizes_of_tables);
    add_table_test(tcase, blocking);
    add_table_test(tcase, scaling);
    add_table_test(tcase, clipping);
    add_table_test(tcase, clipping_everywhere);
    add_table_test(tcase, exponential_everywhere);
    add_table_test(tcase, exponential_at_the_ends);
    add_table_test(tcase, exponential_of_scores);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
