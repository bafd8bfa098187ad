/* terms.c - the score and value terms of a row, part by part. Any thread; a row belongs to the task
 * that holds it. */
#include "terms.h"

#include "kernels/kernels.h"

#include <math.h>

bool attni_terms_any(const attn_plan *plan)
{
    /* a scale of infinity (heads of width 0) has to meet the product before a maximum is taken */
    return plan->layer->spec.clip || plan->n_edges || plan->kq.data || plan->mask.data ||
           !isfinite(plan->scale);
}

/* ---- edges --------------------------------------------------------------------------------- */

/* The end of a row's edges. */
static const struct attni_edge *edges_end(const struct attni_core *core,
                                          const struct attni_row *row)
{
    size_t at = row->batch * core->plan->n_queries + row->query;
    return core->edges.list + core->edges.starts[at + 1];
}

static float edge_score(const struct attni_core *core, const struct attni_row *row,
                        const struct attni_edge *edge)
{
    const attn_layer *layer = core->plan->layer;
    size_t width = core->plan->head_width;
    size_t bias_row = edge->type * layer->spec.n_heads + row->head;
    if (row->edge_scores) {
        return row
            ->edge_scores[edge->type * core->plan->tiles.n_keys + edge->key - row->key];
    }
    const float *key = attni_row_at(&core->key, row->batch, row->head, edge->key);
    if (layer->spec.edge.scalar) {
        return layer->edge_bias[bias_row] * attni_kernels()->sum_f32(width, key);
    }
    return attni_kernels()->dot_f32(width, layer->edge_bias + bias_row * width, key);
}

static void add_edge_scores(const struct attni_core *core, const struct attni_row *row,
                            const struct attni_edge **edge)
{
    const struct attni_edge *end = edges_end(core, row), *e = *edge;
    while (e < end && e->key < row->key) {
        e++; /* onto keys that were left out as blocked */
    }
    *edge = e;
    for (; e < end && e->key < row->key + row->n_keys; e++) {
        row->scores[e->key - row->key] += edge_score(core, row, e);
    }
}

/* The biases of a head lie one head row apart. */
static void add_edge_values(const struct attni_core *core, const struct attni_row *row,
                            const struct attni_edge *edge, float *out)
{
    const attn_layer *layer = core->plan->layer;
    size_t width = core->plan->value_width, n_types = layer->spec.edge.n_types;
    size_t bias_row = layer->spec.n_heads * width;
    const float *bias = layer->edge_value_bias + row->head * width;
    const struct attni_edge *end = edges_end(core, row);
    float of_type[ATTNI_FEW_TYPES] = {0};
    bool few = n_types <= ATTNI_FEW_TYPES, any = false;
    for (; edge < end && edge->key < row->key + row->n_keys; edge++) {
        const float *weight = &row->scores[edge->key - row->key];
        if (few) {
            of_type[edge->type] += *weight;
            any = true;
        } else {
            attni_kernels()->weighted_sum_f32(1, width, weight,
                                              bias + edge->type * bias_row, 0, out);
        }
    }
    if (any) {
        attni_kernels()->weighted_sum_f32(n_types, width, of_type, bias, bias_row, out);
    }
}

/* ---- dense relations ----------------------------------------------------------------------- */

static const float *dense_row(const struct attni_dense *dense,
                              const struct attni_row *row)
{
    return dense->data + row->batch * dense->batch + row->query * dense->query +
           row->head * dense->head + row->key * dense->key;
}

static void add_dense_scores(const struct attni_dense *kq, const struct attni_row *row)
{
    const float *relation = dense_row(kq, row);
    for (size_t j = 0; j < row->n_keys; j++) {
        row->scores[j] += relation[j * kq->key];
    }
}

static void add_dense_values(const struct attni_core *core, const struct attni_row *row,
                             float *out)
{
    const struct attni_dense *kv = &core->plan->kv;
    const float *relation = dense_row(kv, row);
    if (kv->width == 1) {
        attni_kernels()->weighted_sum_f32(row->n_keys, core->plan->value_width,
                                          row->scores, relation, kv->key, out);
        return;
    }
    for (size_t j = 0; j < row->n_keys; j++) {
        float p = row->scores[j];
        for (size_t d = 0; p != 0 && d < core->plan->value_width; d++) {
            out[d] += p * relation[j * kv->key];
        }
    }
}

/* ---- mask ---------------------------------------------------------------------------------- */

static const unsigned char *mask_row(const struct attni_mask *mask,
                                     const struct attni_row *row)
{
    return mask->data + row->batch * mask->strides[ATTNI_BATCH] +
           row->head * mask->strides[ATTNI_HEADS] +
           row->query * mask->strides[ATTNI_QUERIES] +
           row->key * mask->strides[ATTNI_KEYS];
}

