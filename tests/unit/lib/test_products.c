/* test_products.c - kernels that add up products, in every table that runs here, against double
 * precision: sizes around the width of vectors, panels and tiles, odd addresses, rows apart from each
 * other, numbers that are none. */
#include "unit/lib/kernel_tables.h"

#include <float.h>

/* More rows than two of the largest tiles have. */
#define MOST_ROWS 29

static struct arena a_memory, b_memory, bias_memory, c_memory;

/* ---- matrix product ------------------------------------------------------------------------ */

enum start { PLAIN, BIAS, ACCUMULATE, N_STARTS };

/* A product with strides larger than its rows and its operands at odd addresses. */
struct product {
    const struct attni_kernels *table;
    struct attni_gemm gemm;
    float *a, *b, *bias, *c, *before;
};

static size_t c_floats(const struct attni_gemm *g)
{
    return g->m ? (g->m - 1) * g->c_stride + g->n : 0;
}

/* Elements of b beyond column n are NaN: no column that exists may depend on them. */
static struct product make_product(const struct attni_kernels *table, struct dice *dice,
                                   enum start start, size_t m, size_t n, size_t k)
{
    size_t n_panels = (n + table->n_panel - 1) / table->n_panel;
    struct product p = {.table = table};
    struct attni_gemm *g = &p.gemm;
    *g = (struct attni_gemm){.m = m, .n = n, .k = k, .accumulate = start == ACCUMULATE};
    g->a_stride = k + dice_below(dice, 3);
    g->c_stride = n + dice_below(dice, 4);
    g->panel_stride = k * table->n_panel + dice_below(dice, 3);
    g->a = p.a = arena_reals(&a_memory, dice, m ? (m - 1) * g->a_stride + k : 0, 1);
    size_t n_b = n_panels ? (n_panels - 1) * g->panel_stride + k * table->n_panel : 0;
    g->b = p.b = arena_reals(&b_memory, dice, n_b, 1);
    for (size_t d = 0; d < k; d++) {
        for (size_t j = n; j < n_panels * table->n_panel; j++) {
            p.b[j / table->n_panel * g->panel_stride + d * table->n_panel +
                j % table->n_panel] = NAN;
        }
    }
    p.bias = arena_reals(&bias_memory, dice, n, 1);
    g->bias = start == BIAS ? p.bias : NULL;
    g->c = p.c = arena_floats(&c_memory, c_floats(g));
    for (size_t i = 0; i < m; i++) {
        dice_fill(dice, p.c + i * g->c_stride, n, 1);
    }
    p.before = need_memory(c_floats(g) * sizeof(float));
    memcpy(p.before, p.c, c_floats(g) * sizeof(float));
    return p;
}

static float b_at(const struct product *p, size_t d, size_t j)
{
    size_t n_panel = p->table->n_panel;
    return p->b[j / n_panel * p->gemm.panel_stride + d * n_panel + j % n_panel];
}

static void check_element(const struct product *p, size_t i, size_t j)
{
    const struct attni_gemm *g = &p->gemm;
    struct exact exact = {0};
    if (g->accumulate || g->bias) {
        exact_add(&exact,
                  (double)(g->accumulate ? p->before[i * g->c_stride + j] : p->bias[j]));
    }
    for (size_t d = 0; d < g->k; d++) {
        exact_add(&exact, (double)p->a[i * g->a_stride + d] * (double)b_at(p, d, j));
    }
    check_exact(p->table, p->c[i * g->c_stride + j], &exact);
}

/* Rows [first, first + m) and columns [0, n) alone give the bits that they have in the whole. */
static void check_part(const struct product *p, size_t first, size_t m, size_t n)
{
    struct attni_gemm part = p->gemm;
    size_t at = first * part.c_stride, n_floats = (m - 1) * part.c_stride + n;
    float *c = need_memory(n_floats * sizeof *c);
    memcpy(c, p->before + at, n_floats * sizeof *c);
    part.m = m;
    part.n = n;
    part.a += first * part.a_stride;
    part.c = c;
    p->table->gemm_f32(&part);
    for (size_t i = 0; i < m; i++) {
        check_same(p->table, c + i * part.c_stride, p->c + at + i * part.c_stride, n);
    }
    free(c);
}

