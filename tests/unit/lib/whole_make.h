/* whole_make.h - a whole layer in double precision out of a layer and a call to it. */
#ifndef TESTS_UNIT_LIB_WHOLE_MAKE_H
#define TESTS_UNIT_LIB_WHOLE_MAKE_H

#include "unit/lib/whole_layer.h"

/* ---- leaves ---------------------------------------------------------------------------------- */

static inline struct leaf *whole_leaf(struct whole *w, const char *name)
{
    for (size_t i = 0; name[0] && i < w->n_leaves; i++) {
        if (strcmp(w->leaves[i].name, name) == 0) {
            return &w->leaves[i];
        }
    }
    return NULL;
}

/* values NULL: those of a parameter that is not there. */
static inline void add_leaf(struct whole *w, const char *name, const float *values,
                            size_t n)
{
    struct leaf *leaf = &w->leaves[w->n_leaves++];
    *leaf = (struct leaf){.name = name, .n = n};
    leaf->x = values ? pool_doubles(&w->kept, values, n) : pool_take(&w->kept, n);
    leaf->slope = pool_take(&w->kept, n);
    for (size_t i = 0; !values && i < n; i++) {
        leaf->x[i] = ends_with(name, "gamma") || ends_with(name, "running_var");
    }
}

static inline void add_leaves(struct whole *w, const struct made *made,
                              const struct call *call)
{
    const struct attn_spec *spec = w->spec;
    const char *const names[] = {spec->query, spec->key, spec->value, spec->dense_kq,
                                 spec->dense_kv};
    for (size_t i = 0; i < COUNT(names); i++) {
        const struct attn_tensor *tensor = call_find(call, names[i]);
        if (tensor && !whole_leaf(w, names[i])) {
            add_leaf(w, names[i], tensor->data, count_of(tensor));
        }
    }
    for (size_t i = 0; i < made->n; i++) {
        const struct attni_parameter *parameter = &made->parameters[i];
        size_t n = parameter->shape[0] * (parameter->rank == 2 ? parameter->shape[1] : 1);
        add_leaf(w, parameter->name, made->values[i], n);
        w->leaves[w->n_leaves - 1].parameter = true;
        w->leaves[w->n_leaves - 1].frozen =
            spec->fused.bias_frozen && strcmp(parameter->name, spec->fused.bias) == 0;
    }
}

/* `n_out` columns of a learned map, from `first` on. */
static inline void set_projection(struct whole *w, size_t which,
                                  const struct attn_linear_spec *spec, size_t first,
                                  size_t n_out)
{
    struct leaf *weight = whole_leaf(w, spec->weight), *bias = whole_leaf(w, spec->bias);
    if (!weight) {
        return;
    }
    size_t out_stride = spec->in_out ? 1 : spec->n_in;
    w->projections[which] = (struct projection){
        .map = {spec->n_in, n_out, spec->in_out ? spec->n_out : 1, out_stride,
                weight->x + first * out_stride, bias ? bias->x + first : NULL},
        .dweight = weight->slope + first * out_stride,
        .dbias = bias ? bias->slope + first : NULL};
}

static inline void set_step(struct whole *w, size_t which,
                            const struct attn_post_spec *spec)
{
    static const char *const names[] = {"gamma", "beta", "running_mean", "running_var"};
    struct leaf *leaves[4];
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", spec->prefix, names[i]);
        leaves[i] = whole_leaf(w, name);
    }
    w->gamma[which] = leaves[0];
    w->beta[which] = leaves[1];
    w->steps[which] =
        (struct oracle_step){.spec = spec,
                             .shape = {w->o.n_batch, w->o.n_queries, w->output_shape[2]},
                             .gamma = leaves[0] ? leaves[0]->x : NULL,
                             .beta = leaves[1] ? leaves[1]->x : NULL,
                             .mean = leaves[2] ? leaves[2]->x : NULL,
                             .variance = leaves[3] ? leaves[3]->x : NULL};
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static inline size_t larger(size_t a, size_t b)
{
    return a == 1 ? b : a;
}

/* [batch, length, ...] of the three inputs; an input that is not there is the query. */
static inline void set_rows(struct whole *w, const struct call *call)
{
    const struct attn_spec *spec = w->spec;
    struct oracle *o = &w->o;
    const char *const names[] = {spec->query, spec->key, spec->value};
    size_t batch[3], lengths[3], widths[3];
    for (size_t i = 0; i < 3; i++) {
        const char *name = call_find(call, names[i]) ? names[i] : spec->query;
        const struct attn_tensor *tensor = call_find(call, name);
        w->source[i] = whole_leaf(w, name);
        batch[i] = tensor->shape[0];
        lengths[i] = tensor->rank == 2 ? 1 : tensor->shape[1];
        widths[i] = tensor->shape[tensor->rank - 1] *
                    (spec->layout == ATTN_LAYOUT_HEADS ? spec->n_heads : 1);
    }
    size_t score_batch = larger(batch[0], batch[1]);
    o->n_batch = larger(score_batch, batch[2]);
    o->n_heads = spec->n_heads;
    o->n_queries = lengths[0];
    o->n_keys = lengths[1];
    o->width = spec->head_width ? spec->head_width : widths[0] / spec->n_heads;
    o->value_width = spec->value_head_width;
    for (size_t i = 0; i < 3; i++) {
        w->rows[i] = (struct axes){
            3, {o->n_batch, lengths[i], widths[i]}, {batch[i], lengths[i], widths[i]}};
    }
    const size_t attention[] = {score_batch, o->n_heads, o->n_queries, o->n_keys};
    memcpy(w->attention_shape, attention, sizeof attention);
    w->n_attention = score_batch * o->n_heads * o->n_queries * o->n_keys;
}

