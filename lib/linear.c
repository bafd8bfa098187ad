/* linear.c - projections: over packed weights by our own kernels where the processor has any, else
 * by BLAS. Any thread; weights are shared, results are the caller's. */
#include "linear.h"

#include "blas.h"
#include "kernels/kernels.h"
#include "tensor.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

/* The most rows and columns of one task: enough work to be worth a hand-over, little enough to be
 * spread, and a block of rows stays in the second-level cache. */
#define ROWS 126
#define COLUMNS 256

/* Fewer columns, where there would be few tasks. */
#define LEAST_COLUMNS 128
#define ENOUGH_TASKS 8

/* The longest sums taken in one go, even: a block of rows and a panel then stay in the cache. */
#define DEPTH 512

/* Floats of a page; and what copied rows are set further apart, so that they do not share cache sets. */
#define CROWDED 1024
#define APART 16

/* Are weights laid out for kernels of ours? Also where the machine has neither kernels nor BLAS: the
 * plain ones are slow, but there. */
static bool are_packed(void)
{
    return attni_kernels()->packs || !attni_blas();
}

const char *attn_blas_name(void)
{
    return are_packed() ? "none, kernels of our own" : attni_blas()->name;
}

/* ---- storage ------------------------------------------------------------------------------- */

bool attni_linear_floats(size_t n_in, size_t n_out, bool bf16, size_t *n)
{
    const struct attni_kernels *kernels = attni_kernels();
    bool packed = are_packed() || bf16;
    size_t columns =
        packed ? attni_parts(n_out, kernels->n_panel) * kernels->n_panel : n_out;
    return attni_multiply(bf16 ? attni_parts(n_in, 2) : n_in, columns, n);
}

/* One panel of a weight that is stored [n_in, n_out]: its rows are there already. */
static void copy_panel(const float *weight, size_t n_in, size_t n_out, size_t n,
                       size_t n_panel, float *panel)
{
    for (size_t d = 0; d < n_in; d++) {
        memcpy(panel + d * n_panel, weight + d * n_out, n * sizeof *panel);
        memset(panel + d * n_panel + n, 0, (n_panel - n) * sizeof *panel);
    }
}

/* One panel of pairs of bf16: element [d][j] pairs inputs 2d and 2d + 1 of column j. */
static void round_panel(const struct attni_linear *linear, const float *weight, size_t n,
                        float *panel)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_in = linear->n_in, n_panel = kernels->n_panel;
    size_t step = linear->in_out ? linear->n_out : 1;
    for (size_t d = 0; d < n_in; d += 2) {
        for (size_t j = 0; j < n_panel; j++) {
            const float *at = weight + j * (linear->in_out ? 1 : n_in) + d * step;
            float two[2] = {0, 0};
            if (j < n) {
                two[0] = at[0];
                two[1] = d + 1 < n_in ? at[step] : 0;
            }
            kernels->round_pairs_bf16(2, two, panel + d / 2 * n_panel + j);
        }
    }
}

void attni_linear_store(const struct attni_linear *linear, const float *weight,
                        float *stored)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_in = linear->n_in, n_out = linear->n_out, n_panel = kernels->n_panel;
    if (!are_packed() && !linear->bf16) {
        memcpy(stored, weight, n_in * n_out * sizeof *stored);
        return;
    }
    size_t depth = linear->bf16 ? attni_parts(n_in, 2) : n_in;
    for (size_t column = 0; column < n_out; column += n_panel) {
        size_t n = n_out - column < n_panel ? n_out - column : n_panel;
        const float *from = weight + column * (linear->in_out ? 1 : n_in);
        float *panel = stored + column * depth;
        if (linear->bf16) {
            round_panel(linear, from, n, panel);
        } else if (linear->in_out) {
            copy_panel(from, n_in, n_out, n, n_panel, panel);
        } else {
            kernels->pack_columns_f32(n, n_in, from, n_in, panel);
        }
    }
}

/* ---- product ------------------------------------------------------------------------------- */

