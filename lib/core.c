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

#include "kernels/kernels.h"
#include "tensor.h"
#include "terms.h"

#include <math.h>
#include <string.h>

/* Queries whose scores against a tile of keys exist at once: about so many, whole products. They
 * stay near a first-level cache. */
#define MOST_BLOCK ((size_t)28)

/* Queries of a task: so many share one packing of a tile of keys and values; fewer where there would
 * be few tasks. */
#define MOST_QUERIES ((size_t)1024)
#define LEAST_QUERIES ((size_t)256)
#define ENOUGH_TASKS ((size_t)8)

/* Keys of a tile. The longer it is, the less often are sums taken up again and scaled. */
#define MOST_KEYS ((size_t)512)
#define LEAST_KEYS ((size_t)64)

/* Floats of a tile's keys and values together: packed, they stay in a second-level cache. */
#define TILE_FLOATS ((size_t)65536)

/* With fewer queries, turning keys into columns costs more than it saves. */
#define FEW_QUERIES ((size_t)5)
#define MANY_SAMPLES ((size_t)8)

/* Floats of keys or values to ask for ahead: what fits a second-level cache beside the rest. */
#define MOST_FETCHED ((size_t)65536)

/* One task under way. */
struct work {
    const struct attni_core *core;
    const struct attni_kernels *kernels;
    size_t batch, head, first, n; /* queries [first, first + n) */
    size_t key, n_keys;           /* the tile of keys */
    size_t block, n_block;        /* queries [first + block, first + block + n_block) */
    size_t n_seen;                /* keys of the tile that any query of the block sees */
    bool packed;                  /* the tile is */
    bool finite;                  /* so are the tile's values */
    bool terms;                   /* scores are more than scaled products */
    bool value_terms;             /* results are more than weighted values */
    bool few;
    float *context; /* of the first query; NULL: not wanted here */
    float *probabilities;
    size_t tile;    /* keys of a whole tile */
    float *scores;  /* [n_block][tile] */
    float *queries; /* [n][head width]: those of a head lie apart, which wastes a cache */
    float *results; /* [n][value width], for the same reason */
    float *keys;    /* columns: panels of [head width][n_panel] */
    float *values;  /* panels of [tile][n_panel] */
    float *max, *sum; /* [n] */
    const struct attni_edge *
        *edges; /* [n]: the first edge that may concern the next tile */
};

/* ---- scratch ------------------------------------------------------------------------------- */

/* Queries of a block. */
static size_t block_rows(void)
{
    size_t n_rows = attni_kernels()->n_rows;
    return MOST_BLOCK / n_rows * n_rows;
}

static size_t tile_keys(const attn_plan *plan)
{
    size_t width = plan->head_width < TILE_FLOATS ? plan->head_width : TILE_FLOATS;
    width += plan->value_width < TILE_FLOATS ? plan->value_width : TILE_FLOATS;
    size_t n = width > 0 ? TILE_FLOATS / width / LEAST_KEYS * LEAST_KEYS : MOST_KEYS;
    return n > MOST_KEYS ? MOST_KEYS : n < LEAST_KEYS ? LEAST_KEYS : n;
}

/* Into how many tiles the queries of a head are cut: no result depends on that. */
static size_t n_tiles(const attn_plan *plan)
{
    size_t most = MOST_QUERIES, n_heads = plan->layer->spec.n_heads;
    if (plan->n_batch < ENOUGH_TASKS && n_heads < ENOUGH_TASKS) {
        size_t others = plan->n_batch * n_heads;
        while (most > LEAST_QUERIES &&
               others * attni_parts(plan->n_queries, most) < ENOUGH_TASKS) {
            most /= 2;
        }
    }
    return attni_parts(plan->n_queries, most);
}

static size_t tile_rows(const attn_plan *plan)
{
    return attni_parts(plan->n_queries, n_tiles(plan));
}

