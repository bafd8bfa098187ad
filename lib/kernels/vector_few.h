/* vector_few.h - part of vector.h: products and sums for a few queries, without packing. */

static float dot_f32(size_t n, const float *a, const float *b)
{
    vf even = v_all(0), odd = v_all(0);
    size_t d = 0;
    for (; d + 2 * LANES <= n; d += 2 * LANES) {
        even = v_fma(v_load(a + d), v_load(b + d), even);
        odd = v_fma(v_load(a + d + LANES), v_load(b + d + LANES), odd);
    }
    for (; d < n; d += LANES) {
        even = v_fma(load_columns(a, d, n), load_columns(b, d, n), even);
    }
    return v_sum(even + odd);
}

static float sum_f32(size_t n, const float *a)
{
    vf sum = v_all(0);
    for (size_t d = 0; d < n; d += LANES) {
        sum = sum + load_columns(a, d, n);
    }
    return v_sum(sum);
}

/* Rows of one head lie apart, further than the processor looks ahead by itself: ask for them. */
INLINE void fetch_row(const float *row, size_t width)
{
    for (size_t d = 0; d < width; d += 16) {
        __builtin_prefetch(row + d);
    }
}

/* Products of a query with LANES keys; `whole`, the whole vectors of a row, is a constant where this
 * is inlined, and part is what is left of a row. */
INLINE vf products(size_t whole, size_t part, const float *query, const float *key,
                   size_t key_stride)
{
    vf sums[LANES];
    for (size_t r = 0; r < LANES; r++) {
        const float *row = key + r * key_stride;
        vf sum = v_all(0);
        for (size_t v = 0; v < whole; v++) {
            sum = v_fma(v_load(query + v * LANES), v_load(row + v * LANES), sum);
        }
        if (part > 0) {
            sum = v_fma(v_load_part(query + whole * LANES, part),
                        v_load_part(row + whole * LANES, part), sum);
        }
        sums[r] = sum;
    }
    return v_sum_rows(sums);
}

static vf products_of(size_t width, const float *query, const float *key,
                      size_t key_stride)
{
    size_t whole = width / LANES, part = width % LANES;
    if (part > 0 || whole == 0) {
        return products(whole, part, query, key, key_stride);
    }
    switch (whole) {
    case 1:
        return products(1, 0, query, key, key_stride);
    case 2:
        return products(2, 0, query, key, key_stride);
    case 4:
        return products(4, 0, query, key, key_stride);
    case 8:
        return products(8, 0, query, key, key_stride);
    default:
        return products(whole, 0, query, key, key_stride);
    }
}

static void scores_of_query(size_t n_keys, size_t width, const float *query,
                            const float *key, size_t key_stride, float *scores)
{
    size_t j = 0;
    for (; j + LANES <= n_keys; j += LANES) {
        for (size_t r = 0; r < LANES && j + 2 * LANES + r < n_keys; r++) {
            fetch_row(key + (j + 2 * LANES + r) * key_stride, width);
        }
        v_store(scores + j, products_of(width, query, key + j * key_stride, key_stride));
    }
    if (j < n_keys && n_keys >= LANES) {
        /* the last keys, some of them again: the same bits */
        j = n_keys - LANES;
        v_store(scores + j, products_of(width, query, key + j * key_stride, key_stride));
        return;
    }
    for (; j < n_keys; j++) {
        /* fewer keys than a vector: each on its own, with a stride of nothing */
        vf all = products_of(width, query, key + j * key_stride, 0);
        v_store_part(scores + j, all, 1);
    }
}

static void scores_f32(size_t n_queries, size_t n_keys, size_t width, const float *query,
                       size_t query_stride, const float *key, size_t key_stride,
                       float *scores, size_t score_stride)
{
    for (size_t i = 0; i < n_queries; i++) {
        scores_of_query(n_keys, width, query + i * query_stride, key, key_stride,
                        scores + i * score_stride);
    }
}

/* Values listed at a time. */
#define LISTED 128

/* out[0..part) += the listed rows, each times its weight. `vectors` and `ways` are constants where
 * this is inlined; ways sums go side by side, so that one does not wait for the other. */
INLINE void weigh_columns(size_t n, size_t vectors, size_t ways, size_t part,
                          const float *weight, const float *const *rows, size_t column,
                          float *out)
{
    vf sum[4][4];
    for (size_t u = 0; u < ways; u++) {
        for (size_t v = 0; v < vectors; v++) {
            sum[u][v] = u == 0 ? load_columns(out, v * LANES, part) : v_all(0);
        }
    }
    size_t j = 0;
    for (; j + ways <= n; j += ways) {
        for (size_t u = 0; u < ways; u++) {
            vf w = v_all(weight[j + u]);
            for (size_t v = 0; v < vectors; v++) {
                vf x = load_columns(rows[j + u] + column, v * LANES, part);
                sum[u][v] = v_fma(w, x, sum[u][v]);
            }
        }
    }
    for (; j < n; j++) {
        for (size_t v = 0; v < vectors; v++) {
            vf x = load_columns(rows[j] + column, v * LANES, part);
            sum[0][v] = v_fma(v_all(weight[j]), x, sum[0][v]);
        }
    }
    for (size_t v = 0; v < vectors; v++) {
        vf total = sum[0][v];
        for (size_t u = 1; u < ways; u++) {
            total = total + sum[u][v];
        }
        store_columns(out, v * LANES, part, total);
    }
}

static void weigh_rows(size_t n, size_t width, const float *weight,
                       const float *const *rows, float *out)
{
    size_t d = 0;
    for (; d + 4 * LANES <= width; d += 4 * LANES) {
        weigh_columns(n, 4, 2, 4 * LANES, weight, rows, d, out + d);
    }
    for (; d + LANES <= width; d += LANES) {
        weigh_columns(n, 1, 4, LANES, weight, rows, d, out + d);
    }
    if (d < width) {
        weigh_columns(n, 1, 4, width - d, weight, rows, d, out + d);
    }
}

/* Values of weight 0 are left out of the list beforehand: a branch a value would be guessed wrong
 * too often under a mask. */
static void weighted_sum_f32(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out)
{
    for (size_t j = 0; j < n; j += LISTED) {
        const float *rows[LISTED];
        float weights[LISTED];
        size_t part = n - j < LISTED ? n - j : LISTED, listed = 0;
        for (size_t i = 0; i < part; i++) {
            rows[listed] = value + (j + i) * value_stride;
            fetch_row(rows[listed], width);
            weights[listed] = weight[j + i];
            listed += weight[j + i] != 0;
        }
        weigh_rows(listed, width, weights, rows, out);
    }
}
