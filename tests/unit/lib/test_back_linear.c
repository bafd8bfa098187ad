/* test_back_linear.c - gradients of projections against sums in double precision, task by task; weights
 * in float32 and in bf16, stored either way round. */
#include "back_linear.h"
#include "unit/lib/linear_problem.h"

/* A float sum of n terms in any order is off by less than n roundings of the sum of their sizes. */
static void check_sum(float got, double sum, double size, size_t n, const char *what)
{
    double tolerance = size * (double)(n + 2) * 6e-8;
    if (!(fabs((double)got - sum) <= tolerance)) {
        ck_abort_msg("%s: expected %g, got %g", what, sum, (double)got);
    }
}

static double weight_at(const struct problem *p, size_t o, size_t i)
{
    const struct attni_linear *l = &p->linear;
    return multiplied(l, p->weight[l->in_out ? i * l->n_out + o : o * l->n_in + i]);
}

/* Tasks run from the last to the first; what memory held before must not matter, were it NaN. */
static void fill_nan(float *memory, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memory[i] = NAN;
    }
}

/* y of the problem serves as the gradient of y. */
static void check_input(const struct problem *p, void *scratch)
{
    const struct attni_linear *l = &p->linear;
    size_t n = 0, n_dx = p->n_rows * l->n_in;
    ck_assert(attni_back_weight_floats(l, &n));
    float *turned = attn_alloc(n * sizeof *turned), *dx = need_memory(n_dx * sizeof *dx);
    fill_nan(turned, n);
    fill_nan(dx, n_dx);
    for (size_t task = attni_back_weight_n_tasks(l); task-- > 0;) {
        attni_back_weight_turn(l, turned, task);
    }
    struct attni_back_input product = {l, turned, p->n_rows, p->y, dx, false};
    for (int round = 0; round < 2; round++) {
        for (size_t task = attni_back_input_n_tasks(&product); task-- > 0;) {
            attni_back_input_run(&product, task, scratch);
        }
        product.accumulate = true; /* the second round adds the same once more */
    }
    for (size_t r = 0; r < p->n_rows; r++) {
        for (size_t i = 0; i < l->n_in; i++) {
            double sum = 0, size = 0;
            for (size_t o = 0; o < l->n_out; o++) {
                double term = 2 * weight_at(p, o, i) * (double)p->y[r * l->n_out + o];
                sum += term;
                size += fabs(term);
            }
            check_sum(dx[r * l->n_in + i], sum, size, l->n_out, "dx");
        }
    }
    free(dx);
    attn_free(turned);
}

static void check_weight(const struct problem *p, void *scratch)
{
    const struct attni_linear *l = &p->linear;
    size_t n = l->n_in * l->n_out;
    float *dw = need_memory(n * sizeof *dw);
    fill_nan(dw, n);
    const struct attni_back_weight product = {.n_rows = p->n_rows,
                                              .m = l->in_out ? l->n_in : l->n_out,
                                              .n = l->in_out ? l->n_out : l->n_in,
                                              .a = l->in_out ? p->x : p->y,
                                              .b = l->in_out ? p->y : p->x,
                                              .factor = 0.25f,
                                              .out = dw};
    for (size_t task = attni_back_product_n_tasks(&product); task-- > 0;) {
        attni_back_product_run(&product, task, scratch);
    }
    for (size_t o = 0; o < l->n_out; o++) {
        for (size_t i = 0; i < l->n_in; i++) {
            double sum = 0, size = 0;
            for (size_t r = 0; r < p->n_rows; r++) {
                double term =
                    0.25 * (double)p->y[r * l->n_out + o] * (double)p->x[r * l->n_in + i];
                sum += term;
                size += fabs(term);
            }
            check_sum(dw[l->in_out ? i * l->n_out + o : o * l->n_in + i], sum, size,
                      p->n_rows, "dW");
        }
    }
    free(dw);
}

static void check_bias(const struct problem *p)
{
    size_t n = p->linear.n_out;
    float *db = need_memory(n * sizeof *db);
    fill_nan(db, n);
    const struct attni_back_bias bias = {p->n_rows, n, p->y, 0.5f, db};
    for (size_t task = attni_back_bias_n_tasks(&bias); task-- > 0;) {
        attni_back_bias_run(&bias, task);
    }
    for (size_t o = 0; o < n; o++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < p->n_rows; r++) {
            sum += 0.5 * (double)p->y[r * n + o];
            size += 0.5 * fabs((double)p->y[r * n + o]);
        }
        check_sum(db[o], sum, size, p->n_rows, "db");
    }
    free(db);
}

static void check_sizes(struct dice *dice, size_t n_rows, size_t n_in, size_t n_out,
                        unsigned flags)
{
    struct problem p = make_problem(dice, n_rows, n_in, n_out, flags);
    void *scratch = attn_alloc(attni_back_linear_scratch());
    memset(scratch, 0xff, attni_back_linear_scratch());
    dice_fill(dice, p.y, n_rows * n_out, 1);
    check_input(&p, scratch);
    check_weight(&p, scratch);
    check_bias(&p);
    attn_free(scratch);
    problem_free(&p);
}

START_TEST(odd_sizes)
{
    static const size_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 65};
    struct dice dice = {21};
    for (size_t k = 0; k < COUNT(sizes) * COUNT(sizes); k++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            check_sizes(&dice, 1 + (k + flags) % 17, sizes[k % COUNT(sizes)],
                        sizes[k / COUNT(sizes)], flags);
        }
    }
}
END_TEST

/* Around the most rows and columns of a task, the longest sums taken in one go, and rows a multiple of a
 * page apart. */
START_TEST(large_sizes)
{
    static const size_t sizes[][3] = {{127, 9, 33},   {253, 5, 17},  {257, 17, 5},
                                      {513, 3, 9},    {2, 257, 7},   {2, 7, 257},
                                      {3, 225, 18},   {3, 18, 225},  {2, 5, 513},
                                      {15, 19, 1024}, {15, 1024, 19}};
    struct dice dice = {22};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            check_sizes(&dice, sizes[i][0], sizes[i][1], sizes[i][2], flags);
        }
    }
}
END_TEST

/* Without rows, gradients of parameters are 0, and no other has an element. */
START_TEST(no_rows)
{
    struct dice dice = {23};
    for (unsigned flags = 0; flags < 8; flags++) {
        check_sizes(&dice, 0, 3, 4, flags);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("back_linear");
    TCase *tcase = tcase_create("back_linear");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    tcase_add_test(tcase, odd_sizes);
    tcase_add_test(tcase, large_sizes);
    tcase_add_test(tcase, no_rows);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
