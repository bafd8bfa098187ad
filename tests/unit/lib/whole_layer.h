/* whole_layer.h - a whole layer in double precision, as its spec describes it: forward, its
 * derivatives, and the differences that those must agree with. Made of the formulas of oracle.h and
 * gradient_oracle.h. */
#ifndef TESTS_UNIT_LIB_WHOLE_LAYER_H
#define TESTS_UNIT_LIB_WHOLE_LAYER_H

#include "unit/lib/gradient_oracle.h"
#include "unit/lib/layers.h"

/* ---- axes ---------------------------------------------------------------------------------- */

#define MOST_AXES (ATTN_MAX_RANK + 1)

/* An array with some axes of 1 that stand for all of the same axis elsewhere. */
struct axes {
    size_t rank, full[MOST_AXES], own[MOST_AXES];
};

static inline size_t axes_count(const struct axes *axes)
{
    size_t n = 1;
    for (size_t i = 0; i < axes->rank; i++) {
        n *= axes->full[i];
    }
    return n;
}

/* Where the array has what belongs to element `at` of all axes at full length. */
static inline size_t axes_place(const struct axes *axes, size_t at)
{
    size_t place = 0, stride = 1;
    for (size_t i = axes->rank; i-- > 0; at /= axes->full[i]) {
        place += axes->own[i] == 1 ? 0 : at % axes->full[i] * stride;
        stride *= axes->own[i];
    }
    return place;
}

static inline double *axes_spread(struct pool *pool, const struct axes *axes,
                                  const double *x)
{
    size_t n = axes_count(axes);
    double *spread = pool_take(pool, n);
    for (size_t at = 0; at < n; at++) {
        spread[at] = x[axes_place(axes, at)];
    }
    return spread;
}

/* The other way round: what stood for many has the sum of their gradients. */
static inline void axes_gather(const struct axes *axes, const double *slope, double *own)
{
    for (size_t at = 0; at < axes_count(axes); at++) {
        own[axes_place(axes, at)] += slope[at];
    }
}

/* ---- the layer ----------------------------------------------------------------------------- */

/* A float input or a parameter, and its gradient. */
struct leaf {
    const char *name;
    bool parameter, frozen;
    size_t n;
    double *x, *slope;
};

struct projection {
    struct oracle_map map; /* n_out 0: none */
    double *dweight, *dbias;
};

/* The first three are of queries, keys and values. */
enum { OUTPUT_PROJECTION = 3, N_PROJECTIONS };

struct whole {
    const struct attn_spec *spec;
    struct pool kept, pool; /* for as long as this lives, and until the next forward */
    struct leaf leaves[ATTN_MAX_PORTS];
    size_t n_leaves;
    struct leaf *source[3], *kq, *kv, *edge_bias, *edge_value_bias;
    struct axes rows[3], kq_axes, kv_axes;
    struct projection projections[N_PROJECTIONS];
    struct oracle_step steps[2];
    struct leaf *gamma[2], *beta[2];
    unsigned char *blocked; /* owned; the oracle's */
    int64_t *edges, *types; /* the same */
    struct oracle o;
    size_t output_rank, output_shape[ATTN_MAX_RANK], attention_shape[4];
    const double *grad_output, *grad_attention; /* NULL: none */

    double *spread[3], *output, *attention; /* of the last forward */
    size_t n_output, n_attention;
};

static inline void whole_free(struct whole *w)
{
    pool_free(&w->pool);
    pool_free(&w->kept);
    free(w->blocked);
    free(w->edges);
    free(w->types);
}

/* ---- forward and backward -------------------------------------------------------------------- */

static inline double *projected(struct pool *pool, const struct projection *projection,
                                double *x, size_t n_rows)
{
    return projection->map.n_out ? oracle_apply(pool, &projection->map, x, n_rows) : x;
}

static inline void forward_scores(struct whole *w)
{
    struct oracle *o = &w->o;
    w->output = pool_take(&w->pool, w->n_output);
    for (size_t at = 0; at < w->n_output; at++) {
        w->output[at] = oracle_score(o, at / o->n_keys / o->n_queries, 0,
                                     at / o->n_keys % o->n_queries, at % o->n_keys);
    }
}

