/* vector_rows.h - part of vector.h: what happens to rows of scores between the two products. */

/* exp(x) for x <= 88: within 2 units in the last place of the exact value, and 0 where that is below
 * the smallest normal float. NaN stays NaN. exp(x) = 2^n * exp(r) with n the integer nearest to
 * x / ln 2 and |r| <= ln(2) / 2, ln 2 being split in two so that r keeps its digits. */
INLINE vf exponential(vf x)
{
    /* 1.5 * 2^23 + 127: adding it rounds to an integer n, and leaves n + 127 in the lowest bits */
    const vf shift = v_all(12583039.0f);
    vf shifted = v_fma(x, v_all(1.44269504f), shift);
    vf n = shifted - shift;
    vf r = v_fma(n, v_all(-0.693359375f), x);
    r = v_fma(n, v_all(2.12194440e-4f), r);
    /* 1 + r + r^2 * a polynomial fitted to (exp(r) - 1 - r) / r^2: off by 3e-9 of exp(r) */
    vf p = v_fma(v_all(1.3814540e-3f), r, v_all(8.3687452e-3f));
    p = v_fma(p, r, v_all(4.16683908e-2f));
    p = v_fma(p, r, v_all(1.66665204e-1f));
    p = v_fma(p, r, v_all(4.99999934e-1f));
    p = v_fma(p, r, v_all(1.0f));
    p = v_fma(p, r, v_all(1.0f));
    /* those bits are the exponent of 2^n; a product keeps NaN, whatever its bits */
    vf result = p * (vf)((vi)shifted << 23);
    return v_where_below(x, v_all(-87.33654f), v_all(0), result);
}

/* tanh(x) within 2e-7: odd polynomial near 0, else by exp(-2 |x|), which cannot overflow. */
INLINE vf hyperbolic_tangent(vf x)
{
    const vi sign_bit = (vi)v_all(-0.0f);
    vi sign = (vi)x & sign_bit;
    vf a = (vf)((vi)x & ~sign_bit);
    vf z = x * x;
    vf p = v_fma(v_all(-5.70498872745e-3f), z, v_all(2.06390887954e-2f));
    p = v_fma(p, z, v_all(-5.37397155531e-2f));
    p = v_fma(p, z, v_all(1.33314422036e-1f));
    p = v_fma(p, z, v_all(-3.33332819422e-1f));
    vf near = v_fma(p, z * x, x);
    vf e = exponential(a * v_all(-2.0f));
    vf far = (v_all(1.0f) - e) / (v_all(1.0f) + e);
    return v_where_below(a, v_all(0.625f), near, (vf)((vi)far | sign));
}

INLINE void block_vector(const unsigned char *mask, bool true_keeps, float *row)
{
    const vi infinite = (vi)v_all(-INFINITY);
    vi open = true_keeps ? v_flags(mask) : ~v_flags(mask);
    v_store(row, (vf)(((vi)v_load(row) & open) | (infinite & ~open)));
}

static void block_f32(size_t n, const unsigned char *mask, bool true_keeps, float *row)
{
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        block_vector(mask + j, true_keeps, row + j);
    }
    if (j < n && n >= LANES) {
        block_vector(mask + n - LANES, true_keeps,
                     row + n - LANES); /* some of them again */
        return;
    }
    for (; j < n; j++) {
        row[j] = (mask[j] != 0) != true_keeps ? -INFINITY : row[j];
    }
}

static void clip_f32(size_t n, float clip, float *row)
{
    for (size_t j = 0; j < n; j += LANES) {
        vf x = load_columns(row, j, n);
        store_columns(row, j, n, hyperbolic_tangent(x) * v_all(clip));
    }
}

static void scale_f32(size_t n, float factor, float *row)
{
    for (size_t j = 0; j < n; j += LANES) {
        store_columns(row, j, n, load_columns(row, j, n) * v_all(factor));
    }
}

/* What row has to be multiplied by before shift is subtracted. Products beyond a million are rounded
 * here, as shift was: the rounding alone may be worth any number of factors of e. */
INLINE float scale_of(size_t n, float scale, float shift, float *row)
{
    if (fabsf(shift) < 1e6f) {
        return scale;
    }
    scale_f32(n, scale, row);
    return 1;
}

static void exponential_f32(size_t n, float scale, float shift, float factor, float *row)
{
    scale = scale_of(n, scale, shift, row);
    for (size_t j = 0; j < n; j += LANES) {
        vf x = v_fma(load_columns(row, j, n), v_all(scale), v_all(-shift));
        store_columns(row, j, n, exponential(x) * v_all(factor));
    }
}

/* weight * (gradient - delta) is NaN for 0 times infinity: the weight then has to decide. 0 is below
 * the smallest float there is, and weights are not negative. */
static void softmax_gradient_f32(size_t n, const float *weight, float delta,
                                 float *gradient)
{
    for (size_t j = 0; j < n; j += LANES) {
        vf w = load_columns(weight, j, n);
        vf product = w * (load_columns(gradient, j, n) - v_all(delta));
        store_columns(gradient, j, n,
                      v_where_below(w, v_all(1.40129846e-45f), v_all(0), product));
    }
}

/* The greatest of a row whose end is padded here; NaN counts for nothing. */
INLINE float greatest(size_t n, float *row)
{
    size_t whole = (n + LANES - 1) / LANES * LANES;
    for (size_t j = n; j < whole; j++) {
        row[j] = -INFINITY;
    }
    vf top = v_all(-INFINITY);
    for (size_t j = 0; j < whole; j += LANES) {
        top = v_max(v_load(row + j), top);
    }
    return v_greatest(top);
}

/* row[j] = exp(scale * row[j] - shift) up to the padded end; the sum of them. */
INLINE float weights(size_t n, float scale, float shift, float *row)
{
    scale = scale_of(n, scale, shift, row);
    vf total = v_all(0);
    for (size_t j = 0; j < n; j += LANES) {
        vf p = exponential(v_fma(v_load(row + j), v_all(scale), v_all(-shift)));
        v_store(row + j, p);
        total = total + p;
    }
    return v_sum(total);
}

/* Nothing is open so far: no weights, unless a NaN hides among the -inf. */
static float no_weights(size_t n, float *row)
{
    bool nan = false;
    for (size_t j = 0; j < (n + LANES - 1) / LANES * LANES; j++) {
        nan = nan || isnan(row[j]);
        row[j] = 0;
    }
    return nan ? NAN : 0;
}

/* First all maxima, then all weights: within one row the second would wait for the first, while
 * rows do not wait for each other. */
static void softmax_step_f32(size_t n_rows, const size_t *n, float scale, float *rows,
                             size_t stride, float *max, float *sum, float *factor)
{
    for (size_t i = 0; i < n_rows; i++) {
        float before = max[i], now = scale * greatest(n[i], rows + i * stride);
        now = now > before ? now : before;
        factor[i] = before == now || before == -INFINITY ? 1 : expf(before - now);
        max[i] = now;
    }
    for (size_t i = 0; i < n_rows; i++) {
        float *row = rows + i * stride;
        float added = max[i] == -INFINITY ? no_weights(n[i], row)
                                          : weights(n[i], scale, max[i], row);
        sum[i] = sum[i] * factor[i] + added;
    }
}
