/* gradient_oracle.h - the derivatives of oracle.h's formulas, written down as the chain rule says them:
 * slow, plain, in double precision. Tests hold them against differences of the formulas themselves,
 * and the library against both. */
#ifndef TESTS_UNIT_LIB_GRADIENT_ORACLE_H
#define TESTS_UNIT_LIB_GRADIENT_ORACLE_H

#include "unit/lib/oracle.h"

/* ---- projections --------------------------------------------------------------------------- */

/* Add to the gradients of x, and of the weight and bias (laid out as they are; NULL: not wanted),
 * given that of y. */
static inline void oracle_apply_back(const struct oracle_map *map, const double *x,
                                     size_t n_rows, const double *dy, double *dx,
                                     double *dweight, double *dbias)
{
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t o = 0; o < map->n_out; o++) {
            double d = dy[r * map->n_out + o];
            for (size_t i = 0; i < map->n_in; i++) {
                size_t at = o * map->out_stride + i * map->in_stride;
                dx[r * map->n_in + i] += d * map->weight[at];
                if (dweight) {
                    dweight[at] += d * x[r * map->n_in + i];
                }
            }
            if (dbias) {
                dbias[o] += d;
            }
        }
    }
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Gradients of an oracle's arrays, of the same shapes; NULL where there is no such array. */
struct oracle_slopes {
    double *query, *key, *value, *kq, *kv, *edge_bias, *edge_value_bias;
};

/* Add what the gradient `d` of one score comes to: of query and key, through scale and clip. A score
 * that a mask replaced depends on neither. */
static inline void oracle_score_back(const struct oracle *o, size_t b, size_t h, size_t i,
                                     size_t j, double d, struct oracle_slopes *slopes)
{
    size_t q_at = ((b * o->n_queries + i) * o->n_heads + h) * o->width,
           k_at = ((b * o->n_keys + j) * o->n_heads + h) * o->width;
    double product = 0;
    for (size_t w = 0; w < o->width; w++) {
        product += o->query[q_at + w] * o->key[k_at + w];
    }
    if (o->clips) {
        d *= o->clip * (1 - pow(tanh(o->scale * product), 2));
    }
    for (size_t w = 0; w < o->width; w++) {
        slopes->query[q_at + w] += d * o->scale * o->key[k_at + w];
        slopes->key[k_at + w] += d * o->scale * o->query[q_at + w];
    }
}

static inline bool oracle_blocks(const struct oracle *o, size_t b, size_t h, size_t i,
                                 size_t j)
{
    size_t at = ((b * o->n_heads + h) * o->n_queries + i) * o->n_keys + j;
    return (o->blocked && o->blocked[at]) || (o->causal && j > i);
}

/* Through the sum of values of one query, whose gradient is dc: to values and their relations, and to
 * the weights, dw. */
static inline void oracle_values_back(const struct oracle *o, size_t b, size_t h,
                                      size_t i, const double *dc, double *dw,
                                      struct oracle_slopes *slopes)
{
    size_t vw = o->value_width;
    const double *w = o->weights + ((b * o->n_heads + h) * o->n_queries + i) * o->n_keys;
    for (size_t j = 0; j < o->n_keys; j++) {
        size_t v_at = ((b * o->n_keys + j) * o->n_heads + h) * vw,
               kv_at = (((b * o->n_queries + i) * o->n_keys + j) * o->n_heads + h) * vw;
        for (size_t d = 0; d < vw; d++) {
            dw[j] += dc[d] * (o->value[v_at + d] + (o->kv ? o->kv[kv_at + d] : 0));
            slopes->value[v_at + d] += w[j] * dc[d];
            if (o->kv) {
                slopes->kv[kv_at + d] += w[j] * dc[d];
            }
        }
    }
    for (size_t e = 0; o->edge_value_bias && e < o->n_edges; e++) {
        size_t row = ((size_t)o->types[e] * o->n_heads + h) * vw,
               j = (size_t)o->edges[3 * e + 2];
        if (o->edges[3 * e] == (int64_t)b && o->edges[3 * e + 1] == (int64_t)i) {
            for (size_t d = 0; d < vw; d++) {
                dw[j] += dc[d] * o->edge_value_bias[row + d];
                slopes->edge_value_bias[row + d] += w[j] * dc[d];
            }
        }
    }
}

/* Through the scores of one query, whose gradients are ds, to what they are made of. */
static inline void oracle_scores_back(const struct oracle *o, size_t b, size_t h,
                                      size_t i, const double *ds,
                                      struct oracle_slopes *slopes)
{
    for (size_t j = 0; j < o->n_keys; j++) {
        oracle_score_back(o, b, h, i, j, ds[j], slopes);
        if (o->kq) {
            slopes->kq[((b * o->n_queries + i) * o->n_keys + j) * o->n_heads + h] +=
                ds[j];
        }
    }
    for (size_t e = 0; e < o->n_edges; e++) {
        size_t row = (size_t)o->types[e] * o->n_heads + h,
               j = (size_t)o->edges[3 * e + 2],
               k_at = ((b * o->n_keys + j) * o->n_heads + h) * o->width;
        if (o->edges[3 * e] != (int64_t)b || o->edges[3 * e + 1] != (int64_t)i) {
            continue;
        }
        for (size_t w = 0; w < o->width; w++) {
            size_t at = o->scalar ? row : row * o->width + w;
            slopes->edge_bias[at] += ds[j] * o->key[k_at + w];
            slopes->key[k_at + w] += ds[j] * o->edge_bias[at];
        }
    }
}

