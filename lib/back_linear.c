/* back_linear.c - gradients of projections, by our own kernels on every processor. Any thread; a task
 * writes elements of its own, each of which is summed in the same order whatever the cut. */
#include "back_linear.h"

#include "kernels/bf16.h"
#include "kernels/kernels.h"
#include "tensor.h"

#include <string.h>

/* Rows and columns of a task of dx. */
#define ROWS ((size_t)126)
#define COLUMNS ((size_t)256)
#define INPUT_DEPTH ((size_t)512)

/* Floats of a page; and what copied rows are set further apart. */
#define CROWDED ((size_t)1024)
#define APART ((size_t)16)

/* Rows and columns of a task of dW, and how many rows are summed at a time: both factors, packed, stay in
 * a second-level cache. */
#define WEIGHT_ROWS ((size_t)224)
#define WEIGHT_COLUMNS ((size_t)256)
#define DEPTH ((size_t)256)

/* Smaller ones, where there would be few tasks. */
#define LEAST_SIDE ((size_t)64)
#define ENOUGH_TASKS ((size_t)8)

/* Columns of a task of a bias. */
#define BIAS_COLUMNS ((size_t)256)

static size_t panels(size_t n)
{
    return attni_parts(n, attni_kernels()->n_panel);
}

size_t attni_back_linear_scratch(void)
{
    size_t of_input = ROWS * (INPUT_DEPTH + APART);
    size_t of_weight = DEPTH * (WEIGHT_ROWS + WEIGHT_COLUMNS);
    return (of_input > of_weight ? of_input : of_weight) * sizeof(float);
}

/* ---- the weight turned --------------------------------------------------------------------- */

bool attni_back_weight_floats(const struct attni_linear *linear, size_t *n)
{
    return attni_multiply(panels(linear->n_in) * attni_kernels()->n_panel, linear->n_out,
                          n);
}

size_t attni_back_weight_n_tasks(const struct attni_linear *linear)
{
    return panels(linear->n_in);
}

/* Weights as the matrix library takes them: rows of outputs, or of inputs. */
static void turn_plain(const struct attni_linear *linear, size_t first, size_t n,
                       float *panel)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_in = linear->n_in, n_out = linear->n_out, n_panel = kernels->n_panel;
    if (linear->in_out) {
        kernels->pack_columns_f32(n, n_out, linear->weight + first * n_out, n_out, panel);
        return;
    }
    for (size_t o = 0; o < n_out; o++) {
        memcpy(panel + o * n_panel, linear->weight + o * n_in + first, n * sizeof *panel);
        memset(panel + o * n_panel + n, 0, (n_panel - n) * sizeof *panel);
    }
}

/* Packed weights are panels of outputs, [n_in][n_panel]: each square of one becomes one of the other. */
static void turn_packed(const struct attni_linear *linear, size_t first, size_t n,
                        float *panel)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_panel = kernels->n_panel;
    for (size_t o = 0; o < linear->n_out; o += n_panel) {
        size_t width = linear->n_out - o < n_panel ? linear->n_out - o : n_panel;
        const float *square = linear->weight + o * linear->n_in + first * n_panel;
        kernels->pack_columns_f32(n, width, square, n_panel, panel + o * n_panel);
    }
}

/* Packed weights as pairs of bf16: element [d][j] of a panel has inputs 2d and 2d + 1 of output j. */
static void turn_pairs(const struct attni_linear *linear, size_t first, size_t n,
                       float *panel)
{
    size_t n_panel = attni_kernels()->n_panel, depth = attni_parts(linear->n_in, 2);
    for (size_t o = 0; o < linear->n_out; o++) {
        const float *pairs = linear->weight + o / n_panel * n_panel * depth + o % n_panel;
        for (size_t i = 0; i < n_panel; i++) {
            uint16_t halves[2];
            size_t input = first + (i < n ? i : 0);
            memcpy(halves, pairs + input / 2 * n_panel, sizeof halves);
            panel[o * n_panel + i] = i < n ? attni_bf16_to_f32(halves[input % 2]) : 0;
        }
    }
}

void attni_back_weight_turn(const struct attni_linear *linear, float *turned, size_t task)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_panel = kernels->n_panel, first = task * n_panel;
    size_t n = linear->n_in - first < n_panel ? linear->n_in - first : n_panel;
    float *panel = turned + first * linear->n_out;
    if (linear->bf16) {
        turn_pairs(linear, first, n, panel);
    } else if (attni_linear_is_packed(linear)) {
        turn_packed(linear, first, n, panel);
    } else {
        turn_plain(linear, first, n, panel);
    }
}

/* ---- dx ------------------------------------------------------------------------------------ */

size_t attni_back_input_n_tasks(const struct attni_back_input *product)
{
    return attni_parts(product->n_rows, ROWS) *
           attni_parts(product->linear->n_in, COLUMNS);
}

/* Rows that lie a multiple of a page apart crowd each other out of a first-level cache: they are copied
 * to where they do not. */
static void take_rows(struct attni_gemm *gemm, const float *rows, size_t stride,
                      float *copy)
{
    gemm->a = rows;
    gemm->a_stride = stride;
    if (stride % CROWDED != 0) {
        return;
    }
    gemm->a = copy;
    gemm->a_stride = gemm->k + APART;
    for (size_t i = 0; i < gemm->m; i++) {
        memcpy(copy + i * gemm->a_stride, rows + i * stride, gemm->k * sizeof *copy);
    }
}