bool attni_terms_blocked(const struct attni_core *core, const struct attni_row *row,
                         size_t n_queries)
{
    const struct attni_mask *mask = &core->plan->mask;
    size_t step = mask->strides[ATTNI_QUERIES], key_step = mask->strides[ATTNI_KEYS];
    size_t n_rows = step ? n_queries : 1, n_keys = key_step ? row->n_keys : 1;
    for (size_t i = 0; mask->data && i < n_rows; i++) {
        const unsigned char *at = mask_row(mask, row) + i * step;
        for (size_t j = 0; j < n_keys; j++) {
            if ((at[j] != 0) == mask->true_keeps) {
                return false;
            }
        }
    }
    return mask->data != NULL;
}

/* ---- all of them --------------------------------------------------------------------------- */

/* d(clip * tanh(s)) / ds, from what clipping gave. */
static void find_slopes(float clip, const struct attni_row *row)
{
    for (size_t j = 0; j < row->n_keys; j++) {
        float t = clip == 0 ? 1 : row->scores[j] / clip;
        row->slopes[j] = clip * (1 - t * t);
    }
}

void attni_terms_mask(const struct attni_core *core, const struct attni_row *row,
                      float *blocked)
{
    const struct attni_mask *mask = &core->plan->mask;
    for (size_t j = 0; j < row->n_keys; j++) {
        blocked[j] = 0;
    }
    if (mask->data) {
        attni_mask_apply(mask, mask_row(mask, row), mask->strides[ATTNI_KEYS], blocked,
                         row->n_keys);
    }
}

void attni_terms_scores(const struct attni_core *core, const struct attni_row *row,
                        const struct attni_edge **edge)
{
    const attn_plan *plan = core->plan;
    const struct attni_kernels *kernels = attni_kernels();
    kernels->scale_f32(row->n_keys, plan->scale, row->scores);
    if (plan->layer->spec.clip) {
        kernels->clip_f32(row->n_keys, (float)plan->layer->spec.clip_value, row->scores);
    }
    if (row->slopes) {
        find_slopes((float)plan->layer->spec.clip_value, row);
    }
    if (plan->n_edges) {
        add_edge_scores(core, row, edge);
    }
    if (plan->kq.data) {
        add_dense_scores(&plan->kq, row);
    }
    if (plan->mask.data) {
        attni_mask_apply(&plan->mask, mask_row(&plan->mask, row),
                         plan->mask.strides[ATTNI_KEYS], row->scores, row->n_keys);
    }
}

void attni_terms_values(const struct attni_core *core, const struct attni_row *row,
                        const struct attni_edge *edge, float *out)
{
    if (core->plan->n_edges && core->plan->layer->edge_value_bias) {
        add_edge_values(core, row, edge, out);
    }
    if (core->plan->kv.data) {
        add_dense_values(core, row, out);
    }
}

/* ---- backward ------------------------------------------------------------------------------ */

static void add_edge_products(const struct attni_core *core, const struct attni_row *row,
                              const struct attni_edge *edge, const float *cotangent,
                              float *gradients)
{
    const attn_layer *layer = core->plan->layer;
    size_t width = core->plan->value_width;
    const struct attni_edge *end = edges_end(core, row);
    for (; edge < end && edge->key < row->key + row->n_keys; edge++) {
        size_t bias_row = edge->type * layer->spec.n_heads + row->head;
        gradients[edge->key - row->key] += attni_kernels()->dot_f32(
            width, layer->edge_value_bias + bias_row * width, cotangent);
    }
}

static void add_dense_products(const struct attni_core *core, const struct attni_row *row,
                               const float *cotangent, float *gradients)
{
    const struct attni_dense *kv = &core->plan->kv;
    const float *relation = dense_row(kv, row);
    size_t width = core->plan->value_width;
    float sum = attni_kernels()->sum_f32(width, cotangent);
    for (size_t j = 0; j < row->n_keys; j++) {
        const float *at = relation + j * kv->key;
        gradients[j] +=
            kv->width == 1 ? attni_kernels()->dot_f32(width, at, cotangent) : *at * sum;
    }
}

void attni_terms_weight_gradients(const struct attni_core *core,
                                  const struct attni_row *row,
                                  const struct attni_edge *edge, const float *cotangent,
                                  float *gradients)
{
    if (core->plan->n_edges && core->plan->layer->edge_value_bias) {
        add_edge_products(core, row, edge, cotangent, gradients);
    }
    if (core->plan->kv.data) {
        add_dense_products(core, row, cotangent, gradients);
    }
}
