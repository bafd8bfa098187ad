/* linear.c - projections: over packed weights by our own kernels where the processor has any, else
 * by BLAS, which no other file knows. Any thread; weights are shared, results are the caller's. */
#include "linear.h"

#include "kernels/kernels.h"
#include "tensor.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

/* The most rows and columns of one task: enough work to be worth a hand-over, little enough to be
 * spread, and a block of rows stays in the second-level cache. */
#define ROWS 126
#define COLUMNS 256

/* The longest sums taken in one go, even: a block of rows and a panel then stay in the cache. */
#define DEPTH 512

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Serial builds of OpenBLAS share work buffers without a lock and give wrong results when several
 * threads call them; then, and only then, calls take turns. */
static pthread_mutex_t serial_turn = PTHREAD_MUTEX_INITIALIZER;

static void run_single_threaded(void)
{
    openblas_set_num_threads(1);
}

void attni_linear_start(void)
{
    pthread_once(&started, run_single_threaded);
}

const char *attn_blas_name(void)
{
    return openblas_get_config();
}

/* ---- storage ------------------------------------------------------------------------------- */

bool attni_linear_floats(size_t n_in, size_t n_out, bool bf16, size_t *n)
{
    const struct attni_kernels *kernels = attni_kernels();
    bool packed = kernels->packs || bf16;
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
    if (!kernels->packs && !linear->bf16) {
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

static void run_blas(const struct attni_linear *linear, size_t n_rows, const float *x,
                     float *y)
{
    assert(n_rows <= INT_MAX && linear->n_in <= INT_MAX && linear->n_out <= INT_MAX);
    for (size_t r = 0; linear->bias && r < n_rows; r++) {
        memcpy(y + r * linear->n_out, linear->bias, linear->n_out * sizeof *y);
    }
    bool take_turns = openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
    if (take_turns) {
        pthread_mutex_lock(&serial_turn);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, linear->in_out ? CblasNoTrans : CblasTrans,
                (blasint)n_rows, (blasint)linear->n_out, (blasint)linear->n_in, 1.0f, x,
                (blasint)linear->n_in, linear->weight,
                (blasint)(linear->in_out ? linear->n_out : linear->n_in),
                linear->bias ? 1.0f : 0.0f, y, (blasint)linear->n_out);
    if (take_turns) {
        pthread_mutex_unlock(&serial_turn);
    }
}

/* A block of rows and columns, in steps of DEPTH inputs. gemm holds all but what changes by step. */
static void run_packed(const struct attni_linear *linear, struct attni_gemm gemm,
                       const float *x, size_t column)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n_in = linear->n_in, n_panel = kernels->n_panel;
    gemm.a_stride = n_in;
    gemm.panel_stride = n_in * n_panel;
    for (size_t d = 0; d < n_in; d += DEPTH) {
        gemm.k = n_in - d < DEPTH ? n_in - d : DEPTH;
        gemm.a = x + d;
        gemm.b = linear->weight + column * n_in + d * n_panel;
        gemm.accumulate = d > 0;
        kernels->gemm_f32(&gemm);
    }
}

/* The same with activations rounded on the way, as many rows at a time as a product takes. */
static void run_bf16(const struct attni_linear *linear, struct attni_gemm gemm,
                     const float *x, size_t column)
{
    const struct attni_kernels *kernels = attni_kernels();
    float pairs[ATTNI_MOST_ROWS * DEPTH / 2];
    size_t n_in = linear->n_in, n_rows = gemm.m, depth = attni_parts(n_in, 2);
    size_t n_blocks = attni_parts(n_rows, kernels->n_rows);
    float *c = gemm.c;
    gemm.a = pairs;
    gemm.a_stride = DEPTH / 2;
    gemm.panel_stride = depth * kernels->n_panel;
    for (size_t block = 0; block < n_blocks; block++) {
        size_t row = block * n_rows / n_blocks;
        gemm.m = (block + 1) * n_rows / n_blocks - row;
        gemm.c = c + row * gemm.c_stride;
        for (size_t d = 0; d < n_in; d += DEPTH) {
            size_t n = n_in - d < DEPTH ? n_in - d : DEPTH;
            for (size_t i = 0; i < gemm.m; i++) {
                kernels->round_pairs_bf16(n, x + (row + i) * n_in + d,
                                          pairs + i * gemm.a_stride);
            }
            gemm.k = attni_parts(n, 2);
            gemm.b = linear->weight + column * depth + d / 2 * kernels->n_panel;
            gemm.accumulate = d > 0;
            kernels->gemm_bf16(&gemm);
        }
    }
}

/* Columns are cut only where there are kernels that start at any panel. */
static size_t column_parts(const struct attni_linear *linear)
{
    bool packed = attni_kernels()->packs || linear->bf16;
    return packed ? attni_parts(linear->n_out, COLUMNS) : 1;
}

size_t attni_linear_n_tasks(const struct attni_linear *linear, size_t n_rows)
{
    return attni_parts(n_rows, ROWS) * column_parts(linear);
}

void attni_linear_run(const struct attni_linear *linear, size_t n_rows, const float *x,
                      float *y, size_t task)
{
    size_t n_in = linear->n_in, n_out = linear->n_out;
    size_t n_row_parts = attni_parts(n_rows, ROWS), row_part = task % n_row_parts;
    /* even parts: none is left thin */
    size_t row = attni_part_start(n_rows, n_row_parts, row_part);
    size_t next = attni_part_start(n_rows, n_row_parts, row_part + 1);
    if (!attni_kernels()->packs && !linear->bf16) {
        run_blas(linear, next - row, x + row * n_in, y + row * n_out);
        return;
    }
    size_t column = task / n_row_parts * COLUMNS;
    struct attni_gemm gemm = {.m = next - row,
                              .n = n_out - column < COLUMNS ? n_out - column : COLUMNS,
                              .bias = linear->bias ? linear->bias + column : NULL,
                              .c = y + row * n_out + column,
                              .c_stride = n_out};
    if (linear->bf16) {
        run_bf16(linear, gemm, x + row * n_in, column);
    } else {
        run_packed(linear, gemm, x + row * n_in, column);
    }
}
