/* back_rows.c - what happens to a row of scores and its gradients between the products. One thread a
 * task. */
#include "back_rows.h"

#include "tensor.h"

#include <math.h>
#include <string.h>

/* ---- start --------------------------------------------------------------------------------- */

static size_t row_index(const struct attni_back_work *work, size_t query)
{
    const attn_plan *plan = work->core->plan;
    return (work->batch * plan->layer->spec.n_heads + work->head) * plan->n_queries +
           query;
}

/* Where the row is among the probabilities, which one sample of scores may give for all. */
static bool has_attention(const struct attni_back_work *work)
{
    return work->back->grad_attention && work->batch < work->core->plan->n_score_batch;
}

static void find_deltas(struct attni_back_work *work)
{
    const attn_plan *plan = work->core->plan;
    size_t width = plan->value_width, row = plan->layer->spec.n_heads * width;
    size_t first = work->batch * plan->n_queries * row + work->head * width;
    for (size_t i = 0; i < plan->n_queries; i++) {
        size_t at = first + i * row;
        work->deltas[i] = work->back->results
                              ? work->kernels->dot_f32(width, work->back->context + at,
                                                       work->back->cotangent + at)
                              : 0;
        if (has_attention(work)) {
            size_t key = row_index(work, i) * plan->n_keys;
            work->deltas[i] +=
                work->kernels->dot_f32(plan->n_keys, work->back->attention + key,
                                       work->back->grad_attention + key);
        }
    }
}

void attni_back_start(struct attni_back_work *work, const struct attni_back *back,
                      size_t head_index, unsigned char *scratch)
{
    const attn_plan *plan = back->core->plan;
    void *parts[ATTNI_BACK_PARTS];
    for (size_t i = 0; i < ATTNI_BACK_PARTS; i++) {
        parts[i] = scratch + plan->back.at[i];
    }
    *work = (struct attni_back_work){
        .back = back,
        .core = back->core,
        .kernels = attni_kernels(),
        .cut = &plan->back,
        .batch = head_index / plan->layer->spec.n_heads,
        .head = head_index % plan->layer->spec.n_heads,
        .scores = parts[ATTNI_BACK_SCORES],
        .gradients = parts[ATTNI_BACK_GRADIENTS],
        .slopes = plan->layer->spec.clip ? parts[ATTNI_BACK_SLOPES] : NULL,
        .turned = parts[ATTNI_BACK_TURNED],
        .keys = parts[ATTNI_BACK_KEYS],
        .values = parts[ATTNI_BACK_VALUES],
        .key_rows = parts[ATTNI_BACK_KEY_ROWS],
        .rows = parts[ATTNI_BACK_ROWS],
        .grad_keys = parts[ATTNI_BACK_GRAD_KEYS],
        .grad_values = parts[ATTNI_BACK_GRAD_VALUES],
        .grad_queries = parts[ATTNI_BACK_GRAD_QUERIES],
        .deltas = parts[ATTNI_BACK_DELTAS],
        .factors = parts[ATTNI_BACK_FACTORS],
        .edges = parts[ATTNI_BACK_NEXT_EDGES]};
    for (size_t i = 0; plan->n_edges && i < plan->n_queries; i++) {
        size_t at = work->batch * plan->n_queries + i;
        work->edges[i] = back->core->edges.list + back->core->edges.starts[at];
    }
    find_deltas(work);
}

/* ---- what a row sees ----------------------------------------------------------------------- */

/* Keys of the tile before the causal bound of a query. */
static size_t visible(const struct attni_back_work *work, size_t query)
{
    if (!work->core->plan->layer->spec.causal || query + 1 >= work->key + work->n_keys) {
        return work->n_keys;
    }
    return query + 1 > work->key ? query + 1 - work->key : 0;
}

static struct attni_row row_of(const struct attni_back_work *work, size_t i,
                               size_t n_keys)
{
    size_t tile = work->cut->n_keys;
    return (struct attni_row){.batch = work->batch,
                              .head = work->head,
                              .query = work->query + i,
                              .key = work->key,
                              .n_keys = n_keys,
                              .scores = work->scores + i * tile,
                              .slopes = work->slopes ? work->slopes + i * tile : NULL};
}

/* A row of NaN takes no notice of a mask. */
static bool any_nan(const struct attni_back_work *work)
{
    const float *factors = work->core->row_factor + row_index(work, work->query);
    bool nan = false;
    for (size_t i = 0; i < work->n_queries; i++) {
        nan = nan || isnan(factors[i]);
    }
    return nan;
}

bool attni_back_rows_skip(struct attni_back_work *work)
{
    work->n_seen = visible(work, work->query + work->n_queries - 1);
    struct attni_row all = row_of(work, 0, work->n_seen);
    return work->n_seen == 0 ||
           (attni_terms_blocked(work->core, &all, work->n_queries) && !any_nan(work));
}

/* ---- a row --------------------------------------------------------------------------------- */

static void set_row(float *row, size_t n, float value)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = value;
    }
}

/* No key was open: nothing passes, or NaN does, but not to scores that a mask has set. */
static void empty_row(struct attni_back_work *work, const struct attni_row *row,
                      float factor, float *gradients)
{
    set_row(row->scores, row->n_keys, factor);
    set_row(gradients, row->n_keys, 0);
    if (isnan(factor)) {
        attni_terms_mask(work->core, row, work->factors);
        for (size_t j = 0; j < row->n_keys; j++) {
            gradients[j] = work->factors[j] == 0 ? NAN : 0;
        }
    }
}