/* Add to slopes, after oracle_attend, given the gradients of the context and, unless NULL, of the
 * probabilities: of those after dropout when `dropped`, else before.
 *
 * Of a row without open keys whose probabilities are NaN, the weights and what they multiply have
 * gradients that are NaN: values, value biases, dense value relations. Its scores pass nothing on where
 * a mask replaced them, and NaN where an additive term of -inf left none. */
static inline void oracle_attend_back(struct pool *pool, const struct oracle *o,
                                      const double *dcontext, const double *dattention,
                                      bool dropped, struct oracle_slopes *slopes)
{
    double *dw = pool_take(pool, o->n_keys);
    for (size_t n = 0; n < o->n_batch * o->n_heads * o->n_queries; n++) {
        size_t i = n % o->n_queries, h = n / o->n_queries % o->n_heads,
               b = n / o->n_queries / o->n_heads;
        const double *p = o->attention + n * o->n_keys;
        double dot = 0;
        memset(dw, 0, o->n_keys * sizeof *dw);
        oracle_values_back(o, b, h, i,
                           dcontext +
                               ((b * o->n_queries + i) * o->n_heads + h) * o->value_width,
                           dw, slopes);
        for (size_t j = 0; j < o->n_keys; j++) {
            double after = dattention ? dattention[n * o->n_keys + j] : 0;
            dw[j] += dropped ? after : 0;
            dw[j] *= o->factors ? o->factors[n * o->n_keys + j] : 1;
            dw[j] += dropped ? 0 : after;
            dot += p[j] * dw[j];
        }
        for (size_t j = 0; j < o->n_keys; j++) {
            dw[j] = oracle_blocks(o, b, h, i, j) ? 0 : p[j] * (dw[j] - dot);
        }
        oracle_scores_back(o, b, h, i, dw, slopes);
    }
}

/* ---- what follows -------------------------------------------------------------------------- */

/* A normalisation or activation of [samples, length, width], there and back. */
struct oracle_step {
    const struct attn_post_spec *spec;
    bool training;
    size_t shape[3];
    const double *gamma, *beta, *mean, *variance; /* [length, width]; of the norms */
    const double *factors; /* of a Dropout in training: [samples, length, width] */

    double *normal;    /* out: of a norm, before gamma and beta; else the result */
    double *deviation; /* out: of a norm, what each element was divided by */
    double *batch_mean, *batch_variance; /* out: of a BatchNorm in training */
};

/* Elements that go together: n of them, `stride` apart; a place is the first of one such set. */
struct oracle_set {
    size_t n, stride;
};

/* The sets of a step: those that share their statistics, or are one softmax. */
static inline struct oracle_set oracle_set_of(const struct oracle_step *step)
{
    const size_t *shape = step->shape;
    const size_t strides[] = {shape[1] * shape[2], shape[2], 1};
    switch (step->spec->kind) {
    case ATTN_POST_BATCH_NORM:
        return (struct oracle_set){shape[0], strides[0]};
    case ATTN_POST_GROUP_NORM:
        return (struct oracle_set){shape[1] / step->spec->n_groups, strides[1]};
    default:
        return (struct oracle_set){shape[step->spec->axis], strides[step->spec->axis]};
    }
}

static inline size_t oracle_step_size(const struct oracle_step *step)
{
    return step->shape[0] * step->shape[1] * step->shape[2];
}

static inline bool oracle_starts_set(const struct oracle_set *set, size_t at)
{
    return at / set->stride % set->n == 0;
}

static inline bool oracle_is_norm(const struct oracle_step *step)
{
    return step->spec->kind == ATTN_POST_BATCH_NORM ||
           step->spec->kind == ATTN_POST_GROUP_NORM;
}

/* Whether a norm takes its statistics from what it normalises, and from how many elements less than
 * all its variance is a mean of. */
static inline bool oracle_is_coupled(const struct oracle_step *step)
{
    return step->spec->kind == ATTN_POST_GROUP_NORM || step->training;
}

static inline double oracle_divisor(const struct oracle_step *step,
                                    const struct oracle_set *set)
{
    return (double)set->n - (step->spec->kind == ATTN_POST_BATCH_NORM ? 1 : 0);
}