static void check_product(const struct attni_kernels *table, struct dice *dice,
                          enum start start, size_t m, size_t n, size_t k)
{
    struct product p = make_product(table, dice, start, m, n, k);
    const struct attni_gemm *g = &p.gemm;
    table->gemm_f32(g);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            check_element(&p, i, j);
        }
        if (i + 1 < m) {
            check_untouched(p.c + i * g->c_stride + n, g->c_stride - n);
        }
    }
    check_margin(&c_memory);
    for (size_t i = 0; n && i < m; i++) {
        check_part(&p, i, 1, n);
    }
    if (m && n) {
        size_t first = dice_below(dice, m);
        check_part(&p, first, 1 + dice_below(dice, m - first), n);
        check_part(&p, 0, m, 1 + dice_below(dice, n));
    }
    free(p.before);
}

static void check_starts(const struct attni_kernels *table, struct dice *dice, size_t m,
                         size_t n, size_t k)
{
    for (enum start start = PLAIN; start < N_STARTS; start++) {
        check_product(table, dice, start, m, n, k);
    }
}

/* Each axis in full, with the others at sizes around where the kernels take another way. */
START_TEST(gemm_rows)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    size_t lanes = table->n_lanes, panel = table->n_panel;
    const size_t columns[] = {1, lanes, lanes + 1, panel, 2 * panel + 1, 4 * panel + 1};
    struct dice dice = {1};
    for (size_t m = 0; m <= MOST_ROWS; m++) {
        for (size_t i = 0; i < COUNT(columns); i++) {
            check_starts(table, &dice, m, columns[i], 3);
        }
    }
}
END_TEST

START_TEST(gemm_columns)
{
    static const size_t rows[] = {1, 2, 3, 6, 7, 14, 15};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    size_t panel = table->n_panel;
    const size_t wide[] = {3 * panel, 4 * panel - 1, 4 * panel,    5 * panel,
                           7 * panel, 7 * panel + 1, 9 * panel - 1};
    struct dice dice = {2};
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t n = 0; n <= 2 * panel + 1; n++) {
            check_product(table, &dice, (enum start)(n % N_STARTS), rows[i], n, 5);
        }
        for (size_t k = 0; k < COUNT(wide); k++) {
            check_starts(table, &dice, rows[i], wide[k], 5);
        }
    }
}
END_TEST

START_TEST(gemm_depths)
{
    static const size_t rows[] = {1, 2, 6, 8, 14};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {3};
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t k = 0; k <= 2 * table->n_lanes + 1; k++) {
            check_starts(table, &dice, rows[i], table->n_panel, k);
            check_starts(table, &dice, rows[i], 2 * table->n_panel + 3, k);
        }
        check_starts(table, &dice, rows[i], table->n_panel + 1, 300);
    }
}
END_TEST

/* What is no number stays in its row, and in its column. */
START_TEST(gemm_not_finite)
{
    static const float spoilers[] = {NAN, INFINITY, -INFINITY};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {4};
    for (size_t m = 1; m <= MOST_ROWS; m++) {
        size_t n = 1 + dice_below(&dice, 3 * table->n_panel);
        struct product p = make_product(table, &dice, BIAS, m, n, 7);
        const struct attni_gemm *g = &p.gemm;
        size_t row = dice_below(&dice, m), column = dice_below(&dice, n);
        p.a[row * g->a_stride + 4] = spoilers[m % 3];
        if (m % 2) {
            p.bias[column] = spoilers[m % 3];
        } else {
            p.b[column / table->n_panel * g->panel_stride + 2 * table->n_panel +
                column % table->n_panel] = spoilers[m % 3];
        }
        table->gemm_f32(g);
        for (size_t i = 0; i < m * n; i++) {
            bool spoilt = i / n == row || i % n == column;
            ck_assert(isfinite(p.c[i / n * g->c_stride + i % n]) == !spoilt);
        }
        free(p.before);
    }
}
END_TEST

/* ---- panels -------------------------------------------------------------------------------- */

