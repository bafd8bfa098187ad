/* oracle.h - what attention layers compute, written down as their formulas say it: slow, plain, in
 * double precision, and with nothing of the library in it. */
#ifndef TESTS_UNIT_LIB_ORACLE_H
#define TESTS_UNIT_LIB_ORACLE_H

#include "unit/lib/weights_file.h"

#include <math.h>

/* Arrays that live until the end of one case. */
struct pool {
    double *blocks[512];
    size_t n;
};

static inline double *pool_take(struct pool *pool, size_t n)
{
    if (pool->n == sizeof pool->blocks / sizeof *pool->blocks) {
        abort();
    }
    return pool->blocks[pool->n++] = need_memory(n * sizeof(double));
}

static inline void pool_free(struct pool *pool)
{
    while (pool->n > 0) {
        free(pool->blocks[--pool->n]);
    }
}

/* n floats as doubles; NULL stays NULL. */
static inline double *pool_doubles(struct pool *pool, const float *floats, size_t n)
{
    if (!floats) {
        return NULL;
    }
    double *doubles = pool_take(pool, n);
    for (size_t i = 0; i < n; i++) {
        doubles[i] = (double)floats[i];
    }
    return doubles;
}

/* ---- projections --------------------------------------------------------------------------- */

/* A linear map of rows: y[o] = bias[o] + sum_i weight[o * out_stride + i * in_stride] * x[i]. */
struct oracle_map {
    size_t n_in, n_out, in_stride, out_stride;
    const double *weight, *bias; /* bias may be NULL */
};

static inline double *oracle_apply(struct pool *pool, const struct oracle_map *map,
                                   const double *x, size_t n_rows)
{
    double *y = pool_take(pool, n_rows * map->n_out);
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t o = 0; o < map->n_out; o++) {
            double sum = map->bias ? map->bias[o] : 0;
            for (size_t i = 0; i < map->n_in; i++) {
                sum += x[r * map->n_in + i] *
                       map->weight[o * map->out_stride + i * map->in_stride];
            }
            y[r * map->n_out + o] = sum;
        }
    }
    return y;
}