static bool few_queries(const attn_plan *plan)
{
    return plan->n_queries < FEW_QUERIES;
}

static size_t padded(size_t n)
{
    size_t n_panel = attni_kernels()->n_panel;
    return (n + n_panel - 1) / n_panel * n_panel;
}

bool attni_core_lay_out(attn_plan *plan, size_t *n_bytes)
{
    size_t rows = (tile_rows(plan) + 15) / 16 * 16;
    size_t block = rows < block_rows() ? rows : block_rows(), tile = tile_keys(plan);
    /* few queries pack nothing, and few keys less than a tile: the width is the request's to choose */
    size_t values = few_queries(plan) ? 0 : tile, copied = few_queries(plan) ? 0 : rows;
    size_t keys = values < plan->n_keys ? values : padded(plan->n_keys);
    const size_t shapes[ATTNI_CORE_PARTS][3] = {
        {block, tile, sizeof(float)},
        {copied, plan->head_width, sizeof(float)},
        {copied, plan->value_width, sizeof(float)},
        {plan->head_width, keys, sizeof(float)},
        {padded(plan->value_width), values, sizeof(float)},
        {rows, 1, sizeof(float)},
        {rows, 1, sizeof(float)},
        {rows, 1, sizeof(struct attni_edge *)}};
    *n_bytes = 0;
    for (size_t i = 0; i < ATTNI_CORE_PARTS; i++) {
        size_t bytes;
        plan->core_at[i] = *n_bytes;
        if (!attni_count(shapes[i], 3, &bytes) || !attni_add(bytes, 63, &bytes) ||
            !attni_add(*n_bytes, bytes / 64 * 64, n_bytes)) {
            return false;
        }
    }
    return true;
}

static void bind_scratch(struct work *work, unsigned char *scratch)
{
    void *parts[ATTNI_CORE_PARTS];
    for (size_t i = 0; i < ATTNI_CORE_PARTS; i++) {
        parts[i] = scratch + work->core->plan->core_at[i];
    }
    work->scores = parts[0];
    work->queries = parts[1];
    work->results = parts[2];
    work->keys = parts[3];
    work->values = parts[4];
    work->max = parts[5];
    work->sum = parts[6];
    work->edges = parts[7];
}

/* ---- tasks --------------------------------------------------------------------------------- */

/* With few queries and many samples a task is a whole sample: what one head reads lies between what
 * the others read, so together they read memory from end to end. */
static size_t heads_of_task(const attn_plan *plan)
{
    bool together = few_queries(plan) && plan->n_batch >= MANY_SAMPLES;
    return together ? plan->layer->spec.n_heads : 1;
}

size_t attni_core_n_tasks(const struct attni_core *core)
{
    const attn_plan *plan = core->plan;
    size_t n_batch = core->context ? plan->n_batch : 0;
    if (core->probabilities && plan->n_score_batch > n_batch) {
        n_batch = plan->n_score_batch;
    }
    return n_batch * (plan->layer->spec.n_heads / heads_of_task(plan)) * n_tiles(plan);
}

static void start(struct work *work, const struct attni_core *core, size_t task,
                  size_t head, void *scratch)
{
    const attn_plan *plan = core->plan;
    size_t n_heads = plan->layer->spec.n_heads, tiles = n_tiles(plan);
    /* later queries see more keys under a causal bound: they go first */
    size_t tile = tiles - 1 - task % tiles, batch = task / tiles;
    if (heads_of_task(plan) == 1) {
        head = batch % n_heads;
        batch /= n_heads;
    }
    size_t first = attni_part_start(plan->n_queries, tiles, tile);
    size_t next = attni_part_start(plan->n_queries, tiles, tile + 1);
    *work =
        (struct work){.core = core,
                      .kernels = attni_kernels(),
                      .batch = batch,
                      .head = head,
                      .first = first,
                      .n = next - first,
                      .terms = attni_terms_any(plan),
                      .value_terms = plan->kv.data || core->plan->layer->edge_value_bias,
                      .few = few_queries(plan),
                      .tile = tile_keys(plan)};
    if (core->context && batch < plan->n_batch) {
        work->context =
            core->context +
            ((batch * plan->n_queries + first) * n_heads + head) * plan->value_width;
    }
    if (core->probabilities && batch < plan->n_score_batch) {
        work->probabilities =
            core->probabilities +
            ((batch * n_heads + head) * plan->n_queries + first) * plan->n_keys;
    }
    bind_scratch(work, scratch);
}