/* Normalise one set of x in place. */
static inline void oracle_normalise(struct oracle_step *step,
                                    const struct oracle_set *set, size_t first, double *x)
{
    size_t place = first % (step->shape[1] * step->shape[2]);
    bool coupled = oracle_is_coupled(step);
    double mean = coupled ? 0 : step->mean[place],
           variance = coupled ? 0 : step->variance[place];
    for (size_t i = 0; coupled && i < set->n; i++) {
        mean += x[first + i * set->stride] / (double)set->n;
    }
    for (size_t i = 0; coupled && i < set->n; i++) {
        variance += pow(x[first + i * set->stride] - mean, 2) / oracle_divisor(step, set);
    }
    if (step->batch_mean) {
        step->batch_mean[place] = mean;
        step->batch_variance[place] = variance;
    }
    for (size_t i = 0; i < set->n; i++) {
        size_t at = first + i * set->stride;
        step->deviation[at] = sqrt(variance + ORACLE_EPSILON);
        x[at] = (x[at] - mean) / step->deviation[at];
    }
}

static inline void oracle_norm(struct pool *pool, struct oracle_step *step, double *x)
{
    struct oracle_set set = oracle_set_of(step);
    size_t n = oracle_step_size(step), n_sample = step->shape[1] * step->shape[2];
    step->deviation = pool_take(pool, n);
    if (step->spec->kind == ATTN_POST_BATCH_NORM && step->training) {
        step->batch_mean = pool_take(pool, n_sample);
        step->batch_variance = pool_take(pool, n_sample);
    }
    for (size_t i = 0; i < n; i++) {
        if (oracle_starts_set(&set, i)) {
            oracle_normalise(step, &set, i, x);
        }
    }
    memcpy(step->normal, x, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = x[i] * step->gamma[i % n_sample] + step->beta[i % n_sample];
    }
}

/* Do the step to x, in place. */
static inline void oracle_step_run(struct pool *pool, struct oracle_step *step, double *x)
{
    enum attn_post_kind kind = step->spec->kind;
    size_t n = oracle_step_size(step);
    step->normal = pool_take(pool, n);
    if (oracle_is_norm(step)) {
        oracle_norm(pool, step, x);
        return;
    }
    if (kind == ATTN_POST_SOFTMAX) {
        oracle_softmax_axis(x, step->shape, step->spec->axis);
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = kind == ATTN_POST_RELU                       ? fmax(x[i], 0)
               : kind == ATTN_POST_SIGMOID                  ? 1 / (1 + exp(-x[i]))
               : kind == ATTN_POST_TANH                     ? tanh(x[i])
               : kind == ATTN_POST_DROPOUT && step->factors ? x[i] * step->factors[i]
                                                            : x[i];
    }
    memcpy(step->normal, x, n * sizeof *x);
}

/* From the gradient of a norm's result to that of what it took, in place; add to those of gamma and
 * beta. */
static inline void oracle_norm_back(const struct oracle_step *step, double *d,
                                    double *dgamma, double *dbeta)
{
    struct oracle_set set = oracle_set_of(step);
    size_t n = oracle_step_size(step), n_sample = step->shape[1] * step->shape[2];
    for (size_t i = 0; i < n; i++) {
        dgamma[i % n_sample] += d[i] * step->normal[i];
        dbeta[i % n_sample] += d[i];
        d[i] *= step->gamma[i % n_sample];
    }
    for (size_t first = 0; first < n; first++) {
        double mean = 0, along = 0;
        if (!oracle_starts_set(&set, first)) {
            continue;
        }
        for (size_t k = 0; oracle_is_coupled(step) && k < set.n; k++) {
            size_t at = first + k * set.stride;
            mean += d[at] / (double)set.n;
            along += d[at] * step->normal[at] / oracle_divisor(step, &set);
        }
        for (size_t k = 0; k < set.n; k++) {
            size_t at = first + k * set.stride;
            d[at] = (d[at] - mean - along * step->normal[at]) / step->deviation[at];
        }
    }
}

static inline void oracle_softmax_back(const struct oracle_step *step, double *d)
{
    struct oracle_set set = oracle_set_of(step);
    for (size_t first = 0; first < oracle_step_size(step); first++) {
        double dot = 0;
        if (!oracle_starts_set(&set, first)) {
            continue;
        }
        for (size_t k = 0; k < set.n; k++) {
            dot += d[first + k * set.stride] * step->normal[first + k * set.stride];
        }
        for (size_t k = 0; k < set.n; k++) {
            size_t at = first + k * set.stride;
            d[at] = step->normal[at] * (d[at] - dot);
        }
    }
}

/* From the gradient of the step's result to that of what it took, in place. */
static inline void oracle_step_back(const struct oracle_step *step, double *d,
                                    double *dgamma, double *dbeta)
{
    enum attn_post_kind kind = step->spec->kind;
    if (oracle_is_norm(step)) {
        oracle_norm_back(step, d, dgamma, dbeta);
        return;
    }
    if (kind == ATTN_POST_SOFTMAX) {
        oracle_softmax_back(step, d);
    }
    for (size_t i = 0; i < oracle_step_size(step); i++) {
        double y = step->normal[i];
        d[i] *= kind == ATTN_POST_RELU                       ? (y > 0 ? 1 : 0)
                : kind == ATTN_POST_SIGMOID                  ? y * (1 - y)
                : kind == ATTN_POST_TANH                     ? 1 - y * y
                : kind == ATTN_POST_DROPOUT && step->factors ? step->factors[i]
                                                             : 1;
    }
}

#endif