static inline void whole_forward(struct whole *w)
{
    struct oracle *o = &w->o;
    const double *rows[3];
    pool_free(&w->pool);
    for (size_t i = 0; i < 3; i++) {
        size_t n_rows = o->n_batch * (i == 0 ? o->n_queries : o->n_keys);
        w->spread[i] =
            w->source[i] ? axes_spread(&w->pool, &w->rows[i], w->source[i]->x) : NULL;
        rows[i] = projected(&w->pool, &w->projections[i], w->spread[i], n_rows);
    }
    o->query = rows[0];
    o->key = rows[1];
    o->value = rows[2];
    o->kq = w->kq ? axes_spread(&w->pool, &w->kq_axes, w->kq->x) : NULL;
    o->kv = w->kv ? axes_spread(&w->pool, &w->kv_axes, w->kv->x) : NULL;
    if (w->spec->scores_only) {
        forward_scores(w);
        return;
    }
    oracle_attend(&w->pool, o);
    w->attention = w->spec->attention_dropped ? o->weights : o->attention;
    double *joined =
        pool_take(&w->pool, o->n_batch * o->n_queries * o->n_heads * o->value_width);
    memcpy(joined, o->context,
           o->n_batch * o->n_queries * o->n_heads * o->value_width * sizeof *joined);
    w->output = projected(&w->pool, &w->projections[OUTPUT_PROJECTION], joined,
                          o->n_batch * o->n_queries);
    for (size_t i = 0; i < 2; i++) {
        oracle_step_run(&w->pool, &w->steps[i], w->output);
    }
}

/* Add to the gradients of an input, and of its projection, from that of projected rows. */
static inline void rows_back(struct whole *w, size_t which, const double *d)
{
    struct oracle *o = &w->o;
    const struct projection *p = &w->projections[which];
    size_t n_rows = o->n_batch * (which == 0 ? o->n_queries : o->n_keys);
    const double *dx = d;
    if (p->map.n_out) {
        double *before = pool_take(&w->pool, n_rows * p->map.n_in);
        oracle_apply_back(&p->map, w->spread[which], n_rows, d, before, p->dweight,
                          p->dbias);
        dx = before;
    }
    axes_gather(&w->rows[which], dx, w->source[which]->slope);
}

/* From the gradient of the output, 0 where it is not given, to that of the joined heads. */
static inline double *output_back(struct whole *w)
{
    struct oracle *o = &w->o;
    const struct projection *p = &w->projections[OUTPUT_PROJECTION];
    size_t n_rows = o->n_batch * o->n_queries;
    double *d = pool_take(&w->pool, w->n_output);
    if (w->grad_output) {
        memcpy(d, w->grad_output, w->n_output * sizeof *d);
    }
    for (size_t i = 2; i-- > 0;) {
        oracle_step_back(&w->steps[i], d, w->gamma[i] ? w->gamma[i]->slope : NULL,
                         w->beta[i] ? w->beta[i]->slope : NULL);
    }
    if (p->map.n_out) {
        double *joined = pool_take(&w->pool, n_rows * p->map.n_in);
        oracle_apply_back(&p->map, o->context, n_rows, d, joined, p->dweight, p->dbias);
        d = joined;
    }
    return d;
}

