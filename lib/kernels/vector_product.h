/* vector_product.h - part of vector.h: matrix products over packed panels, and the packing. */

#ifndef HAS_DOT_PAIRS
/* sum + the products of two bf16 each, which share a lane: the first in its lower half. A bf16 is the
 * upper half of a float. */
INLINE vf v_dot_pairs(vf a, vf b, vf sum)
{
    const vi upper = (vi)v_all(0) + (int)0xffff0000;
    vf second = v_fma((vf)((vi)a & upper), (vf)((vi)b & upper), sum);
    return v_fma((vf)((vi)a << 16), (vf)((vi)b << 16), second);
}
#endif

/* rows x vectors of the result, whole ones, from column `column`, the first of a panel; rows and
 * vectors are constants where this is inlined. */
INLINE void tile(const struct attni_gemm *g, bool pairs, size_t rows, size_t vectors,
                 size_t row, size_t column)
{
    const float *a = g->a + row * g->a_stride,
                *b = g->b + column / PANEL * g->panel_stride;
    float *c = g->c + row * g->c_stride + column;
    vf sum[TILE_ROWS * TILE_VECTORS]; /* never more than rows * vectors */
    /* where sums start: at c, or each row at the bias, or at 0 */
    const float *start = g->accumulate ? c : g->bias ? g->bias + column : NULL;
    size_t start_stride = g->accumulate ? g->c_stride : 0;
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[i * vectors + v] =
                start ? v_load(start + i * start_stride + v * LANES) : v_all(0);
        }
    }
    UNROLL_4
    for (size_t d = 0; d < g->k; d++) {
        vf columns[WIDEST];
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            columns[v] = v_load(b + v / TILE_VECTORS * g->panel_stride + d * PANEL +
                                v % TILE_VECTORS * LANES);
        }
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            vf x = v_all(a[i * g->a_stride + d]);
            UNROLL
            for (size_t v = 0; v < vectors; v++) {
                sum[i * vectors + v] =
                    pairs ? v_dot_pairs(x, columns[v], sum[i * vectors + v])
                          : v_fma(x, columns[v], sum[i * vectors + v]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            v_store(c + i * g->c_stride + v * LANES, sum[i * vectors + v]);
        }
    }
}

#define TILE_CASE(n, vectors)                    \
    case n:                                      \
        tile(g, pairs, n, vectors, row, column); \
        break

#if TILE_ROWS >= 14
#define TILE_CASES_ABOVE_8(vectors) \
    TILE_CASE(9, vectors);          \
    TILE_CASE(10, vectors);         \
    TILE_CASE(11, vectors);         \
    TILE_CASE(12, vectors);         \
    TILE_CASE(13, vectors);         \
    TILE_CASE(14, vectors)
#else
#define TILE_CASES_ABOVE_8(vectors)
#endif
#if TILE_ROWS >= 8
#define TILE_CASES_ABOVE_6(vectors) \
    TILE_CASE(7, vectors);          \
    TILE_CASE(8, vectors);          \
    TILE_CASES_ABOVE_8(vectors)
#else
#define TILE_CASES_ABOVE_6(vectors)
#endif
#define TILE_CASES(vectors) \
    TILE_CASE(1, vectors);  \
    TILE_CASE(2, vectors);  \
    TILE_CASE(3, vectors);  \
    TILE_CASE(4, vectors);  \
    TILE_CASE(5, vectors);  \
    TILE_CASE(6, vectors);  \
    TILE_CASES_ABOVE_6(vectors)

/* All rows of one panel; they are cut evenly, so that no tile is left thin. */
INLINE void one_panel(const struct attni_gemm *g, bool pairs, bool half, size_t column)
{
    size_t n_tiles = (g->m + TILE_ROWS - 1) / TILE_ROWS;
    for (size_t t = 0; t < n_tiles; t++) {
        size_t row = t * g->m / n_tiles, rows = (t + 1) * g->m / n_tiles - row;
        if (half) {
            switch (rows) {
                TILE_CASES(1);
            }
        } else {
            switch (rows) {
                TILE_CASES(TILE_VECTORS);
            }
        }
    }
}

/* The two element types, as functions of their own: each is a lot of code. `half`: no more than one
 * vector of the panel is used. */
static void panel_f32(const struct attni_gemm *g, bool half, size_t column)
{
    one_panel(g, false, half, column);
}

static void panel_bf16(const struct attni_gemm *g, bool half, size_t column)
{
    one_panel(g, true, half, column);
}

/* A last panel whose columns end within a vector: computed beside c, and copied. */
static void partial_panel(const struct attni_gemm *g, bool pairs, size_t column)
{
    float c[TILE_ROWS * PANEL], bias[PANEL] = {0};
    size_t n = g->n - column;
    struct attni_gemm whole = *g;
    if (g->bias) {
        memcpy(bias, g->bias + column, n * sizeof *bias);
    }
    whole.b = g->b + column / PANEL * g->panel_stride;
    whole.bias = bias;
    whole.c = c;
    whole.c_stride = PANEL;
    for (size_t row = 0; row < g->m; row += TILE_ROWS) {
        whole.m = g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS;
        whole.a = g->a + row * g->a_stride;
        float *out = g->c + row * g->c_stride + column;
        for (size_t i = 0; g->accumulate && i < whole.m; i++) {
            memcpy(c + i * PANEL, out + i * g->c_stride, n * sizeof *c);
            memset(c + i * PANEL + n, 0, (PANEL - n) * sizeof *c);
        }
        (pairs ? panel_bf16 : panel_f32)(&whole, n <= LANES, 0);
        for (size_t i = 0; i < whole.m; i++) {
            memcpy(out + i * g->c_stride, c + i * PANEL, n * sizeof *c);
        }
    }
}