/* The axes of a dense relation of [batch, queries, keys, heads] and, of values, width. */
static inline struct leaf *set_dense(struct whole *w, const struct call *call,
                                     const char *name, size_t rank, struct axes *axes)
{
    const struct oracle *o = &w->o;
    const struct attn_tensor *tensor = call_find(call, name);
    *axes = (struct axes){
        rank, {o->n_batch, o->n_queries, o->n_keys, o->n_heads, o->value_width}, {0}};
    for (size_t i = 0; tensor && i < rank; i++) {
        axes->own[i] = tensor->shape[i];
    }
    return tensor ? whole_leaf(w, name) : NULL;
}

/* A mask of the form that its rank has: letters of B, H, Q and K. */
static inline void set_mask(struct whole *w, const struct attn_tensor *mask)
{
    const struct attn_mask_spec *spec = &w->spec->mask;
    w->blocked = oracle_blocked(&w->o, spec->axes[mask->rank], mask->shape, mask->data,
                                spec->true_keeps);
    w->o.blocked = w->blocked;
}

static inline int64_t *wide_integers(const struct attn_tensor *tensor)
{
    size_t n = count_of(tensor);
    int64_t *wide = need_memory(n * sizeof *wide);
    for (size_t i = 0; i < n; i++) {
        wide[i] = tensor->dtype == ATTN_I64 ? ((const int64_t *)tensor->data)[i]
                                            : ((const int32_t *)tensor->data)[i];
    }
    return wide;
}

static inline void set_terms(struct whole *w, const struct call *call)
{
    const struct attn_spec *spec = w->spec;
    struct oracle *o = &w->o;
    const struct attn_tensor *mask = call_find(call, spec->mask.name),
                             *edges = call_find(call, spec->edge.edges),
                             *types = call_find(call, spec->edge.types);
    if (mask) {
        set_mask(w, mask);
    }
    w->kq = set_dense(w, call, spec->dense_kq, 4, &w->kq_axes);
    w->kv = set_dense(w, call, spec->dense_kv, 5, &w->kv_axes);
    w->edge_bias = whole_leaf(w, spec->edge.bias);
    w->edge_value_bias = whole_leaf(w, spec->edge.value_bias);
    o->scalar = spec->edge.scalar;
    o->edge_bias = w->edge_bias ? w->edge_bias->x : NULL;
    o->edge_value_bias = w->edge_value_bias ? w->edge_value_bias->x : NULL;
    if (edges) {
        o->n_edges = edges->shape[0];
        o->edges = w->edges = wide_integers(edges);
        o->types = w->types = wide_integers(types);
    }
}

/* Of draws in [0, 1), what is kept with the probability 1 - p, and divided by it. */
static inline double *factors_of(struct whole *w, const float *draws, size_t n, double p)
{
    double *factors = pool_take(&w->kept, n);
    for (size_t i = 0; i < n; i++) {
        factors[i] = (double)draws[i] < 1 - p ? 1 / (1 - p) : 0;
    }
    return factors;
}

/* Training by the draws that the call gives, if it gives any. */
static inline void whole_train(struct whole *w, const struct call *call)
{
    const struct attn_tensor *draws = call_find(call, "dropout_uniform");
    if (draws) {
        w->o.factors = factors_of(w, draws->data, w->n_attention, w->spec->dropout);
    }
    for (size_t i = 0; i < 2; i++) {
        struct oracle_step *step = &w->steps[i];
        draws = call_find(call, i ? "activation_uniform" : "normalisation_uniform");
        step->training = true;
        if (draws) {
            step->factors =
                factors_of(w, draws->data, w->n_output, step->spec->probability);
        }
    }
}

/* ---- scores alone ---------------------------------------------------------------------------- */

/* Queries [..., queries, width] or [width] against keys [..., keys, width]: leading axes broadcast, and
 * are one batch here. */
