/* core.c - attention itself, a tile of queries at a time: every score and value term of every layer
 * is applied here and nowhere else. Any thread; a task writes rows of its own.
 *
 * For sample b, head h, query i and key j:
 *     s = scale * q.k;  s = clip * tanh(s);  s += edges;  s += dense_kq;  s = -inf where blocked
 *     p = softmax(s);   o = sum_j p * v;     o += edges' value biases;    o += sum_j p * dense_kv */
#include "core.h"

#include "kernels/kernels.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

/* One row of the work: a query of a head of a sample. */
struct row {
    size_t batch, head, query;
    size_t n_visible; /* keys before the causal bound */
    float *scores;    /* becomes probabilities */
};

bool attni_core_scratch(const attn_plan *plan, size_t *n_floats)
{
    size_t rows = plan->n_queries < ATTNI_TILE ? plan->n_queries : ATTNI_TILE;
    return attni_multiply(rows, plan->n_keys, n_floats);
}

static size_t n_tiles(const attn_plan *plan)
{
    return plan->n_queries / ATTNI_TILE + (plan->n_queries % ATTNI_TILE != 0);
}

size_t attni_core_n_tasks(const struct attni_core *core)
{
    const attn_plan *plan = core->plan;
    size_t n_batch = core->context ? plan->n_batch : 0;
    if (core->probabilities && plan->n_score_batch > n_batch) {
        n_batch = plan->n_score_batch;
    }
    return n_batch * plan->layer->spec.n_heads * n_tiles(plan);
}

static const float *head_of(const struct attni_rows *rows, size_t batch, size_t head)
{
    return rows->data + batch * rows->batch + head * rows->head;
}

/* The edges of a row; *n of them. */
static const struct attni_edge *edges_of(const struct attni_core *core,
                                         const struct row *row, size_t *n)
{
    size_t at = row->batch * core->plan->n_queries + row->query;
    *n = core->edges.starts[at + 1] - core->edges.starts[at];
    return core->edges.list + core->edges.starts[at];
}

static void add_edge_scores(const struct attni_core *core, const struct row *row)
{
    const attn_plan *plan = core->plan;
    const struct attn_spec *spec = &plan->layer->spec;
    size_t width = plan->head_width, n;
    const struct attni_edge *edges = edges_of(core, row, &n);
    const float *keys = head_of(&core->key, row->batch, row->head);
    for (size_t e = 0; e < n; e++) {
        if (edges[e].key >= row->n_visible) {
            continue;
        }
        const float *key = keys + edges[e].key * core->key.row;
        size_t bias_row = edges[e].type * spec->n_heads + row->head;
        float sum = 0;
        if (spec->edge.scalar) {
            for (size_t d = 0; d < width; d++) {
                sum += key[d];
            }
            sum *= plan->layer->edge_bias[bias_row];
        } else {
            const float *bias = plan->layer->edge_bias + bias_row * width;
            for (size_t d = 0; d < width; d++) {
                sum += bias[d] * key[d];
            }
        }
        row->scores[edges[e].key] += sum;
    }
}

static void add_edge_values(const struct attni_core *core, const struct row *row,
                            float *out)
{
    const attn_plan *plan = core->plan;
    size_t width = plan->value_width, n;
    const struct attni_edge *edges = edges_of(core, row, &n);
    for (size_t e = 0; e < n; e++) {
        float p = row->scores[edges[e].key];
        const float *bias =
            plan->layer->edge_value_bias +
            (edges[e].type * plan->layer->spec.n_heads + row->head) * width;
        for (size_t d = 0; p != 0 && d < width; d++) {
            out[d] += p * bias[d];
        }
    }
}

static const float *dense_row(const struct attni_dense *dense, const struct row *row)
{
    return dense->data + row->batch * dense->batch + row->query * dense->query +
           row->head * dense->head;
}

static void add_dense_scores(const struct attni_core *core, const struct row *row)
{
    const struct attni_dense *kq = &core->plan->kq;
    const float *relation = dense_row(kq, row);
    for (size_t j = 0; j < row->n_visible; j++) {
        row->scores[j] += relation[j * kq->key];
    }
}

static void add_dense_values(const struct attni_core *core, const struct row *row,
                             float *out)
{
    const struct attni_dense *kv = &core->plan->kv;
    const float *relation = dense_row(kv, row);
    for (size_t j = 0; j < row->n_visible; j++) {
        float p = row->scores[j];
        for (size_t d = 0; p != 0 && d < core->plan->value_width; d++) {
            out[d] += p * relation[j * kv->key + d * kv->width];
        }
    }
}