/* A few rows over several panels at a time; the number of panels done, 0 when the rows are enough
 * for one panel to keep the machine busy. */
INLINE size_t several_panels(const struct attni_gemm *g, bool pairs, size_t column,
                             size_t left)
{
    size_t row = 0;
    if (g->m == 1 && left >= 4) {
        tile(g, pairs, 1, 4 * TILE_VECTORS, row, column);
        return 4;
    }
#if TILE_ROWS >= 14
    if (g->m == 2 && left >= 4) {
        tile(g, pairs, 2, 4 * TILE_VECTORS, row, column);
        return 4;
    }
    if (left >= 2 && g->m <= 6) {
        switch (g->m) {
            TILE_CASE(1, 2 * TILE_VECTORS);
            TILE_CASE(2, 2 * TILE_VECTORS);
            TILE_CASE(3, 2 * TILE_VECTORS);
            TILE_CASE(4, 2 * TILE_VECTORS);
            TILE_CASE(5, 2 * TILE_VECTORS);
            TILE_CASE(6, 2 * TILE_VECTORS);
        }
        return 2;
    }
#else
    if (left >= 2 && g->m <= 2) {
        switch (g->m) {
            TILE_CASE(1, 2 * TILE_VECTORS);
            TILE_CASE(2, 2 * TILE_VECTORS);
        }
        return 2;
    }
#endif
    return 0;
}

INLINE void all_panels(const struct attni_gemm *g, bool pairs)
{
    size_t column = 0;
    while (column < g->n && g->m > 0) {
        size_t left = g->n - column;
        size_t done = several_panels(g, pairs, column, left / PANEL);
        if (done > 0) {
            column += done * PANEL;
            continue;
        }
        if (left >= PANEL || left == LANES) {
            (pairs ? panel_bf16 : panel_f32)(g, left == LANES, column);
        } else {
            partial_panel(g, pairs, column);
        }
        column += PANEL;
    }
}

static void gemm_f32(const struct attni_gemm *g)
{
    all_panels(g, false);
}

static void gemm_bf16(const struct attni_gemm *g)
{
    all_panels(g, true);
}

static void pack_columns_f32(size_t n, size_t width, const float *rows, size_t stride,
                             float *panel)
{
    for (size_t v = 0; v < TILE_VECTORS; v++) {
        size_t first_row = v * LANES;
        size_t n_rows = n > first_row + LANES ? LANES : n > first_row ? n - first_row : 0;
        for (size_t d = 0; d < width; d += LANES) {
            size_t part = width - d < LANES ? width - d : LANES;
            vf block[LANES];
            for (size_t r = 0; r < LANES; r++) {
                const float *at = rows + (first_row + r) * stride + d;
                __builtin_prefetch(at + PANEL * stride); /* of the panel after this one */
                block[r] = r >= n_rows     ? v_all(0)
                           : part == LANES ? v_load(at)
                                           : v_load_part(at, part);
            }
            v_transpose(block);
            for (size_t r = 0; r < part; r++) {
                v_store(panel + (d + r) * PANEL + first_row, block[r]);
            }
        }
    }
}

/* At most LANES rows and columns of a transposition. */
INLINE void transpose_square(size_t n, size_t width, const float *rows, size_t stride,
                             float *out, size_t out_stride)
{
    vf block[LANES];
    for (size_t r = 0; r < LANES; r++) {
        block[r] = r < n ? load_columns(rows + r * stride, 0, width) : v_all(0);
    }
    v_transpose(block);
    for (size_t r = 0; r < LANES && r < width; r++) {
        store_columns(out + r * out_stride, 0, n, block[r]);
    }
}

static void transpose_f32(size_t n, size_t width, const float *rows, size_t stride,
                          float *out, size_t out_stride)
{
    for (size_t j = 0; j < n; j += LANES) {
        for (size_t d = 0; d < width; d += LANES) {
            transpose_square(n - j, width - d, rows + j * stride + d, stride,
                             out + d * out_stride + j, out_stride);
        }
    }
}

static void round_pairs_bf16(size_t n, const float *x, float *pairs)
{
    uint16_t rounded[64];
    size_t d = 0;
#ifdef HAS_ROUND
    for (; d + LANES <= n; d += LANES) {
        v_round_bf16(x + d, pairs + d / 2);
    }
#endif
    for (; d < n; d += 64) {
        size_t part = n - d < 64 ? n - d : 64;
        for (size_t i = 0; i < part; i++) {
            rounded[i] = attni_bf16(x[d + i]);
        }
        if (part % 2 != 0) {
            rounded[part++] = 0;
        }
        memcpy(pairs + d / 2, rounded, part * sizeof *rounded);
    }
}

static bool pack_rows_f32(size_t n, size_t width, const float *rows, size_t stride,
                          float *panels, size_t panel_stride)
{
    vf sum = v_all(0);
    for (size_t d = 0; d < width; d += PANEL) {
        float *panel = panels + d / PANEL * panel_stride;
        for (size_t j = 0; j < n; j++) {
            for (size_t v = 0; v < TILE_VECTORS; v++) {
                __builtin_prefetch(rows + (j + 16) * stride + d + v * LANES);
                vf x = load_columns(rows + j * stride + d, v * LANES, width - d);
                v_store(panel + j * PANEL + v * LANES, x);
                /* 0 times a finite number is 0, times anything else NaN */
                sum = v_fma(x, v_all(0), sum);
            }
        }
    }
    return !isnan(v_sum(sum));
}