bool attni_linear_is_packed(const struct attni_linear *linear)
{
    return are_packed() || linear->bf16;
}

struct attni_product attni_product_of(const struct attni_linear *linear, size_t n_rows,
                                      const float *x, float *y)
{
    return (struct attni_product){.linear = linear,
                                  .n_columns = linear->n_out,
                                  .n_rows = n_rows,
                                  .x = x,
                                  .y = y,
                                  .row = linear->n_out,
                                  .block = linear->n_out};
}

bool attni_linear_cuts(const struct attni_linear *linear, size_t width)
{
    return attni_linear_is_packed(linear) && width > 0 &&
           width % attni_kernels()->n_panel == 0;
}

/* Rows that lie a multiple of a page apart crowd each other out of a first-level cache. */
static bool is_crowded(const struct attni_linear *linear)
{
    return are_packed() && !linear->bf16 && linear->n_in % CROWDED == 0 &&
           linear->n_in > 0;
}

bool attni_linear_scratch(const struct attni_linear *linear, bool in_place,
                          size_t *n_bytes)
{
    size_t depth = in_place ? linear->n_in : is_crowded(linear) ? DEPTH : 0;
    const size_t shape[] = {ROWS, depth, sizeof(float)};
    *n_bytes = 0;
    return depth == 0 || (attni_count(shape, 3, n_bytes) &&
                          attni_add(*n_bytes, sizeof(float) * ROWS * APART, n_bytes));
}

static void run_blas(const struct attni_product *p, size_t n_rows, const float *x,
                     float *y)
{
    const struct attni_linear *linear = p->linear;
    assert(n_rows <= INT_MAX && linear->n_in <= INT_MAX && linear->n_out <= INT_MAX);
    for (size_t r = 0; linear->bias && r < n_rows; r++) {
        memcpy(y + r * linear->n_out, linear->bias, linear->n_out * sizeof *y);
    }
    attni_blas()->multiply(linear->in_out, (int)n_rows, (int)linear->n_out,
                           (int)linear->n_in, x, linear->weight,
                           linear->bias ? 1.0f : 0.0f, y);
}

/* Part of a product: rows [row, row + n_rows), columns [column, end) counted from its first. */
struct part {
    const struct attni_product *product;
    size_t row, n_rows, column, end;
};

/* One step of the depth, block by block: gemm holds the rows and the step (k, a, accumulate); weights
 * are `depth` deep, of which `at` have been taken. */
static void multiply_step(const struct part *part, struct attni_gemm *gemm, size_t depth,
                          size_t at)
{
    const struct attni_product *p = part->product;
    const struct attni_kernels *kernels = attni_kernels();
    for (size_t c = part->column; c < part->end; c += gemm->n) {
        size_t within = c % p->block, left = p->block - within;
        gemm->n = part->end - c < left ? part->end - c : left;
        gemm->b = p->linear->weight + (p->first + c) * depth + at * kernels->n_panel;
        gemm->panel_stride = depth * kernels->n_panel;
        gemm->bias = p->linear->bias ? p->linear->bias + p->first + c : NULL;
        gemm->c = p->y + c / p->block * p->block_stride + part->row * p->row + within;
        gemm->c_stride = p->row;
        (p->linear->bf16 ? kernels->gemm_bf16 : kernels->gemm_f32)(gemm);
    }
}

static void copy_rows(const float *x, size_t stride, size_t n_rows, size_t n, float *copy)
{
    for (size_t i = 0; i < n_rows; i++) {
        memcpy(copy + i * (n + APART), x + i * stride, n * sizeof *copy);
    }
}