void attni_back_input_run(const struct attni_back_input *product, size_t task,
                          void *scratch)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_in = product->linear->n_in, n_out = product->linear->n_out;
    size_t n_parts = attni_parts(product->n_rows, ROWS);
    size_t row = attni_part_start(product->n_rows, n_parts, task % n_parts);
    size_t column = task / n_parts * COLUMNS;
    struct attni_gemm gemm = {
        .m = attni_part_start(product->n_rows, n_parts, task % n_parts + 1) - row,
        .n = n_in - column < COLUMNS ? n_in - column : COLUMNS,
        .c = product->dx + row * n_in + column,
        .c_stride = n_in,
        .panel_stride = kernels->n_panel * n_out,
        .accumulate = product->accumulate};
    /* in steps, so that the rows of a step stay in a cache */
    for (size_t d = 0; d < n_out; d += gemm.k) {
        gemm.k = n_out - d < INPUT_DEPTH ? n_out - d : INPUT_DEPTH;
        take_rows(&gemm, product->dy + row * n_out + d, n_out, scratch);
        gemm.b = product->turned + column * n_out + d * kernels->n_panel;
        kernels->gemm_f32(&gemm);
        gemm.accumulate = true;
    }
}

/* ---- dW ------------------------------------------------------------------------------------ */

/* Sides of a task: the shapes alone decide. */
static void sides(const struct attni_back_weight *product, size_t *rows, size_t *columns)
{
    *rows = WEIGHT_ROWS;
    *columns = WEIGHT_COLUMNS;
    while (*columns > LEAST_SIDE &&
           attni_parts(product->m, *rows) * attni_parts(product->n, *columns) <
               ENOUGH_TASKS) {
        *columns /= 2;
    }
}

size_t attni_back_product_n_tasks(const struct attni_back_weight *product)
{
    size_t rows, columns;
    sides(product, &rows, &columns);
    return attni_parts(product->m, rows) * attni_parts(product->n, columns);
}

/* Add the products of a step: gemm holds its turned rows of a; b its rows. A gradient of 0 must add
 * nothing, which a product with NaN or infinity would not. */
static void add_rows(const struct attni_back_weight *product,
                     const struct attni_gemm *gemm, const float *b, float *panels)
{
    const struct attni_kernels *kernels = attni_kernels();
    if (kernels->pack_rows_f32(gemm->k, gemm->n, b, product->n, panels,
                               gemm->panel_stride)) {
        kernels->gemm_f32(gemm);
        return;
    }
    for (size_t i = 0; i < gemm->m; i++) {
        float *out = gemm->c + i * gemm->c_stride;
        if (!gemm->accumulate) {
            memset(out, 0, gemm->n * sizeof *out);
        }
        kernels->weighted_sum_f32(gemm->k, gemm->n, gemm->a + i * gemm->a_stride, b,
                                  product->n, out);
    }
}

void attni_back_product_run(const struct attni_back_weight *product, size_t task,
                            void *scratch)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t rows, columns;
    sides(product, &rows, &columns);
    size_t n_parts = attni_parts(product->m, rows);
    size_t row = attni_part_start(product->m, n_parts, task % n_parts);
    size_t n_rows = attni_part_start(product->m, n_parts, task % n_parts + 1) - row;
    size_t column = task / n_parts * columns;
    size_t n = product->n - column < columns ? product->n - column : columns;
    float *turned = scratch, *panels = turned + DEPTH * WEIGHT_ROWS;
    float *out = product->out + row * product->n + column;
    struct attni_gemm gemm = {.m = n_rows,
                              .n = n,
                              .a = turned,
                              .a_stride = DEPTH,
                              .b = panels,
                              .c = out,
                              .c_stride = product->n,
                              .panel_stride = kernels->n_panel * DEPTH};
    size_t d = 0;
    do { /* at least once: without rows the gradient is 0 */
        gemm.k = product->n_rows - d < DEPTH ? product->n_rows - d : DEPTH;
        kernels->transpose_f32(gemm.k, n_rows, product->a + d * product->m + row,
                               product->m, turned, DEPTH);
        add_rows(product, &gemm, product->b + d * product->n + column, panels);
        gemm.accumulate = true;
        d += gemm.k;
    } while (d < product->n_rows);
    for (size_t i = 0; product->factor != 1 && i < n_rows; i++) {
        kernels->scale_f32(n, product->factor, out + i * product->n);
    }
}

/* ---- db ------------------------------------------------------------------------------------ */

size_t attni_back_bias_n_tasks(const struct attni_back_bias *sum)
{
    return attni_parts(sum->n, BIAS_COLUMNS);
}

void attni_back_bias_run(const struct attni_back_bias *sum, size_t task)
{
    double total[BIAS_COLUMNS] = {0};
    size_t first = task * BIAS_COLUMNS;
    size_t n = sum->n - first < BIAS_COLUMNS ? sum->n - first : BIAS_COLUMNS;
    for (size_t r = 0; r < sum->n_rows; r++) {
        const float *row = sum->dy + r * sum->n + first;
        for (size_t j = 0; j < n; j++) {
            total[j] += (double)row[j];
        }
    }
    for (size_t j = 0; j < n; j++) {
        sum->out[first + j] = (float)((double)sum->factor * total[j]);
    }
}