static void multiply(size_t n, const float *factors, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] = factors[j] == 0 ? 0 : row[j] * factors[j];
    }
}

static void add(size_t n, const float *other, float *row)
{
    for (size_t j = 0; j < n; j++) {
        row[j] += other[j];
    }
}

/* From gradients of weights to those of probabilities: dropout, and a cotangent of their own, which is
 * that of what dropout leaves where that is what the layer gives. */
static void pass_dropout(struct attni_back_work *work, const struct attni_row *row,
                         float *gradients)
{
    const attn_plan *plan = work->core->plan;
    bool after = plan->layer->spec.attention_dropped;
    const float *own = has_attention(work)
                           ? work->back->grad_attention +
                                 row_index(work, row->query) * plan->n_keys + row->key
                           : NULL;
    if (own && after) {
        add(row->n_keys, own, gradients);
    }
    if (work->core->drops) {
        attni_dropout_factors(&work->core->dropout,
                              plan->n_score_batch == 1 ? 0 : work->batch, work->head,
                              row->query, row->key, row->n_keys, work->factors);
        multiply(row->n_keys, work->factors, gradients);
    }
    if (own && !after) {
        add(row->n_keys, own, gradients);
    }
}

/* ---- gradients of terms -------------------------------------------------------------------- */

static void keep_edges(struct attni_back_work *work, const struct attni_row *row,
                       const struct attni_edge *edge, const float *gradients)
{
    const attn_plan *plan = work->core->plan;
    const attn_layer *layer = plan->layer;
    const struct attni_edges *edges = &work->core->edges;
    size_t n_heads = layer->spec.n_heads, width = plan->head_width;
    const struct attni_edge *end =
        edges->list + edges->starts[row->batch * plan->n_queries + row->query + 1];
    for (; edge < end && edge->key < row->key + row->n_keys; edge++) {
        size_t j = edge->key - row->key;
        size_t at = (size_t)(edge - edges->list) * n_heads + row->head;
        size_t bias_row = edge->type * n_heads + row->head;
        float *key = work->grad_keys + j * width;
        if (work->back->edge_scores) {
            work->back->edge_scores[at] = gradients[j];
        }
        if (work->back->edge_weights) {
            work->back->edge_weights[at] = row->scores[j];
        }
        if (layer->spec.edge.scalar) {
            for (size_t d = 0; d < width; d++) {
                key[d] += gradients[j] * layer->edge_bias[bias_row];
            }
        } else {
            work->kernels->weighted_sum_f32(1, width, &gradients[j],
                                            layer->edge_bias + bias_row * width, 0, key);
        }
    }
}

static float *dense_at(const struct attni_dense *dense, const struct attni_row *row,
                       float *data)
{
    return data + row->batch * dense->batch + row->query * dense->query +
           row->head * dense->head + row->key * dense->key;
}

static void keep_dense(const struct attni_back_work *work, const struct attni_row *row,
                       const float *gradients, const float *cotangent)
{
    const struct attni_back *back = work->back;
    const struct attni_dense *kq = &work->core->plan->kq, *kv = &work->core->plan->kv;
    if (back->kq) {
        float *out = dense_at(kq, row, back->kq);
        for (size_t j = 0; j < row->n_keys; j++) {
            out[j * kq->key] += gradients[j];
        }
    }
    if (back->kv && back->results) {
        float *out = dense_at(kv, row, back->kv);
        for (size_t j = 0; j < row->n_keys; j++) {
            for (size_t d = 0; row->scores[j] != 0 && d < work->core->plan->value_width;
                 d++) {
                out[j * kv->key + d * kv->width] += row->scores[j] * cotangent[d];
            }
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

void attni_back_row(struct attni_back_work *work, size_t i, const float *cotangent)
{
    const struct attni_core *core = work->core;
    const attn_plan *plan = core->plan;
    size_t query = work->query + i, n = visible(work, query), tile = work->cut->n_keys;
    struct attni_row row = row_of(work, i, n);
    float *gradients = work->gradients + i * tile;
    float max = core->row_max[row_index(work, query)];
    float factor = core->row_factor[row_index(work, query)];
    bool terms = attni_terms_any(plan);
    const struct attni_edge *none = NULL,
                            **edge = plan->n_edges ? &work->edges[query] : &none;
    if (terms && n > 0) {
        attni_terms_scores(core, &row, edge);
    }
    if (factor == 0 || isnan(factor)) {
        empty_row(work, &row, factor, gradients);
    } else {
        work->kernels->exponential_f32(n, terms ? 1 : plan->scale, max, factor,
                                       row.scores);
        if (work->back->results) {
            attni_terms_weight_gradients(core, &row, *edge, cotangent, gradients);
        }
        pass_dropout(work, &row, gradients);
        work->kernels->softmax_gradient_f32(n, row.scores, work->deltas[query],
                                            gradients);
        if (core->drops) {
            multiply(n, work->factors, row.scores);
        }
    }
    if (plan->n_edges) {
        keep_edges(work, &row, *edge, gradients);
    }
    keep_dense(work, &row, gradients, cotangent);
    if (row.slopes) {
        multiply(n, row.slopes, gradients);
    }
    if (terms) {
        work->kernels->scale_f32(n, plan->scale, gradients);
    }
    set_row(row.scores + n, work->n_seen - n, 0);
    set_row(gradients + n, work->n_seen - n, 0);
}