static float *context_row(const struct work *work, size_t i)
{
    const attn_plan *plan = work->core->plan;
    return work->context + i * plan->layer->spec.n_heads * plan->value_width;
}

/* Where the result of query i is gathered. */
static float *result_row(const struct work *work, size_t i)
{
    return work->few ? context_row(work, i)
                     : work->results + i * work->core->plan->value_width;
}

static void clear(struct work *work)
{
    const attn_plan *plan = work->core->plan;
    for (size_t i = 0; i < work->n; i++) {
        work->max[i] = -INFINITY;
        work->sum[i] = 0;
        if (work->context) {
            memset(result_row(work, i), 0, plan->value_width * sizeof(float));
        }
        if (plan->n_edges) {
            size_t at = work->batch * plan->n_queries + work->first + i;
            work->edges[i] = work->core->edges.list + work->core->edges.starts[at];
        }
    }
}

/* ---- one tile of keys ---------------------------------------------------------------------- */

static const float *head_rows(const struct attni_rows *rows, const struct work *work,
                              size_t row)
{
    return rows->data + work->batch * rows->batch + work->head * rows->head +
           row * rows->row;
}

static void copy_queries(const struct work *work)
{
    size_t width = work->core->plan->head_width;
    for (size_t i = 0; i < work->n; i++) {
        memcpy(work->queries + i * width,
               head_rows(&work->core->query, work, work->first + i),
               width * sizeof *work->queries);
    }
}

/* Turn the tile's keys into columns and its values into panels, for all blocks of queries. */
static void pack_tile(struct work *work)
{
    work->packed = true;
    const struct attni_core *core = work->core;
    size_t width = core->plan->head_width, n_panel = work->kernels->n_panel;
    const float *key = head_rows(&core->key, work, work->key);
    for (size_t j = 0; j < work->n_keys; j += n_panel) {
        size_t n = work->n_keys - j < n_panel ? work->n_keys - j : n_panel;
        work->kernels->pack_columns_f32(n, width, key + j * core->key.row, core->key.row,
                                        work->keys + j * width);
    }
    if (work->context) {
        work->finite = work->kernels->pack_rows_f32(
            work->n_keys, core->plan->value_width,
            head_rows(&core->value, work, work->key), core->value.row, work->values,
            n_panel * work->tile);
    }
}

static void multiply_keys(const struct work *work)
{
    const struct attni_core *core = work->core;
    size_t width = core->plan->head_width, n_panel = work->kernels->n_panel;
    if (work->few) {
        work->kernels->scores_f32(
            work->n_block, work->n_seen, width,
            head_rows(&core->query, work, work->first + work->block), core->query.row,
            head_rows(&core->key, work, work->key), core->key.row, work->scores,
            work->tile);
        return;
    }
    struct attni_gemm gemm = {.m = work->n_block,
                              .n = work->n_seen,
                              .k = width,
                              .a = work->queries + work->block * width,
                              .a_stride = width,
                              .b = work->keys,
                              .panel_stride = n_panel * width,
                              .c = work->scores,
                              .c_stride = work->tile};
    work->kernels->gemm_f32(&gemm);
}

/* Keys of the tile that query i may see: those before the causal bound. */
static size_t visible(const struct work *work, size_t i)
{
    size_t bound = work->first + i + 1;
    if (!work->core->plan->layer->spec.causal || bound >= work->key + work->n_keys) {
        return work->n_keys;
    }
    return bound > work->key ? bound - work->key : 0;
}