/* Everything between the products and the softmax. */
static void adjust_scores(const struct attni_core *core, const struct row *row)
{
    const attn_plan *plan = core->plan;
    const struct attn_spec *spec = &plan->layer->spec;
    if (spec->clip) {
        attni_kernels()->clip_f32(row->n_visible, (float)spec->clip_value, row->scores);
    }
    if (plan->n_edges) {
        add_edge_scores(core, row);
    }
    if (plan->kq.data) {
        add_dense_scores(core, row);
    }
    if (plan->mask.data) {
        const size_t *strides = plan->mask.strides;
        const unsigned char *at = plan->mask.data + row->batch * strides[ATTNI_BATCH] +
                                  row->head * strides[ATTNI_HEADS] +
                                  row->query * strides[ATTNI_QUERIES];
        attni_mask_apply(&plan->mask, at, strides[ATTNI_KEYS], row->scores,
                         row->n_visible);
    }
}

static void normalise(const struct attni_core *core, const struct row *row)
{
    bool open = attni_kernels()->softmax_f32(row->n_visible, row->scores);
    bool empty_nan = core->plan->layer->spec.empty_rows == ATTN_EMPTY_NAN;
    for (size_t j = 0; !open && j < row->n_visible; j++) {
        row->scores[j] = empty_nan ? NAN : 0.0f;
    }
    /* beyond the causal bound: no weight, unless the whole row is NaN */
    bool row_nan = row->n_visible && isnan(row->scores[0]);
    for (size_t j = row->n_visible; j < core->plan->n_keys; j++) {
        row->scores[j] = row_nan ? NAN : 0.0f;
    }
}

static void store_probabilities(const struct attni_core *core, const struct row *row)
{
    const attn_plan *plan = core->plan;
    if (!core->probabilities || row->batch >= plan->n_score_batch || plan->n_keys == 0) {
        return;
    }
    size_t at = (row->batch * plan->layer->spec.n_heads + row->head) * plan->n_queries +
                row->query;
    memcpy(core->probabilities + at * plan->n_keys, row->scores,
           plan->n_keys * sizeof *row->scores);
}

static void sum_values(const struct attni_core *core, const struct row *row)
{
    const attn_plan *plan = core->plan;
    size_t n_heads = plan->layer->spec.n_heads;
    if (!core->context || row->batch >= plan->n_batch) {
        return;
    }
    size_t at = (row->batch * plan->n_queries + row->query) * n_heads + row->head;
    float *out = core->context + at * plan->value_width;
    attni_kernels()->weighted_sum_f32(row->n_visible, plan->value_width, row->scores,
                                      head_of(&core->value, row->batch, row->head),
                                      core->value.row, out);
    if (plan->n_edges && plan->layer->edge_value_bias) {
        add_edge_values(core, row, out);
    }
    if (plan->kv.data) {
        add_dense_values(core, row, out);
    }
}

void attni_core_run(const struct attni_core *core, size_t task, float *scratch)
{
    const attn_plan *plan = core->plan;
    const struct attn_spec *spec = &plan->layer->spec;
    size_t first = task % n_tiles(plan) * ATTNI_TILE;
    size_t head = task / n_tiles(plan) % spec->n_heads;
    size_t batch = task / n_tiles(plan) / spec->n_heads;
    size_t left = plan->n_queries - first;
    size_t n = left < ATTNI_TILE ? left : ATTNI_TILE;
    size_t bound = spec->causal && first + n < plan->n_keys ? first + n : plan->n_keys;

    attni_kernels()->scores_f32(
        n, bound, plan->head_width, plan->scale,
        head_of(&core->query, batch, head) + first * core->query.row, core->query.row,
        head_of(&core->key, batch, head), core->key.row, scratch, plan->n_keys);
    for (size_t i = 0; i < n; i++) {
        size_t query = first + i;
        struct row row = {.batch = batch,
                          .head = head,
                          .query = query,
                          .n_visible =
                              spec->causal && query + 1 < bound ? query + 1 : bound,
                          .scores = scratch + i * plan->n_keys};
        adjust_scores(core, &row);
        normalise(core, &row);
        store_probabilities(core, &row);
        sum_values(core, &row);
    }
}
