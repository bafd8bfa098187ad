/* back_core.c - the backward of attention, a tile of keys against a block of queries at a time: the
 * probabilities are computed again from what the forward kept of each row, so no more of them exists at
 * once than there does forward (Dao, Fu, Ermon, Rudra, Re, arXiv:2205.14135). Any thread; a task writes
 * gradients of its own keys.
 *
 * With p the probabilities, w = dropout(p) what weighs the values, o the results, g their cotangent and
 * e that of the probabilities:
 *     dw = g.v (+ edges, dense relations);  dp = dropout(dw) + e;  ds = p * (dp - sum(p * dp))
 *     dv_j = sum_i w_ij g_i;  dk_j = scale * sum_i ds_ij q_i;  dq_i = scale * sum_j ds_ij k_j
 * where sum(p * dp) of row i is g_i.o_i + sum(attention * e). The cut depends on the call's own shapes
 * alone, so results do not depend on threads. */
#include "back_core.h"

#include "back_rows.h"
#include "tensor.h"

#include <string.h>

/* ---- products ------------------------------------------------------------------------------ */

/* Turn the tile's keys and values into columns, and its keys into panels of rows as well. */
static void pack_tile(struct attni_back_work *work)
{
    const struct attni_core *core = work->core;
    const struct attni_kernels *kernels = work->kernels;
    size_t width = core->plan->head_width, value_width = core->plan->value_width;
    size_t n_panel = kernels->n_panel;
    if (work->cut->few) {
        return;
    }
    const float *key = attni_row_at(&core->key, work->batch, work->head, work->key);
    const float *value = attni_row_at(&core->value, work->batch, work->head, work->key);
    for (size_t j = 0; j < work->n_keys; j += n_panel) {
        size_t n = work->n_keys - j < n_panel ? work->n_keys - j : n_panel;
        kernels->pack_columns_f32(n, width, key + j * core->key.row, core->key.row,
                                  work->keys + j * width);
        kernels->pack_columns_f32(n, value_width, value + j * core->value.row,
                                  core->value.row, work->values + j * value_width);
    }
    work->keys_finite =
        kernels->pack_rows_f32(work->n_keys, width, key, core->key.row, work->key_rows,
                               n_panel * work->cut->n_keys);
}

/* out[i][j] = a[i].b[j] for the block's rows of a and the tile's rows of b, which `columns` has packed
 * unless queries are few. */
static void multiply_rows(const struct attni_back_work *work, const float *a,
                          size_t a_stride, size_t width, const struct attni_rows *b,
                          const float *columns, float *out)
{
    if (work->cut->few) {
        const struct attni_few_scores few = {
            .n_heads = 1,
            .n_queries = work->n_queries,
            .n_keys = work->n_seen,
            .width = width,
            .query = {a, a_stride, 0},
            .key = {attni_row_at(b, work->batch, work->head, work->key), b->row, 0},
            .scores = out,
            .score_row = work->cut->n_keys};
        work->kernels->scores_f32(&few);
        return;
    }
    struct attni_gemm gemm = {.m = work->n_queries,
                              .n = work->n_seen,
                              .k = width,
                              .a = a,
                              .a_stride = a_stride,
                              .b = columns,
                              .panel_stride = work->kernels->n_panel * width,
                              .c = out,
                              .c_stride = work->cut->n_keys};
    work->kernels->gemm_f32(&gemm);
}

/* out[j] += sum_i rows[i][j] * x[i] for the tile's keys j and the block's queries i, x being rows of
 * `width`. */
static void add_turned(const struct attni_back_work *work, const float *rows,
                       const float *x, size_t x_stride, size_t width, float *out)
{
    const struct attni_kernels *kernels = work->kernels;
    size_t n = work->n_queries, turned_row = n == 1 ? 1 : work->cut->n_block;
    const float *turned = n == 1 ? rows : work->turned; /* one row is a column too */
    if (n > 1) {
        kernels->transpose_f32(n, work->n_seen, rows, work->cut->n_keys, work->turned,
                               turned_row);
    }
    if (!kernels->pack_rows_f32(n, width, x, x_stride, work->rows,
                                kernels->n_panel * n)) {
        /* a weight of 0 must add nothing, which a product with NaN or infinity would not */
        for (size_t j = 0; j < work->n_seen; j++) {
            kernels->weighted_sum_f32(n, width, turned + j * turned_row, x, x_stride,
                                      out + j * width);
        }
        return;
    }
    struct attni_gemm gemm = {.m = work->n_seen,
                              .n = width,
                              .k = n,
                              .a = turned,
                              .a_stride = turned_row,
                              .b = work->rows,
                              .panel_stride = kernels->n_panel * n,
                              .c = out,
                              .c_stride = width,
                              .accumulate = true};
    kernels->gemm_f32(&gemm);
}

