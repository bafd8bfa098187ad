/* test_linear.c - projections against sums in double precision, task by task; weights in float32 and in
 * bf16. */
#include "kernels/kernels.h"
#include "unit/lib/linear_problem.h"

static void check_sizes(struct dice *dice, size_t n_rows, size_t n_in, size_t n_out,
                        unsigned flags)
{
    struct problem p = make_problem(dice, n_rows, n_in, n_out, flags);
    apply(&p, p.y);
    ck_assert_msg(is_right(&p, p.y), "%zu rows, %zu to %zu, flags %u", n_rows, n_in,
                  n_out, flags);
    problem_free(&p);
}

START_TEST(odd_sizes)
{
    static const size_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 65};
    struct dice dice = {1};
    for (size_t k = 0; k < COUNT(sizes) * COUNT(sizes); k++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            size_t n_rows = (k + flags) % 3 == 0 ? sizes[k % COUNT(sizes)] : 1 + k % 16;
            check_sizes(&dice, n_rows, sizes[k % COUNT(sizes)], sizes[k / COUNT(sizes)],
                        flags);
        }
    }
}
END_TEST

/* Around the most rows and columns of a task, and the longest sums taken in one go. */
START_TEST(large_sizes)
{
    static const size_t rows[] = {125, 126, 127, 253}, columns[] = {255, 256, 257, 513},
                        inputs[] = {511, 512, 513, 1024, 1025};
    struct dice dice = {5};
    for (unsigned flags = 0; flags < 8; flags++) {
        for (size_t i = 0; i < 4; i++) {
            check_sizes(&dice, rows[i], 9, 33, flags);
            check_sizes(&dice, 3, 7, columns[i], flags);
        }
        for (size_t i = 0; i < COUNT(inputs); i++) {
            check_sizes(&dice, 2, inputs[i], 19, flags);
        }
        check_sizes(&dice, 127, 9, 257, flags);
        check_sizes(&dice, 3, 513, 257, flags);
    }
}
END_TEST

START_TEST(no_rows)
{
    struct dice dice = {2};
    for (unsigned flags = 0; flags < 8; flags++) {
        struct problem p = make_problem(&dice, 1, 3, 4, flags);
        struct attni_product none = attni_product_of(&p.linear, 0, p.x, p.y);
        ck_assert_uint_eq(attni_linear_n_tasks(&none), 0);
        problem_free(&p);
    }
}
END_TEST

START_TEST(too_large)
{
    size_t n = 12345;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ck_assert(!attni_linear_floats(SIZE_MAX / 2, 64, bf16, &n));
        ck_assert(!attni_linear_floats(SIZE_MAX, SIZE_MAX / 256, bf16, &n));
    }
}
END_TEST

/* By our own kernels, a row has the same bits alone and among any others. */
START_TEST(rows_alone)
{
    struct dice dice = {6};
    for (unsigned flags = 0; flags < 8; flags++) {
        struct problem p = make_problem(&dice, 140, 70, 300, flags);
        float *alone = need_memory(300 * sizeof *alone);
        apply(&p, p.y);
        for (size_t r = 0; (attni_kernels()->packs || p.linear.bf16) && r < 140; r++) {
            struct problem one = p;
            one.n_rows = 1;
            one.x = p.x + r * 70;
            apply(&one, alone);
            ck_assert_mem_eq(alone, p.y + r * 300, 300 * sizeof *alone);
        }
        free(alone);
        problem_free(&p);
    }
}
END_TEST

static void run_product(const struct attni_product *product)
{
    size_t n_bytes = 0;
    ck_assert(attni_linear_scratch(product->linear, product->in_place, &n_bytes));
    void *scratch = attn_alloc(n_bytes);
    for (size_t task = attni_linear_n_tasks(product); task-- > 0;) {
        attni_linear_run(product, task, scratch);
    }
    attn_free(scratch);
}

/* Heads of `width` columns, from the second on, one after the other instead of side by side. */
static void check_blocks(const struct problem *p, size_t width)
{
    size_t n_rows = p->n_rows, n_out = p->linear.n_out, n = n_out / width - 1;
    float *blocks = need_memory(n * width * n_rows * sizeof *blocks);
    struct attni_product product = attni_product_of(&p->linear, n_rows, p->x, blocks);
    product.first = product.block = product.row = width;
    product.n_columns = n * width;
    product.block_stride = n_rows * width;
    run_product(&product);
    for (size_t i = 0; i < n * width * n_rows; i++) {
        size_t head = i / (n_rows * width), row = i / width % n_rows;
        ck_assert(blocks[i] == p->y[row * n_out + (head + 1) * width + i % width]);
    }
    free(blocks);
}

/* The same bits, wherever columns go, and if they take the place of what they are made from. */
START_TEST(columns_and_places)
{
    static const size_t rows[] = {1, 5, 127};
    struct dice dice = {7};
    size_t n_panel = attni_kernels()->n_panel;
    for (unsigned flags = 0; flags < 8; flags++) {
        for (size_t i = 0; i < COUNT(rows); i++) {
            size_t width = n_panel * (1 + i % 2), n_out = 5 * width;
            struct problem p = make_problem(&dice, rows[i], n_out, n_out, flags);
            ck_assert(!attni_linear_cuts(&p.linear, width + 1));
            if (attni_linear_cuts(&p.linear, width)) {
                apply(&p, p.y);
                check_blocks(&p, width);
                struct attni_product product =
                    attni_product_of(&p.linear, p.n_rows, p.x, p.x);
                product.in_place = true;
                run_product(&product);
                ck_assert_mem_eq(p.x, p.y, rows[i] * n_out * sizeof *p.y);
            }
            problem_free(&p);
        }
    }
}
END_TEST

/* A row's NaN or infinity stays in that row. */
START_TEST(rows_apart)
{
    struct dice dice = {3};
    for (size_t n_rows = 2; n_rows < 40; n_rows++) {
        struct problem p = make_problem(&dice, n_rows, 17, 19,
                                        BIAS | (unsigned)(n_rows & (IN_OUT | BF16)));
        size_t spoilt = dice_below(&dice, n_rows);
        p.x[spoilt * 17 + 5] = n_rows & 2 ? NAN : INFINITY;
        apply(&p, p.y);
        for (size_t i = 0; i < n_rows * 19; i++) {
            ck_assert(isfinite(p.y[i]) == (i / 19 != spoilt));
        }
        problem_free(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linear");
    TCase *tcase = tcase_create("linear");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, odd_sizes);
    tcase_add_test(tcase, large_sizes);
    tcase_add_test(tcase, no_rows);
    tcase_add_test(tcase, too_large);
    tcase_add_test(tcase, rows_alone);
    tcase_add_test(tcase, columns_and_places);
    tcase_add_test(tcase, rows_apart);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
