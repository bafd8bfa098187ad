/* core.c - attention, a tile of queries against a tile of keys at a time: no more of the scores
 * exists at once, so memory does not grow with their number. Any thread; a task writes rows of its
 * own.
 *
 * For sample b, head h, query i and key j:
 *     s = scale * q.k;  s = clip * tanh(s);  s += edges;  s += dense_kq;  s = -inf where blocked
 *     p = softmax(s);   o = sum_j p * v;     o += edges' value biases;    o += sum_j p * dense_kv
 * The softmax is gathered tile by tile under the largest score so far; when that grows, what was
 * gathered is multiplied down (Milakov and Gimelshein, arXiv:1805.02867). The cut into tiles depends
 * on the call's own shapes alone, so results do not depend on threads. */
#include "core.h"

#include "few.h"
#include "tensor.h"
#include "work.h"

#include <string.h>

static void take_queries(struct attni_work *work)
{
    const struct attni_core *core = work->core;
    size_t width = core->plan->head_width;
    const float *rows = attni_work_rows(work, &core->query, work->head, work->first);
    work->query = rows;
    work->query_row = core->query.row;
    if (core->query.row == width || core->n_keys <= work->tiles->n_keys) {
        return;
    }
    for (size_t i = 0; i < work->n; i++) {
        memcpy(work->copies[0] + i * width, rows + i * core->query.row,
               width * sizeof *rows);
    }
    work->query = work->copies[0];
    work->query_row = width;
}

/* What an edge of each type adds at each key of the tile: the biases take the part of queries. */
static void score_edges(const struct attni_work *work)
{
    const struct attni_core *core = work->core;
    const attn_layer *layer = core->plan->layer;
    size_t width = core->plan->head_width;
    struct attni_gemm gemm = {.m = layer->spec.edge.n_types,
                              .n = work->n_keys,
                              .k = width,
                              .a = layer->edge_bias + work->head * width,
                              .a_stride = layer->spec.n_heads * width,
                              .b = work->keys,
                              .panel_stride = work->kernels->n_panel * width,
                              .c = work->edge_scores,
                              .c_stride = work->tiles->n_keys};
    work->kernels->gemm_f32(&gemm);
}

/* Turn the tile's keys into columns. Pages end where panels do. */
static void pack_keys(const struct attni_work *work)
{
    const struct attni_rows *key = &work->core->key;
    size_t width = work->core->plan->head_width, n_panel = work->kernels->n_panel;
    for (size_t j = 0; j < work->n_keys; j += n_panel) {
        size_t n = work->n_keys - j < n_panel ? work->n_keys - j : n_panel;
        work->kernels->pack_columns_f32(
            n, width, attni_work_rows(work, key, work->head, work->key + j), key->row,
            work->keys + j * width);
    }
}

/* Turn the tile's values into panels. Whether they are finite. */
static bool pack_values(const struct attni_work *work)
{
    const struct attni_rows *value = &work->core->value;
    size_t n_panel = work->kernels->n_panel, n;
    bool finite = true;
    for (size_t j = 0; j < work->n_keys; j += n) {
        n = attni_rows_together(value, work->key + j, work->n_keys - j);
        finite &= work->kernels->pack_rows_f32(
            n, work->core->plan->value_width,
            attni_work_rows(work, value, work->head, work->key + j), value->row,
            work->values + j * n_panel, n_panel * work->tiles->n_keys);
    }
    return finite;
}

static void multiply_keys(const struct attni_work *work)
{
    size_t width = work->core->plan->head_width;
    struct attni_gemm gemm = {.m = work->n_block,
                              .n = work->n_seen,
                              .k = width,
                              .a = work->query + work->block * work->query_row,
                              .a_stride = work->query_row,
                              .b = work->keys,
                              .panel_stride = work->kernels->n_panel * width,
                              .c = work->scores,
                              .c_stride = work->tiles->n_keys};
    work->kernels->gemm_f32(&gemm);
}

/* A weight of 0 must add nothing, which a product with NaN or infinity would not. */
static void add_each_value(const struct attni_work *work)
{
    const struct attni_rows *value = &work->core->value;
    size_t n;
    for (size_t j = 0; j < work->n_seen; j += n) {
        n = attni_rows_together(value, work->key + j, work->n_seen - j);
        for (size_t i = 0; i < work->n_block; i++) {
            work->kernels->weighted_sum_f32(
                n, work->core->plan->value_width,
                work->scores + i * work->tiles->n_keys + j,
                attni_work_rows(work, value, work->head, work->key + j), value->row,
                attni_work_result(work, work->block + i));
        }
    }
}