/* dq_i += sum_j ds_ij k_j, without the scale. */
static void add_queries(const struct attni_back_work *work)
{
    const struct attni_core *core = work->core;
    size_t width = core->plan->head_width, tile = work->cut->n_keys;
    float *out = work->grad_queries + work->query * width;
    if (work->cut->few || !work->keys_finite) {
        const float *key = attni_row_at(&core->key, work->batch, work->head, work->key);
        for (size_t i = 0; i < work->n_queries; i++) {
            work->kernels->weighted_sum_f32(work->n_seen, width,
                                            work->gradients + i * tile, key,
                                            core->key.row, out + i * width);
        }
        return;
    }
    struct attni_gemm gemm = {.m = work->n_queries,
                              .n = width,
                              .k = work->n_seen,
                              .a = work->gradients,
                              .a_stride = tile,
                              .b = work->key_rows,
                              .panel_stride = work->kernels->n_panel * tile,
                              .c = out,
                              .c_stride = width,
                              .accumulate = true};
    work->kernels->gemm_f32(&gemm);
}

/* ---- blocks and tiles ---------------------------------------------------------------------- */

static const float *cotangent_of(const struct attni_back_work *work, size_t query)
{
    const attn_plan *plan = work->core->plan;
    size_t row = plan->layer->spec.n_heads * plan->value_width;
    return work->back->cotangent + (work->batch * plan->n_queries + query) * row +
           work->head * plan->value_width;
}

static void run_block(struct attni_back_work *work)
{
    const struct attni_core *core = work->core;
    const attn_plan *plan = core->plan;
    size_t value_row = plan->layer->spec.n_heads * plan->value_width;
    const float *query = attni_row_at(&core->query, work->batch, work->head, work->query);
    const float *cotangent = cotangent_of(work, work->query);
    multiply_rows(work, query, core->query.row, plan->head_width, &core->key, work->keys,
                  work->scores);
    if (work->back->results) {
        multiply_rows(work, cotangent, value_row, plan->value_width, &core->value,
                      work->values, work->gradients);
    } else {
        memset(work->gradients, 0, work->n_queries * work->cut->n_keys * sizeof(float));
    }
    for (size_t i = 0; i < work->n_queries; i++) {
        attni_back_row(work, i, cotangent + i * value_row);
    }
    if (work->back->value.data && work->back->results) {
        add_turned(work, work->scores, cotangent, value_row, plan->value_width,
                   work->grad_values);
    }
    if (work->back->key.data) {
        add_turned(work, work->gradients, query, core->query.row, plan->head_width,
                   work->grad_keys);
    }
    if (work->back->query.data) {
        add_queries(work);
    }
}

/* Scale the gradients of n rows and write them where they belong. */
static void give_out(const struct attni_back_work *work,
                     const struct attni_back_rows *rows, size_t first, size_t n,
                     size_t width, float factor, float *gradients)
{
    for (size_t i = 0; rows->data && i < n; i++) {
        float *from = gradients + i * width;
        float *to = rows->data + work->batch * rows->batch + work->head * rows->head +
                    (first + i) * rows->row;
        if (factor != 1) {
            work->kernels->scale_f32(width, factor, from);
        }
        memcpy(to, from, width * sizeof *to);
    }
}

/* What gradients of queries and keys have yet to be multiplied by: with terms, which add to them without a
 * scale, attni_back_row has applied it. */
static float scale_left(const attn_plan *plan)
{
    return attni_terms_any(plan) ? 1 : plan->scale;
}

