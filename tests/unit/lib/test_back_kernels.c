/* test_back_kernels.c - the kernels of the backward, in every table that runs here: odd sizes, rows
 * apart, unaligned ends, values that are not finite. */
#include "unit/lib/kernel_tables.h"

static struct arena from_memory, to_memory;

/* Transpose n rows of `width`, with `apart` floats more between rows than they need. */
static void check_transpose(const struct attni_kernels *table, struct dice *dice,
                            size_t n, size_t width, size_t apart)
{
    size_t stride = width + apart, out_stride = n + apart;
    const float *rows =
        arena_reals(&from_memory, dice, n ? (n - 1) * stride + width : 0, 1);
    float *out = arena_floats(&to_memory, width ? (width - 1) * out_stride + n : 0);
    table->transpose_f32(n, width, rows, stride, out, out_stride);
    for (size_t d = 0; d < width; d++) {
        for (size_t j = 0; j < n; j++) {
            ck_assert(out[d * out_stride + j] == rows[j * stride + d]);
        }
        if (d + 1 < width) {
            check_untouched(out + d * out_stride + n, apart);
        }
    }
    check_margin(&to_memory);
}

START_TEST(transposes)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {11};
    for (size_t n = 0; n <= 2 * table->n_lanes + 1; n++) {
        for (size_t width = 0; width <= 2 * table->n_lanes + 1; width++) {
            check_transpose(table, &dice, n, width, (n + width) % 4);
        }
    }
    check_transpose(table, &dice, 56, 257, 3);
}
END_TEST

START_TEST(softmax_gradients)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {12};
    for (size_t n = 0; n <= 2 * table->n_lanes + 1; n++) {
        float *weight = arena_reals(&from_memory, &dice, n, 1);
        float *gradient = arena_reals(&to_memory, &dice, n, 3), before[80];
        for (size_t j = 0; j < n; j++) {
            weight[j] = j % 5 == 3 ? 0 : fabsf(weight[j]);
            before[j] = gradient[j];
        }
        table->softmax_gradient_f32(n, weight, 0.25f, gradient);
        for (size_t j = 0; j < n; j++) {
            double exact = (double)weight[j] * ((double)before[j] - 0.25);
            /* a difference and a product are rounded */
            check_near(table, gradient[j], exact, fabs(exact) * 2.4e-7);
        }
        check_margin(&to_memory);
    }
}
END_TEST

/* A weight of 0 passes nothing on, not even 0 times infinity; the smallest float is not 0; and what is
 * NaN stays it. */
START_TEST(softmax_gradients_not_finite)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    static const float weights[] = {0, 0, 0, 1e-45f, 1, NAN, 0.5f, -0.0f};
    static const float gradients[] = {INFINITY, NAN, -INFINITY, 3e38f,
                                      NAN,      1,   INFINITY,  NAN};
    static const float expected[] = {0, 0, 0, 4.2038954e-7f, NAN, NAN, INFINITY, 0};
    for (size_t first = 0; first < COUNT(weights); first++) {
        size_t n = COUNT(weights) - first;
        float *gradient = arena_floats(&to_memory, n);
        memcpy(gradient, gradients + first, n * sizeof *gradient);
        table->softmax_gradient_f32(n, weights + first, 1, gradient);
        for (size_t j = 0; j < n; j++) {
            check_near(table, gradient[j], (double)expected[first + j], 1e-13);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("back_kernels");
    TCase *tcase = tcase_create("back_kernels");
    tcase_set_timeout(tcase, 120); /* sanitizers and emulators are slow */
    add_table_test(tcase, transposes);
    add_table_test(tcase, softmax_gradients);
    add_table_test(tcase, softmax_gradients_not_finite);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
