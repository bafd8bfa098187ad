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

/* Products of a query with LANES keys; `whole`, the whole vectors of a row, is a constant where this
 * is inlined, and part is what is left of a row. */
INLINE vf products(size_t whole, size_t part, const float *query, const float *key,
                   size_t key_row)
{
    vf sums[LANES];
    const float *row = key;
    UNROLL
    for (size_t r = 0; r < LANES; r++, row += key_row) {
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

/* Keys [j, j + n) of all heads; less than LANES of them only where there are no more. */
INLINE void products_of_keys(const struct attni_few_scores *few, size_t whole,
                             size_t part, size_t j, size_t n)
{
    for (size_t h = 0; h < few->n_heads; h++) {
        const float *key = few->key.data + h * few->key.head + j * few->key.row;
        for (size_t i = 0; i < few->n_queries; i++) {
            const float *query =
                few->query.data + h * few->query.head + i * few->query.row;
            float *scores = few->scores + (h * few->n_queries + i) * few->score_row + j;
            if (n == LANES) {
                v_store(scores, products(whole, part, query, key, few->key.row));
                continue;
            }
            for (size_t r = 0; r < n; r++) {
                /* fewer keys than a vector: each on its own, with a stride of nothing */
                vf all = products(whole, part, query, key + r * few->key.row, 0);
                v_store_part(scores + r, all, 1);
            }
        }
    }
}

INLINE void products_of_all(const struct attni_few_scores *few, size_t whole, size_t part)
{
    size_t j = 0, n = few->n_keys;
    for (; j + LANES <= n; j += LANES) {
        products_of_keys(few, whole, part, j, LANES);
    }
    if (j < n && n >= LANES) {
        /* the last keys, some of them again: the same bits */
        products_of_keys(few, whole, part, n - LANES, LANES);
    } else if (j < n) {
        products_of_keys(few, whole, part, 0, n);
    }
}

/* Widths that are usual have code of their own. */
static void scores_f32(const struct attni_few_scores *few)
{
    size_t whole = few->width / LANES, part = few->width % LANES;
    if (part == 0 && whole == 1) {
        products_of_all(few, 1, 0);
    } else if (part == 0 && whole == 2) {
        products_of_all(few, 2, 0);
    } else if (part == 0 && whole == 4) {
        products_of_all(few, 4, 0);
    } else if (part == 0 && whole == 8) {
        products_of_all(few, 8, 0);
    } else {
        products_of_all(few, whole, part);
    }
}

/* Vectors of a sum that are gathered side by side, and the sums that each is gathered in: so many,
 * whatever is beside it, so that its bits do not depend on that. */
#define ABREAST 4
#define WAYS 2

/* out[0..n_columns) += rows of values, column vector v by the weights that weight[v] points at; or,
 * where that is not finite, nothing, and false: a weight of 0 has then to be kept from its value.
 * `vectors` is a constant where this is inlined. */
INLINE bool weigh_columns(size_t vectors, size_t n_columns, size_t n,
                          const float *const *weight, const float *value, size_t stride,
                          float *out)
{
    vf sum[ABREAST * WAYS];
    UNROLL
    for (size_t u = 0; u < WAYS; u++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[u * vectors + v] =
                u == 0 ? load_columns(out, v * LANES, n_columns) : v_all(0);
        }
    }
    size_t j = 0;
    for (; j + WAYS <= n; j += WAYS) {
        UNROLL
        for (size_t u = 0; u < WAYS; u++) {
            UNROLL
            for (size_t v = 0; v < vectors; v++) {
                vf x = load_columns(value + (j + u) * stride, v * LANES, n_columns);
                sum[u * vectors + v] =
                    v_fma(v_all(weight[v][j + u]), x, sum[u * vectors + v]);
            }
        }
    }
    for (; j < n; j++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            vf x = load_columns(value + j * stride, v * LANES, n_columns);
            sum[v] = v_fma(v_all(weight[v][j]), x, sum[v]);
        }
    }
    vf all = v_all(0);
    UNROLL
    for (size_t v = 0; v < vectors; v++) {
        for (size_t u = 1; u < WAYS; u++) {
            sum[v] = sum[v] + sum[u * vectors + v];
        }
        /* 0 times a finite number is 0, times anything else NaN */
        all = v_fma(sum[v], v_all(0), all);
    }
    if (isnan(v_sum(all))) {
        return false;
    }
    UNROLL
    for (size_t v = 0; v < vectors; v++) {
        store_columns(out, v * LANES, n_columns, sum[v]);
    }
    return true;
}

/* The same for up to LANES columns, without what has a weight of 0. */
static void weigh_open_rows(size_t n, size_t part, const float *weight,
                            const float *value, size_t stride, float *out)
{
    vf sum = load_columns(out, 0, part);
    for (size_t j = 0; j < n; j++) {
        if (weight[j] != 0) {
            sum = v_fma(v_all(weight[j]), load_columns(value + j * stride, 0, part), sum);
        }
    }
    store_columns(out, 0, part, sum);
}

static void weigh_vector(size_t n, size_t part, const float *weight, const float *value,
                         size_t stride, float *out)
{
    bool done = part == LANES ? weigh_columns(1, LANES, n, &weight, value, stride, out)
                              : weigh_columns(1, part, n, &weight, value, stride, out);
    if (!done) {
        weigh_open_rows(n, part, weight, value, stride, out);
    }
}

static void weighted_sum_f32(size_t n, size_t width, const float *weight,
                             const float *value, size_t value_stride, float *out)
{
    const float *const same[ABREAST] = {weight, weight, weight, weight};
    size_t d = 0;
    for (; d + ABREAST * LANES <= width; d += ABREAST * LANES) {
        if (!weigh_columns(ABREAST, ABREAST * LANES, n, same, value + d, value_stride,
                           out + d)) {
            break;
        }
    }
    for (; d < width; d += LANES) {
        size_t part = width - d < LANES ? width - d : LANES;
        weigh_vector(n, part, weight, value + d, value_stride, out + d);
    }
}

/* Several heads side by side as one row of columns, a vector of which belongs to one head. */
static void weigh_side_by_side(const struct attni_few_sums *few)
{
    size_t n_vectors = few->n_heads * few->width / LANES, each = few->width / LANES;
    for (size_t v = 0; v < n_vectors; v += ABREAST) {
        const float *weight[ABREAST];
        size_t n = n_vectors - v < ABREAST ? n_vectors - v : ABREAST;
        for (size_t i = 0; i < n; i++) {
            weight[i] = few->weight + (v + i) / each * few->weight_head;
        }
        const float *value = few->value.data + v * LANES;
        float *out = few->out + v * LANES;
        if (n == ABREAST && weigh_columns(ABREAST, ABREAST * LANES, few->n_keys, weight,
                                          value, few->value.row, out)) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            weigh_vector(few->n_keys, LANES, weight[i], value + i * LANES, few->value.row,
                         out + i * LANES);
        }
    }
}

static void weighted_heads_f32(const struct attni_few_sums *few)
{
    bool adjacent = few->value.head == few->width && few->out_head == few->width;
    if (adjacent && few->width % LANES == 0 && few->width > 0) {
        weigh_side_by_side(few);
        return;
    }
    for (size_t h = 0; h < few->n_heads; h++) {
        weighted_sum_f32(few->n_keys, few->width, few->weight + h * few->weight_head,
                         few->value.data + h * few->value.head, few->value.row,
                         few->out + h * few->out_head);
    }
}