static void add_values(const struct attni_work *work, bool finite)
{
    const struct attni_core *core = work->core;
    size_t width = core->plan->value_width, tile = work->tiles->n_keys;
    if (!finite) {
        add_each_value(work);
        return;
    }
    struct attni_gemm gemm = {.m = work->n_block,
                              .n = width,
                              .k = work->n_seen,
                              .a = work->scores,
                              .a_stride = tile,
                              .b = work->values,
                              .panel_stride = work->kernels->n_panel * tile,
                              .c = attni_work_result(work, work->block),
                              .c_stride = work->result_row,
                              .accumulate = true};
    work->kernels->gemm_f32(&gemm);
}

/* All blocks of queries against the tile of keys. */
static void run_tile(struct attni_work *work)
{
    size_t n_blocks = attni_parts(work->n, work->tiles->n_block);
    bool packed = false, finite = true;
    for (size_t block = 0; block < n_blocks; block++) {
        /* even blocks: none is left thin */
        work->block = attni_part_start(work->n, n_blocks, block);
        work->n_block = attni_part_start(work->n, n_blocks, block + 1) - work->block;
        work->n_seen = attni_work_visible(work, work->block + work->n_block - 1);
        if (work->n_seen == 0 || attni_work_blocked(work)) {
            attni_work_skip(work);
            continue;
        }
        if (!packed) {
            pack_keys(work);
            finite = !work->wanted || pack_values(work);
            packed = true;
            if (work->edge_scores) {
                score_edges(work);
            }
        }
        multiply_keys(work);
        attni_work_weigh(work);
        if (work->wanted) {
            add_values(work, finite);
        }
    }
}

static void run_head(const struct attni_core *core, size_t batch, size_t head,
                     size_t part, unsigned char *scratch)
{
    struct attni_work work;
    if (attni_work_is_idle(core, part)) {
        return;
    }
    attni_work_start(&work, core, batch, head, 1, part, scratch);
    take_queries(&work);
    size_t bound = attni_work_bound(&work), tile = work.tiles->n_keys;
    for (work.key = core->first_key; work.key < bound; work.key += tile) {
        work.n_keys = bound - work.key < tile ? bound - work.key : tile;
        run_tile(&work);
    }
    attni_work_finish(&work);
}

/* ---- tasks --------------------------------------------------------------------------------- */

size_t attni_core_head_n_tasks(const struct attni_core *core)
{
    return core->plan->tiles.query_parts;
}

void attni_core_head_run(const struct attni_core *core, size_t batch, size_t head,
                         size_t task, unsigned char *scratch)
{
    if (core->plan->tiles.few) {
        attni_few_heads(core, batch, head, 1, scratch);
        return;
    }
    /* later queries see more keys under a causal bound: they go first */
    run_head(core, batch, head, core->plan->tiles.query_parts - 1 - task, scratch);
}

/* Groups of heads that are taken up together. */
static size_t head_groups(const struct attni_core *core)
{
    return attni_parts(core->plan->layer->spec.n_heads, core->plan->tiles.n_heads);
}

size_t attni_core_n_tasks(const struct attni_core *core)
{
    const struct attni_tiles *tiles = &core->plan->tiles;
    return tiles->n_samples > 1
               ? attni_parts(core->n_samples, tiles->n_samples)
               : core->n_samples * head_groups(core) * tiles->query_parts;
}

static void run_few(const struct attni_core *core, size_t task, unsigned char *scratch)
{
    const struct attni_tiles *tiles = &core->plan->tiles;
    size_t n = core->n_samples, n_heads = core->plan->layer->spec.n_heads;
    if (tiles->n_samples > 1) {
        size_t n_tasks = attni_parts(n, tiles->n_samples);
        attni_few_samples(core, core->first + attni_part_start(n, n_tasks, task),
                          core->first + attni_part_start(n, n_tasks, task + 1), scratch);
        return;
    }
    size_t n_groups = head_groups(core), group = task % n_groups;
    size_t head = attni_part_start(n_heads, n_groups, group);
    attni_few_heads(core, core->first + task / n_groups, head,
                    attni_part_start(n_heads, n_groups, group + 1) - head, scratch);
}

void attni_core_run(const struct attni_core *core, size_t task, unsigned char *scratch)
{
    const struct attni_tiles *tiles = &core->plan->tiles;
    size_t n_heads = core->plan->layer->spec.n_heads, head = task / tiles->query_parts;
    if (tiles->few) {
        run_few(core, task, scratch);
    } else {
        attni_core_head_run(core, core->first + head / n_heads, head % n_heads,
                            task % tiles->query_parts, scratch);
    }
}