/* y = x W^T + b of n_rows rows; W is [n_out, n_in], or [n_in, n_out] when in_out; b may be NULL. */
static inline double *oracle_linear(struct pool *pool, const double *x, size_t n_rows,
                                    size_t n_in, size_t n_out, const float *weight,
                                    bool in_out, const float *bias)
{
    const struct oracle_map map = {n_in,
                                   n_out,
                                   in_out ? n_out : 1,
                                   in_out ? 1 : n_in,
                                   pool_doubles(pool, weight, n_in * n_out),
                                   pool_doubles(pool, bias, n_out)};
    return oracle_apply(pool, &map, x, n_rows);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Every array has all its axes at their full length. */
struct oracle {
    size_t n_batch, n_heads, n_queries, n_keys, width, value_width;
    const double *query; /* [batch, queries, heads, width] */
    const double *key;   /* [batch, keys, heads, width] */
    const double *value; /* [batch, keys, heads, value width] */
    double scale;
    bool clips;
    double clip;
    bool causal;
    bool empty_nan;               /* else a row without open keys has probabilities 0 */
    const unsigned char *blocked; /* [batch, heads, queries, keys]; NULL: none */
    const double *kq;             /* [batch, queries, keys, heads]; NULL */
    const double *kv;             /* [batch, queries, keys, heads, value width]; NULL */
    size_t n_edges;
    const int64_t *edges; /* [edges, 3] */
    const int64_t *types;
    bool scalar;
    const double *edge_bias;       /* [types, heads, width], scalar: [types, heads] */
    const double *edge_value_bias; /* [types, heads, value width]; NULL */
    const double *factors; /* of dropout: [batch, heads, queries, keys]; NULL: all 1 */

    double *context;   /* out: [batch, queries, heads, value width] */
    double *attention; /* out: [batch, heads, queries, keys] */
    double *weights;   /* out: the same after dropout */
};

/* A mask at its full length, [batch, heads, queries, keys], whether each key is blocked; freed by the
 * caller. form spells the mask's axes by letters of B, H, Q and K, each of the scores' size or 1. */
static inline unsigned char *oracle_blocked(const struct oracle *o, const char *form,
                                            const size_t *shape,
                                            const unsigned char *mask, bool true_keeps)
{
    size_t n = o->n_batch * o->n_heads * o->n_queries * o->n_keys;
    unsigned char *blocked = need_memory(n);
    for (size_t at = 0; at < n; at++) {
        size_t index[128] = {0}, place = 0;
        index['K'] = at % o->n_keys;
        index['Q'] = at / o->n_keys % o->n_queries;
        index['H'] = at / o->n_keys / o->n_queries % o->n_heads;
        index['B'] = at / o->n_keys / o->n_queries / o->n_heads;
        for (size_t i = 0; form[i]; i++) {
            place = place * shape[i] + (shape[i] == 1 ? 0 : index[(size_t)form[i]]);
        }
        blocked[at] = (mask[place] != 0) != true_keeps;
    }
    return blocked;
}

/* What an edge adds to the score of a query and a key of one sample. */
static inline double oracle_edge_score(const struct oracle *o, size_t e, size_t head,
                                       const double *key)
{
    size_t row = (size_t)o->types[e] * o->n_heads + head;
    double sum = 0;
    for (size_t d = 0; d < o->width; d++) {
        sum +=
            key[d] * (o->scalar ? o->edge_bias[row] : o->edge_bias[row * o->width + d]);
    }
    return sum;
}

static inline double oracle_score(const struct oracle *o, size_t b, size_t h, size_t i,
                                  size_t j)
{
    const double *query = o->query + ((b * o->n_queries + i) * o->n_heads + h) * o->width;
    const double *key = o->key + ((b * o->n_keys + j) * o->n_heads + h) * o->width;
    double score = 0;
    for (size_t d = 0; d < o->width; d++) {
        score += query[d] * key[d];
    }
    score *= o->scale;
    if (o->clips) {
        score = o->clip * tanh(score);
    }
    if (o->kq) {
        score += o->kq[((b * o->n_queries + i) * o->n_keys + j) * o->n_heads + h];
    }
    size_t at = ((b * o->n_heads + h) * o->n_queries + i) * o->n_keys + j;
    bool blocked = (o->blocked && o->blocked[at]) || (o->causal && j > i);
    return blocked ? -(double)INFINITY : score;
}

/* Edges add to what is not blocked; the order of sums does not matter here. */
static inline void oracle_add_edges(const struct oracle *o, size_t b, size_t h, size_t i,
                                    double *row)
{
    for (size_t e = 0; e < o->n_edges; e++) {
        size_t j = (size_t)o->edges[3 * e + 2];
        if (o->edges[3 * e] == (int64_t)b && o->edges[3 * e + 1] == (int64_t)i &&
            row[j] != -(double)INFINITY) {
            row[j] += oracle_edge_score(
                o, e, h, o->key + ((b * o->n_keys + j) * o->n_heads + h) * o->width);
        }
    }
}

/* Softmax in place; a row of -inf alone becomes zeros or NaN. */
static inline void oracle_softmax(double *row, size_t n, bool empty_nan)
{
    double max = -(double)INFINITY, sum = 0;
    bool nan = false;
    for (size_t j = 0; j < n; j++) {
        max = row[j] > max ? row[j] : max;
        nan = nan || isnan(row[j]);
    }
    if (nan || (max == -(double)INFINITY)) {
        for (size_t j = 0; j < n; j++) {
            row[j] = nan || empty_nan ? (double)NAN : 0;
        }
        return;
    }
    for (size_t j = 0; j < n; j++) {
        sum += exp(row[j] - max);
    }
    for (size_t j = 0; j < n; j++) {
        row[j] = exp(row[j] - max) / sum;
    }
}

/* What a key adds where its weight is p: nothing for 0, were the value NaN. */
static inline double oracle_share(double p, double value)
{
    return p == 0 ? 0 : p * value;
}

static inline void oracle_values(struct oracle *o, size_t b, size_t h, size_t i)
{
    size_t vw = o->value_width;
    const double *p = o->weights + ((b * o->n_heads + h) * o->n_queries + i) * o->n_keys;
    double *out = o->context + ((b * o->n_queries + i) * o->n_heads + h) * vw;
    for (size_t d = 0; d < vw; d++) {
        for (size_t j = 0; j < o->n_keys; j++) {
            out[d] += oracle_share(
                p[j], o->value[((b * o->n_keys + j) * o->n_heads + h) * vw + d]);
            if (o->kv) {
                size_t at = ((b * o->n_queries + i) * o->n_keys + j) * o->n_heads + h;
                out[d] += oracle_share(p[j], o->kv[at * vw + d]);
            }
        }
        for (size_t e = 0; o->edge_value_bias && e < o->n_edges; e++) {
            if (o->edges[3 * e] == (int64_t)b && o->edges[3 * e + 1] == (int64_t)i) {
                size_t row = (size_t)o->types[e] * o->n_heads + h;
                out[d] += oracle_share(p[o->edges[3 * e + 2]],
                                       o->edge_value_bias[row * vw + d]);
            }
        }
    }
}

/* Fill context, attention and weights. */
static inline void oracle_attend(struct pool *pool, struct oracle *o)
{
    size_t n = o->n_batch * o->n_heads * o->n_queries * o->n_keys;
    o->context = pool_take(pool, o->n_batch * o->n_queries * o->n_heads * o->value_width);
    o->attention = pool_take(pool, n);
    o->weights = o->factors ? pool_take(pool, n) : o->attention;
    for (size_t b = 0; b < o->n_batch; b++) {
        for (size_t h = 0; h < o->n_heads; h++) {
            for (size_t i = 0; i < o->n_queries; i++) {
                size_t at = ((b * o->n_heads + h) * o->n_queries + i) * o->n_keys;
                double *row = o->attention + at;
                for (size_t j = 0; j < o->n_keys; j++) {
                    row[j] = oracle_score(o, b, h, i, j);
                }
                oracle_add_edges(o, b, h, i, row);
                oracle_softmax(row, o->n_keys, o->empty_nan);
                for (size_t j = 0; o->factors && j < o->n_keys; j++) {
                    o->weights[at + j] = row[j] * o->factors[at + j];
                }
                oracle_values(o, b, h, i);
            }
        }
    }
}

/* ---- what follows -------------------------------------------------------------------------- */

#define ORACLE_EPSILON 1e-6

/* Parameters are [length, width], NULL for 1, 0, 0 and 1. */
struct oracle_post {
    const float *gamma, *beta, *mean, *variance;
};

static inline double oracle_affine(const struct oracle_post *post, size_t at,
                                   double normal)
{
    return normal * (post->gamma ? (double)post->gamma[at] : 1) +
           (post->beta ? (double)post->beta[at] : 0);
}

/* x is [samples, length, width], and is replaced. The result: by how much an error in x may be
 * magnified. */
static inline double oracle_group_norm(double *x, size_t n_samples, size_t length,
                                       size_t width, size_t n_groups,
                                       const struct oracle_post *post)
{
    size_t rows = length / n_groups;
    double magnified = 1;
    for (size_t sample = 0; sample < n_samples * n_groups * width; sample++) {
        size_t d = sample % width, group = sample / width % n_groups,
               first = sample / width / n_groups * length + group * rows;
        double mean = 0, variance = 0;
        for (size_t i = 0; i < rows; i++) {
            mean += x[(first + i) * width + d] / (double)rows;
        }
        for (size_t i = 0; i < rows; i++) {
            variance += pow(x[(first + i) * width + d] - mean, 2) / (double)rows;
        }
        double deviation = sqrt(variance + ORACLE_EPSILON);
        magnified = fmax(magnified, 1 / deviation);
        for (size_t i = 0; i < rows; i++) {
            double *at = &x[(first + i) * width + d];
            *at = oracle_affine(post, (group * rows + i) * width + d,
                                (*at - mean) / deviation);
        }
    }
    return magnified;
}

static inline void oracle_batch_norm(double *x, size_t n_samples, size_t length,
                                     size_t width, const struct oracle_post *post)
{
    for (size_t i = 0; i < n_samples * length * width; i++) {
        size_t at = i % (length * width);
        double mean = post->mean ? (double)post->mean[at] : 0;
        double variance = post->variance ? (double)post->variance[at] : 1;
        x[i] = oracle_affine(post, at, (x[i] - mean) / sqrt(variance + ORACLE_EPSILON));
    }
}

/* Softmax along axis 0, 1 or 2 of [samples, length, width]. */
static inline void oracle_softmax_axis(double *x, const size_t shape[3], int axis)
{
    double row[512];
    size_t stride = axis == 0 ? shape[1] * shape[2] : axis == 1 ? shape[2] : 1;
    size_t n = shape[axis], n_all = shape[0] * shape[1] * shape[2];
    for (size_t i = 0; i < n_all; i++) {
        if (i / stride % n != 0) {
            continue; /* not the first of its row */
        }
        for (size_t j = 0; j < n; j++) {
            row[j] = x[i + j * stride];
        }
        oracle_softmax(row, n, true);
        for (size_t j = 0; j < n; j++) {
            x[i + j * stride] = row[j];
        }
    }
}

#endif