static inline void set_scores(struct whole *w, const struct call *call)
{
    const struct attn_tensor *query = call_find(call, w->spec->query),
                             *key = call_find(call, w->spec->key),
                             *mask = call_find(call, w->spec->mask.name);
    struct oracle *o = &w->o;
    size_t inner = query->rank == 1 ? 1 : 2, of_query = query->rank - inner,
           of_key = key->rank - 2, n_lead = of_query > of_key ? of_query : of_key;
    o->n_heads = 1;
    o->width = query->shape[query->rank - 1];
    o->n_queries = inner == 1 ? 1 : query->shape[of_query];
    o->n_keys = key->shape[of_key];
    o->n_batch = 1;
    struct axes q = {n_lead + 2, {0}, {0}}, k = q;
    for (size_t i = 0; i < n_lead; i++) {
        q.own[i] = i + of_query < n_lead ? 1 : query->shape[i + of_query - n_lead];
        k.own[i] = i + of_key < n_lead ? 1 : key->shape[i + of_key - n_lead];
        q.full[i] = k.full[i] = w->output_shape[i] = larger(q.own[i], k.own[i]);
        o->n_batch *= q.full[i];
    }
    q.full[n_lead] = q.own[n_lead] = o->n_queries;
    k.full[n_lead] = k.own[n_lead] = o->n_keys;
    q.full[n_lead + 1] = q.own[n_lead + 1] = o->width;
    k.full[n_lead + 1] = k.own[n_lead + 1] = o->width;
    w->rows[0] = q;
    w->rows[1] = k;
    w->source[0] = whole_leaf(w, w->spec->query);
    w->source[1] = whole_leaf(w, w->spec->key);
    w->output_rank = n_lead + inner;
    w->output_shape[n_lead] = o->n_queries;
    w->output_shape[w->output_rank - 1] = o->n_keys;
    w->n_output = o->n_batch * o->n_queries * o->n_keys;
    w->blocked = need_memory(w->n_output);
    o->blocked = mask ? w->blocked : NULL;
    struct axes m = {w->output_rank, {0}, {0}};
    for (size_t i = 0; mask && i < m.rank; i++) {
        m.full[i] = w->output_shape[i];
        m.own[i] = i + mask->rank < m.rank ? 1 : mask->shape[i + mask->rank - m.rank];
    }
    for (size_t at = 0; mask && at < w->n_output; at++) {
        w->blocked[at] = ((const unsigned char *)mask->data)[axes_place(&m, at)];
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static inline double scale_of(const struct attn_spec *spec, const struct oracle *o)
{
    double of_head = (double)o->width, of_model = of_head * (double)o->n_heads;
    return spec->scale == ATTN_SCALE_ONE    ? 1
           : spec->scale == ATTN_SCALE_HEAD ? 1 / sqrt(of_head)
                                            : 1 / sqrt(of_model);
}

static inline void set_heads(struct whole *w, const struct call *call)
{
    const struct attn_spec *spec = w->spec;
    const struct attn_linear_spec *own[] = {
        &spec->query_projection, &spec->key_projection, &spec->value_projection};
    struct oracle *o = &w->o;
    set_rows(w, call);
    for (size_t i = 0; i < 3; i++) {
        size_t n = o->n_heads * (i < 2 ? o->width : o->value_width);
        bool fused = spec->fused.weight[0] != '\0';
        set_projection(w, i, fused ? &spec->fused : own[i],
                       fused ? i * o->n_heads * o->width : 0, n);
    }
    set_projection(w, OUTPUT_PROJECTION, &spec->output_projection, 0,
                   spec->output_projection.n_out);
    set_terms(w, call);
    size_t joined = o->n_heads * o->value_width;
    w->output_rank = spec->squeeze_output ? 2 : 3;
    w->output_shape[0] = o->n_batch;
    w->output_shape[1] = o->n_queries;
    w->output_shape[2] =
        spec->output_projection.weight[0] ? spec->output_projection.n_out : joined;
    w->n_output = o->n_batch * o->n_queries * w->output_shape[2];
}

/* The layer and the call as formulas. They refer to the spec; free with whole_free. */
static inline void whole_make(struct whole *w, const struct attn_spec *spec,
                              const struct made *made, const struct call *call)
{
    *w = (struct whole){.spec = spec};
    add_leaves(w, made, call);
    w->o.clips = spec->clip;
    w->o.clip = spec->clip_value;
    w->o.causal = spec->causal;
    w->o.empty_nan = spec->empty_rows == ATTN_EMPTY_NAN;
    if (spec->scores_only) {
        set_scores(w, call);
    } else {
        set_heads(w, call);
    }
    w->o.scale = scale_of(spec, &w->o);
    set_step(w, 0, &spec->normalisation);
    set_step(w, 1, &spec->activation);
}

/* Cotangents of the outputs, added to the call; which: 1 of the main one, 2 of the attention, 3. */
static inline void add_cotangents(struct whole *w, struct call *call, struct dice *dice,
                                  unsigned which)
{
    if (which & 1) {
        w->grad_output = pool_doubles(
            &w->kept,
            call_add_reals(call, dice, "grad_output", w->output_rank, w->output_shape),
            w->n_output);
    }
    if (which & 2) {
        w->grad_attention = pool_doubles(
            &w->kept, call_add_reals(call, dice, "grad_attention", 4, w->attention_shape),
            w->n_attention);
    }
}

#endif