START_TEST(pack_columns)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {5};
    for (size_t n = 0; n <= table->n_panel; n++) {
        for (size_t width = 0; width <= 2 * table->n_lanes + 1; width++) {
            size_t stride = width + n % 3, n_panel = table->n_panel;
            const float *rows =
                arena_reals(&a_memory, &dice, n ? (n - 1) * stride + width : 0, 1);
            float *panel = arena_floats(&c_memory, width * n_panel);
            table->pack_columns_f32(n, width, rows, stride, panel);
            for (size_t i = 0; i < width * n_panel; i++) {
                size_t d = i / n_panel, j = i % n_panel;
                ck_assert_float_eq(panel[i], j < n ? rows[j * stride + d] : 0);
            }
            check_margin(&c_memory);
        }
    }
}
END_TEST

/* What lies between the rows, NaN here, has no part in it. */
static void check_pack_rows(const struct attni_kernels *table, struct dice *dice,
                            size_t n, size_t width, const float *spoiler)
{
    size_t stride = width + width % 3, n_panel = table->n_panel,
           n_panels = (width + n_panel - 1) / n_panel, panel_stride = n * n_panel + n % 3;
    float *rows = arena_reals(&a_memory, dice, n ? (n - 1) * stride + width : 0, FLT_MAX);
    for (size_t i = 0; i + 1 < n && stride > width; i++) {
        rows[i * stride + width] = NAN;
    }
    size_t row = dice_below(dice, n + 1), d = dice_below(dice, width + 1);
    bool finite = !spoiler || row == n || d == width;
    if (!finite) {
        rows[row * stride + d] = *spoiler;
    }
    float *panels = arena_floats(
        &c_memory, n_panels ? (n_panels - 1) * panel_stride + n * n_panel : 0);
    ck_assert(table->pack_rows_f32(n, width, rows, stride, panels, panel_stride) ==
              finite);
    for (size_t i = 0; i < n * n_panels * n_panel; i++) {
        size_t j = i / (n_panels * n_panel), column = i % (n_panels * n_panel);
        float expected = column < width ? rows[j * stride + column] : 0;
        check_same(
            table,
            &panels[column / n_panel * panel_stride + j * n_panel + column % n_panel],
            &expected, 1);
    }
    for (size_t p = 0; p + 1 < n_panels; p++) {
        check_untouched(panels + p * panel_stride + n * n_panel, n % 3);
    }
    check_margin(&c_memory);
}

START_TEST(pack_rows)
{
    static const float spoilers[] = {NAN, INFINITY, -INFINITY};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {6};
    for (size_t width = 0; width <= 2 * table->n_panel + 1; width++) {
        for (size_t n = 0; n <= 5; n++) {
            check_pack_rows(table, &dice, n, width, NULL);
            check_pack_rows(table, &dice, n, width, &spoilers[dice_below(&dice, 3)]);
        }
    }
}
END_TEST

/* ---- a few queries ------------------------------------------------------------------------- */

/* Rows of n heads at some distance from each other: heads side by side within a row, as layers have
 * them, or one after the other. */
static struct attni_lying lie(struct arena *memory, struct dice *dice, size_t n_heads,
                              size_t n_rows, size_t width, float **data)
{
    bool beside = dice_bool(dice);
    size_t row = (beside ? n_heads : 1) * width + dice_below(dice, 3);
    size_t head = beside ? width : n_rows * row + dice_below(dice, 3);
    size_t n = n_heads && n_rows ? (n_heads - 1) * head + (n_rows - 1) * row + width : 0;
    *data = arena_reals(memory, dice, n, 2);
    return (struct attni_lying){*data, row, head};
}

static void check_scores(const struct attni_kernels *table, struct dice *dice,
                         size_t n_queries, size_t n_keys, size_t width)
{
    float *data;
    size_t n_heads = 1 + dice_below(dice, 3);
    struct attni_few_scores few = {
        .n_heads = n_heads,
        .n_queries = n_queries,
        .n_keys = n_keys,
        .width = width,
        .query = lie(&a_memory, dice, n_heads, n_queries, width, &data),
        .key = lie(&b_memory, dice, n_heads, n_keys, width, &data),
        .score_row = n_keys + dice_below(dice, 3),
    };
    size_t n_rows = n_heads * n_queries;
    few.scores =
        arena_floats(&c_memory, n_rows ? (n_rows - 1) * few.score_row + n_keys : 0);
    table->scores_f32(&few);
    for (size_t i = 0; i < n_rows * n_keys; i++) {
        size_t row = i / n_keys, j = i % n_keys, head = row / n_queries;
        const float *query =
            few.query.data + head * few.query.head + row % n_queries * few.query.row;
        const float *key = few.key.data + head * few.key.head + j * few.key.row;
        struct exact exact = {0};
        for (size_t d = 0; d < width; d++) {
            exact_add(&exact, (double)query[d] * (double)key[d]);
        }
        check_exact(table, few.scores[row * few.score_row + j], &exact);
    }
    for (size_t i = 0; i + 1 < n_rows; i++) {
        check_untouched(few.scores + i * few.score_row + n_keys, few.score_row - n_keys);
    }
    check_margin(&c_memory);
}