/* In steps of DEPTH inputs. */
static void run_packed(const struct part *part, float *copy)
{
    const struct attni_product *p = part->product;
    size_t n_in = p->linear->n_in;
    const float *x = p->x + part->row * n_in;
    bool crowded = !p->in_place && is_crowded(p->linear);
    struct attni_gemm gemm = {.m = part->n_rows, .a_stride = n_in};
    if (p->in_place) {
        copy_rows(x, n_in, part->n_rows, n_in, copy);
        x = copy;
        gemm.a_stride = n_in + APART;
    }
    for (size_t d = 0; d < n_in; d += DEPTH) {
        gemm.k = n_in - d < DEPTH ? n_in - d : DEPTH;
        gemm.a = x + d;
        gemm.accumulate = d > 0;
        if (crowded) {
            copy_rows(x + d, n_in, part->n_rows, gemm.k, copy);
            gemm.a = copy;
            gemm.a_stride = gemm.k + APART;
        }
        multiply_step(part, &gemm, n_in, d);
    }
}

/* The same with activations rounded on the way, as many rows at a time as a product takes. */
static void run_bf16(const struct part *part, float *copy)
{
    const struct attni_product *p = part->product;
    const struct attni_kernels *kernels = attni_kernels();
    float pairs[ATTNI_MOST_ROWS * DEPTH / 2];
    size_t n_in = p->linear->n_in, stride = n_in;
    size_t n_blocks = attni_parts(part->n_rows, kernels->n_rows);
    const float *x = p->x + part->row * n_in;
    if (p->in_place) {
        copy_rows(x, n_in, part->n_rows, n_in, copy);
        x = copy;
        stride = n_in + APART;
    }
    for (size_t block = 0; block < n_blocks; block++) {
        struct part rows = *part;
        size_t row = attni_part_start(part->n_rows, n_blocks, block);
        rows.row += row;
        rows.n_rows = attni_part_start(part->n_rows, n_blocks, block + 1) - row;
        struct attni_gemm gemm = {.m = rows.n_rows, .a = pairs, .a_stride = DEPTH / 2};
        for (size_t d = 0; d < n_in; d += DEPTH) {
            size_t n = n_in - d < DEPTH ? n_in - d : DEPTH;
            for (size_t i = 0; i < rows.n_rows; i++) {
                kernels->round_pairs_bf16(n, x + (row + i) * stride + d,
                                          pairs + i * gemm.a_stride);
            }
            gemm.k = attni_parts(n, 2);
            gemm.accumulate = d > 0;
            multiply_step(&rows, &gemm, attni_parts(n_in, 2), d / 2);
        }
    }
}

/* Columns of a task. They are cut only where there are kernels that start at any panel, and where no
 * task writes what another has yet to read. */
static size_t columns_of_task(const struct attni_product *product)
{
    if (!attni_linear_is_packed(product->linear) || product->in_place) {
        return product->n_columns;
    }
    size_t n_rows = attni_parts(product->n_rows, ROWS), columns = COLUMNS;
    while (columns > LEAST_COLUMNS &&
           n_rows * attni_parts(product->n_columns, columns) < ENOUGH_TASKS) {
        columns /= 2;
    }
    return columns;
}

size_t attni_linear_n_tasks(const struct attni_product *product)
{
    size_t columns = columns_of_task(product);
    return columns == 0 ? 0
                        : attni_parts(product->n_rows, ROWS) *
                              attni_parts(product->n_columns, columns);
}

void attni_linear_run(const struct attni_product *product, size_t task, void *scratch)
{
    size_t n_in = product->linear->n_in, n_parts = attni_parts(product->n_rows, ROWS);
    size_t columns = columns_of_task(product), column = task / n_parts * columns;
    size_t left = product->n_columns - column;
    /* even parts: none is left thin */
    struct part part = {.product = product,
                        .row = attni_part_start(product->n_rows, n_parts, task % n_parts),
                        .column = column,
                        .end = column + (left < columns ? left : columns)};
    part.n_rows =
        attni_part_start(product->n_rows, n_parts, task % n_parts + 1) - part.row;
    if (!attni_linear_is_packed(product->linear)) {
        run_blas(product, part.n_rows, product->x + part.row * n_in,
                 product->y + part.row * product->row);
    } else if (product->linear->bf16) {
        run_bf16(&part, scratch);
    } else {
        run_packed(&part, scratch);
    }
}