/* Keep scores for the probabilities; those of keys that are not seen are -inf. */
static void keep_scores(const struct work *work, size_t i, const float *scores, size_t n)
{
    float *kept = work->probabilities + i * work->core->plan->n_keys + work->key;
    if (n > 0) {
        memcpy(kept, scores, n * sizeof *kept);
    }
    for (size_t j = n; j < work->n_keys; j++) {
        kept[j] = -INFINITY;
    }
}

static struct attni_row row_of(const struct work *work, size_t i, size_t n_keys)
{
    return (struct attni_row){.batch = work->batch,
                              .head = work->head,
                              .query = work->first + i,
                              .key = work->key,
                              .n_keys = n_keys,
                              .scores = work->scores + (i - work->block) * work->tile};
}

/* From products to scores of row i. */
static void adjust(const struct work *work, size_t i, size_t n_keys)
{
    struct attni_row row = row_of(work, i, n_keys);
    if (work->terms && n_keys > 0) {
        attni_terms_scores(work->core, &row, &work->edges[i]);
    }
    if (work->probabilities) {
        keep_scores(work, i, row.scores, n_keys);
    }
}

/* What the new weights of row i do to its context, but for the values themselves. */
static void rescale(const struct work *work, size_t i, size_t n_keys, float factor)
{
    const struct attni_core *core = work->core;
    struct attni_row row = row_of(work, i, n_keys);
    if (factor == 0) { /* a weight of 0 adds nothing, not even 0 times infinity */
        memset(result_row(work, i), 0, core->plan->value_width * sizeof(float));
    } else if (factor != 1) {
        work->kernels->scale_f32(core->plan->value_width, factor, result_row(work, i));
    }
    if (work->value_terms && n_keys > 0) {
        attni_terms_values(core, &row, core->plan->n_edges ? work->edges[i] : NULL,
                           result_row(work, i));
    }
}

/* From products to weights, for all rows of the block. */
static void weigh(const struct work *work)
{
    size_t n_keys[MOST_BLOCK];
    float factor[MOST_BLOCK];
    for (size_t i = 0; i < work->n_block; i++) {
        n_keys[i] = visible(work, work->block + i);
        adjust(work, work->block + i, n_keys[i]);
    }
    work->kernels->softmax_step_f32(
        work->n_block, n_keys, work->terms ? 1 : work->core->plan->scale, work->scores,
        work->tile, work->max + work->block, work->sum + work->block, factor);
    for (size_t i = 0; i < work->n_block; i++) {
        for (size_t j = n_keys[i]; j < work->n_seen; j++) {
            work->scores[i * work->tile + j] = 0;
        }
        if (work->context) {
            rescale(work, work->block + i, n_keys[i], factor[i]);
        }
    }
}

static void add_values(const struct work *work)
{
    const struct attni_core *core = work->core;
    size_t width = core->plan->value_width;
    /* a weight of 0 must add nothing, which a product with NaN or infinity would not */
    if (work->few || !work->finite) {
        for (size_t i = 0; i < work->n_block; i++) {
            work->kernels->weighted_sum_f32(
                work->n_seen, width, work->scores + i * work->tile,
                head_rows(&core->value, work, work->key), core->value.row,
                result_row(work, work->block + i));
        }
        return;
    }
    struct attni_gemm gemm = {.m = work->n_block,
                              .n = width,
                              .k = work->n_seen,
                              .a = work->scores,
                              .a_stride = work->tile,
                              .b = work->values,
                              .panel_stride = work->kernels->n_panel * work->tile,
                              .c = result_row(work, work->block),
                              .c_stride = width,
                              .accumulate = true};
    work->kernels->gemm_f32(&gemm);
}