START_TEST(scores)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {7};
    for (size_t size = 0; size <= 4 * table->n_lanes + 1; size++) {
        for (size_t queries = 1; queries <= 5; queries += 2) {
            check_scores(table, &dice, queries, 5, size);
            check_scores(table, &dice, queries, size, 7);
        }
        check_scores(table, &dice, size, 3, 9);
    }
    check_scores(table, &dice, 4, 129, 129);
}
END_TEST

START_TEST(scores_not_finite)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t width = 1; width <= 2 * table->n_lanes + 1; width++) {
        float *query = arena_floats(&a_memory, width);
        float *key = arena_floats(&b_memory, width), score = 0;
        const struct attni_few_scores few = {
            1, 1, 1, width, {query, width, 0}, {key, width, 0}, &score, 1};
        memset(query, 0, width * sizeof *query);
        memset(key, 0, width * sizeof *key);
        query[width - 1] = INFINITY;
        key[width - 1] = 1;
        table->scores_f32(&few);
        ck_assert(score == INFINITY);
        key[width - 1] = 0;
        table->scores_f32(&few);
        ck_assert(isnan(score));
        query[width - 1] = key[width - 1] = 1e-30f; /* the product is below any float */
        table->scores_f32(&few);
        ck_assert(score == 0);
    }
}
END_TEST

START_TEST(dots_and_sums)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {8};
    for (size_t n = 0; n <= 4 * table->n_lanes + 1; n++) {
        float size = n % 4 == 3 ? 1e-39f : 3; /* denormals too */
        const float *a = arena_reals(&a_memory, &dice, n, size);
        const float *b = arena_reals(&b_memory, &dice, n, 2);
        struct exact dot = {0}, sum = {0};
        for (size_t d = 0; d < n; d++) {
            exact_add(&dot, (double)a[d] * (double)b[d]);
            exact_add(&sum, (double)a[d]);
        }
        check_exact(table, table->dot_f32(n, a, b), &dot);
        check_exact(table, table->sum_f32(n, a), &sum);
    }
}
END_TEST

/* ---- weighted sum -------------------------------------------------------------------------- */

/* Weights of 0 stand before values that are no numbers. */
static void check_weighted(const struct attni_kernels *table, struct dice *dice, size_t n,
                           size_t width)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    size_t stride = width + dice_below(dice, 3);
    float *weight = arena_reals(&a_memory, dice, n, 1);
    float *value = arena_reals(&b_memory, dice, n ? (n - 1) * stride + width : 0, 3);
    float *before = arena_reals(&bias_memory, dice, width, 2);
    float *out = arena_floats(&c_memory, width);
    for (size_t j = 0; j < n; j++) {
        weight[j] = dice_below(dice, 4) ? weight[j] : dice_bool(dice) ? 0.0f : -0.0f;
        for (size_t d = 0; weight[j] == 0 && d < width; d++) {
            value[j * stride + d] = garbage[(d + j) % 3];
        }
    }
    for (size_t d = 0; d < width; d++) {
        out[d] = before[d];
    }
    table->weighted_sum_f32(n, width, weight, value, stride, out);
    for (size_t d = 0; d < width; d++) {
        struct exact exact = {0};
        exact_add(&exact, (double)before[d]);
        for (size_t j = 0; j < n; j++) {
            if (weight[j] != 0) {
                exact_add(&exact, (double)weight[j] * (double)value[j * stride + d]);
            }
        }
        check_exact(table, out[d], &exact);
    }
    check_margin(&c_memory);
}