static inline void attention_back(struct whole *w, const double *d,
                                  struct oracle_slopes *slopes)
{
    struct oracle *o = &w->o;
    double *dattention = NULL;
    if (w->grad_attention) { /* scores that many samples share are given once */
        dattention =
            pool_take(&w->pool, o->n_batch * o->n_heads * o->n_queries * o->n_keys);
        memcpy(dattention, w->grad_attention, w->n_attention * sizeof *dattention);
    }
    slopes->value =
        pool_take(&w->pool, o->n_batch * o->n_keys * o->n_heads * o->value_width);
    slopes->kq = w->kq ? pool_take(&w->pool, axes_count(&w->kq_axes)) : NULL;
    slopes->kv = w->kv ? pool_take(&w->pool, axes_count(&w->kv_axes)) : NULL;
    slopes->edge_bias = w->edge_bias ? w->edge_bias->slope : NULL;
    slopes->edge_value_bias = w->edge_value_bias ? w->edge_value_bias->slope : NULL;
    oracle_attend_back(&w->pool, o, d, dattention, w->spec->attention_dropped, slopes);
    rows_back(w, 2, slopes->value);
    if (w->kq) {
        axes_gather(&w->kq_axes, slopes->kq, w->kq->slope);
    }
    if (w->kv) {
        axes_gather(&w->kv_axes, slopes->kv, w->kv->slope);
    }
}

/* A forward, then the gradients of every leaf, summed over the samples. */
static inline void whole_backward(struct whole *w)
{
    struct oracle *o = &w->o;
    struct oracle_slopes slopes = {.query = NULL};
    whole_forward(w);
    for (size_t i = 0; i < w->n_leaves; i++) {
        memset(w->leaves[i].slope, 0, w->leaves[i].n * sizeof(double));
    }
    slopes.query = pool_take(&w->pool, o->n_batch * o->n_queries * o->n_heads * o->width);
    slopes.key = pool_take(&w->pool, o->n_batch * o->n_keys * o->n_heads * o->width);
    for (size_t at = 0; w->spec->scores_only && at < w->n_output; at++) {
        size_t b = at / o->n_keys / o->n_queries, i = at / o->n_keys % o->n_queries,
               j = at % o->n_keys;
        oracle_score_back(o, b, 0, i, j,
                          oracle_blocks(o, b, 0, i, j) ? 0 : w->grad_output[at], &slopes);
    }
    if (!w->spec->scores_only) {
        attention_back(w, output_back(w), &slopes);
    }
    rows_back(w, 0, slopes.query);
    rows_back(w, 1, slopes.key);
}

/* By how much the normalisations may magnify an error. */
static inline double whole_magnified(const struct whole *w)
{
    double magnified = 1;
    for (size_t k = 0; k < 2; k++) {
        double most = 1;
        for (size_t i = 0; oracle_is_norm(&w->steps[k]) && i < w->n_output; i++) {
            most = fmax(most, 1 / w->steps[k].deviation[i]);
        }
        magnified *= most;
    }
    return magnified;
}

/* ---- differences ----------------------------------------------------------------------------- */

/* What the gradients are of, without blocked scores. Rows that are NaN by rule count as zeros: those
 * gradients that are numbers are the same by either rule. */
static inline double whole_loss(struct whole *w)
{
    bool nan = w->o.empty_nan;
    double loss = 0;
    w->o.empty_nan = false;
    whole_forward(w);
    w->o.empty_nan = nan;
    for (size_t i = 0; w->grad_output && i < w->n_output; i++) {
        loss += isfinite(w->output[i]) ? w->grad_output[i] * w->output[i] : 0;
    }
    for (size_t i = 0; w->grad_attention && i < w->n_attention; i++) {
        loss += isfinite(w->attention[i]) ? w->grad_attention[i] * w->attention[i] : 0;
    }
    return loss;
}

#define DIFFERENCE 1e-5

/* The central difference of one element; NaN at a bend, where there is no derivative. */
static inline double whole_difference(struct whole *w, struct leaf *leaf, size_t at)
{
    double x = leaf->x[at], h = DIFFERENCE;
    double here = whole_loss(w);
    leaf->x[at] = x + h;
    double above = whole_loss(w);
    leaf->x[at] = x - h;
    double below = whole_loss(w);
    leaf->x[at] = x;
    bool bends = w->steps[0].spec->kind == ATTN_POST_RELU ||
                 w->steps[1].spec->kind == ATTN_POST_RELU;
    if (bends && fabs(above - 2 * here + below) > 1e-3 * h) {
        return (double)NAN;
    }
    return (above - below) / (2 * h);
}

#endif