/* One block of queries against the tile. */
static void run_block(struct work *work)
{
    const struct attni_core *core = work->core;
    work->n_seen = visible(work, work->block + work->n_block - 1);
    struct attni_row all = {.batch = work->batch,
                            .head = work->head,
                            .query = work->first + work->block,
                            .key = work->key,
                            .n_keys = work->n_seen};
    if (work->n_seen == 0 || attni_terms_blocked(core, &all, work->n_block)) {
        for (size_t i = 0; work->probabilities && i < work->n_block; i++) {
            keep_scores(work, work->block + i, NULL, 0);
        }
        return;
    }
    if (!work->few && !work->packed) {
        pack_tile(work);
    }
    multiply_keys(work);
    weigh(work);
    if (work->context) {
        add_values(work);
    }
}

/* ---- the whole row ------------------------------------------------------------------------- */

/* What turns gathered weights into probabilities; NaN for a row that is to be NaN. */
static float normaliser(const struct work *work, size_t i)
{
    const attn_plan *plan = work->core->plan;
    if (work->sum[i] != 0) {
        return 1 / work->sum[i];
    }
    /* nothing was open */
    return plan->n_keys > 0 && plan->layer->spec.empty_rows == ATTN_EMPTY_NAN ? NAN : 0;
}

static void give_result(const struct work *work, size_t i, float factor)
{
    size_t width = work->core->plan->value_width;
    float *result = result_row(work, i), *context = context_row(work, i);
    work->kernels->scale_f32(width, factor, result);
    if (context != result) {
        memcpy(context, result, width * sizeof *context);
    }
}

static void finish(const struct work *work, size_t bound)
{
    const attn_plan *plan = work->core->plan;
    for (size_t i = 0; i < work->n; i++) {
        float factor = normaliser(work, i);
        if (work->context) {
            give_result(work, i, factor);
        }
        if (!work->probabilities) {
            continue;
        }
        float *row = work->probabilities + i * plan->n_keys;
        if (isnan(factor) || factor == 0) {
            for (size_t j = 0; j < plan->n_keys; j++) {
                row[j] = factor;
            }
            continue;
        }
        work->kernels->exponential_f32(bound, work->terms ? 1 : plan->scale, work->max[i],
                                       factor, row);
        memset(row + bound, 0, (plan->n_keys - bound) * sizeof *row);
    }
}

/* Ask for rows that the heads are about to read one after the other. */
static void fetch(const struct attni_rows *rows, size_t batch, size_t n_rows)
{
    const float *data = rows->data + batch * rows->batch;
    size_t n = n_rows * rows->row;
    for (size_t i = 0; i < n && i < MOST_FETCHED; i += 16) {
        __builtin_prefetch(data + i);
    }
}

static void run_head(const struct attni_core *core, size_t task, size_t head,
                     void *scratch)
{
    const attn_plan *plan = core->plan;
    struct work work;
    start(&work, core, task, head, scratch);
    clear(&work);
    if (!work.few) {
        copy_queries(&work);
    }
    size_t last = work.first + work.n, bound = plan->n_keys;
    if (plan->layer->spec.causal && last < bound) {
        bound = last;
    }
    size_t n_blocks = attni_parts(work.n, block_rows());
    for (work.key = 0; work.key < bound; work.key += work.tile) {
        work.n_keys = bound - work.key < work.tile ? bound - work.key : work.tile;
        work.packed = false;
        for (size_t block = 0; block < n_blocks; block++) {
            work.block = attni_part_start(work.n, n_blocks, block);
            work.n_block = attni_part_start(work.n, n_blocks, block + 1) - work.block;
            run_block(&work);
        }
    }
    finish(&work, bound);
}

void attni_core_run(const struct attni_core *core, size_t task, void *scratch)
{
    size_t n_heads = heads_of_task(core->plan);
    if (n_heads > 1) {
        fetch(&core->key, task, core->plan->n_keys);
        fetch(&core->value, task, core->plan->n_keys);
    }
    for (size_t head = 0; head < n_heads; head++) {
        run_head(core, task, head, scratch);
    }
}