START_TEST(weighted_sum)
{
    static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 9, 127, 128, 129, 257};
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {9};
    for (size_t width = 0; width <= 8 * table->n_lanes + 1; width++) {
        check_weighted(table, &dice, 7, width);
    }
    for (size_t i = 0; i < COUNT(lengths); i++) {
        check_weighted(table, &dice, lengths[i], 1);
        check_weighted(table, &dice, lengths[i], 5 * table->n_lanes + 1);
    }
}
END_TEST

/* Of several heads at once: each has what it would have alone. */
static void check_heads(const struct attni_kernels *table, struct dice *dice, size_t n,
                        size_t width, bool finite)
{
    float *values;
    size_t n_heads = 1 + dice_below(dice, 9);
    float *weight = arena_reals(&a_memory, dice, n_heads * (n + 1), 1);
    struct attni_few_sums few = {.n_heads = n_heads,
                                 .n_keys = n,
                                 .width = width,
                                 .weight = weight,
                                 .weight_head = n + 1,
                                 .value =
                                     lie(&b_memory, dice, n_heads, n, width, &values),
                                 .out_head = width};
    if (!finite && n > 0 && width > 0) {
        size_t head = dice_below(dice, n_heads), j = dice_below(dice, n);
        values[head * few.value.head + j * few.value.row + dice_below(dice, width)] = NAN;
        weight[head * few.weight_head + j] = 0;
    }
    const float *before = arena_reals(&bias_memory, dice, n_heads * width, 2);
    few.out = arena_floats(&c_memory, n_heads * width);
    for (size_t i = 0; i < n_heads * width; i++) {
        few.out[i] = before[i];
    }
    table->weighted_heads_f32(&few);
    for (size_t i = 0; i < n_heads * width; i++) {
        size_t head = i / width;
        const float *value = few.value.data + head * few.value.head + i % width;
        struct exact exact = {0};
        exact_add(&exact, (double)before[i]);
        for (size_t j = 0; j < n; j++) {
            float w = weight[head * few.weight_head + j];
            if (w != 0) {
                exact_add(&exact, (double)w * (double)value[j * few.value.row]);
            }
        }
        check_exact(table, few.out[i], &exact);
    }
    check_margin(&c_memory);
}

START_TEST(weighted_heads)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {10};
    for (size_t width = 0; width <= 8 * table->n_lanes; width++) {
        for (size_t repeat = 0; repeat < 4; repeat++) {
            check_heads(table, &dice, dice_below(&dice, 12), width, repeat % 2 == 0);
        }
    }
    for (size_t repeat = 0; repeat < 20; repeat++) {
        check_heads(table, &dice, 101, table->n_lanes, repeat % 2 == 0);
    }
}
END_TEST

/* A weight of NaN, and a value of infinity that counts, reach every sum that they belong to. */
START_TEST(weighted_not_finite)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t width = 1; width <= 5 * table->n_lanes + 1; width++) {
        float weight[] = {0.25f, NAN, 0.5f};
        float *value = arena_floats(&b_memory, 3 * width);
        float *out = arena_floats(&c_memory, width);
        table->weighted_sum_f32(3, width, weight, value, width, out);
        for (size_t d = 0; d < width; d++) {
            ck_assert(isnan(out[d]));
            out[d] = 0;
        }
        weight[1] = 1;
        value[width + width / 2] = INFINITY;
        table->weighted_sum_f32(3, width, weight, value, width, out);
        for (size_t d = 0; d < width; d++) {
            ck_assert(d == width / 2 ? out[d] == INFINITY : isfinite(out[d]));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("products");
    TCase *tcase = tcase_create("products");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    add_table_test(tcase, gemm_rows);
    add_table_test(tcase, gemm_columns);
    add_table_test(tcase, gemm_depths);
    add_table_test(tcase, gemm_not_finite);
    add_table_test(tcase, pack_columns);
    add_table_test(tcase, pack_rows);
    add_table_test(tcase, scores);
    add_table_test(tcase, scores_not_finite);
    add_table_test(tcase, dots_and_sums);
    add_table_test(tcase, weighted_sum);
    add_table_test(tcase, weighted_heads);
    add_table_test(tcase, weighted_not_finite);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