/* All queries against the tile of keys. */
static void run_tile(struct attni_back_work *work)
{
    const attn_plan *plan = work->core->plan;
    size_t n_blocks = attni_parts(plan->n_queries, work->cut->n_block);
    bool packed = false;
    memset(work->grad_keys, 0, work->n_keys * plan->head_width * sizeof(float));
    memset(work->grad_values, 0, work->n_keys * plan->value_width * sizeof(float));
    for (size_t block = 0; block < n_blocks; block++) {
        /* even blocks: none is left thin */
        work->query = attni_part_start(plan->n_queries, n_blocks, block);
        work->n_queries =
            attni_part_start(plan->n_queries, n_blocks, block + 1) - work->query;
        if (attni_back_rows_skip(work)) {
            continue;
        }
        if (!packed) {
            pack_tile(work);
            packed = true;
        }
        run_block(work);
    }
    give_out(work, &work->back->key, work->key, work->n_keys, plan->head_width,
             scale_left(plan), work->grad_keys);
    give_out(work, &work->back->value, work->key, work->n_keys, plan->value_width, 1,
             work->grad_values);
}

/* ---- tasks --------------------------------------------------------------------------------- */

size_t attni_back_n_tasks(const struct attni_back *back)
{
    const attn_plan *plan = back->core->plan;
    return plan->n_batch * plan->layer->spec.n_heads * plan->back.key_parts;
}

static bool broadcasts(const attn_plan *plan, const struct attni_dense *dense)
{
    return (dense->batch == 0 && plan->n_batch > 1) ||
           (dense->head == 0 && plan->layer->spec.n_heads > 1) ||
           (dense->key == 0 && plan->back.key_parts > 1);
}

bool attni_back_in_turn(const struct attni_back *back)
{
    const attn_plan *plan = back->core->plan;
    return (back->kq && broadcasts(plan, &plan->kq)) ||
           (back->kv && broadcasts(plan, &plan->kv));
}

/* A part's share of the queries' gradients. */
static float *query_part(const struct attni_back *back, size_t task)
{
    const attn_plan *plan = back->core->plan;
    return back->query_parts + task * plan->n_queries * plan->head_width;
}

void attni_back_run(const struct attni_back *back, size_t task, unsigned char *scratch)
{
    const attn_plan *plan = back->core->plan;
    size_t parts = plan->back.key_parts, tile = plan->back.n_keys;
    size_t n_tiles = attni_parts(plan->n_keys, tile), part = task % parts;
    size_t width = plan->head_width, n_query_floats = plan->n_queries * width;
    struct attni_back_work work;
    attni_back_start(&work, back, task / parts, scratch);
    if (parts > 1) {
        work.grad_queries = query_part(back, task);
    }
    if (back->query.data) {
        memset(work.grad_queries, 0, n_query_floats * sizeof(float));
    }
    /* whole tiles */
    size_t first = attni_part_start(n_tiles, parts, part) * tile;
    size_t end = attni_part_start(n_tiles, parts, part + 1) * tile;
    end = end < plan->n_keys ? end : plan->n_keys;
    for (work.key = first; work.key < end; work.key += tile) {
        work.n_keys = end - work.key < tile ? end - work.key : tile;
        run_tile(&work);
    }
    if (parts == 1) {
        give_out(&work, &back->query, 0, plan->n_queries, width, scale_left(plan),
                 work.grad_queries);
    }
}

size_t attni_back_gather_n_tasks(const struct attni_back *back)
{
    const attn_plan *plan = back->core->plan;
    return plan->back.key_parts > 1 && back->query.data
               ? plan->n_batch * plan->layer->spec.n_heads
               : 0;
}

void attni_back_gather(const struct attni_back *back, size_t task)
{
    const attn_plan *plan = back->core->plan;
    size_t parts = plan->back.key_parts, n_heads = plan->layer->spec.n_heads;
    size_t n = plan->n_queries * plan->head_width;
    float *sum = query_part(back, task * parts);
    for (size_t part = 1; part < parts; part++) {
        const float *other = query_part(back, task * parts + part);
        for (size_t i = 0; i < n; i++) {
            sum[i] += other[i];
        }
    }
    const struct attni_back_work work = {.back = back,
                                         .kernels = attni_kernels(),
                                         .batch = task / n_heads,
                                         .head = task % n_heads};
    give_out(&work, &back->query, 0, plan->n_queries, plan->head_width, scale_left(plan),
             sum);
}
