/* work.c - what happens to rows of scores and results. One thread a task. */
#include "work.h"

#include "tensor.h"

#include <math.h>
#include <string.h>

/* ---- start --------------------------------------------------------------------------------- */

static void bind_scratch(struct attni_work *work, unsigned char *scratch)
{
    void *parts[ATTNI_TILE_PARTS];
    for (size_t i = 0; i < ATTNI_TILE_PARTS; i++) {
        parts[i] = scratch + work->tiles->at[i];
    }
    work->scores = parts[ATTNI_SCORES];
    work->copies[0] = parts[ATTNI_QUERY_TILE];
    work->copies[1] = parts[ATTNI_RESULTS];
    work->keys = parts[ATTNI_KEY_TILE];
    work->values = parts[ATTNI_VALUE_TILE];
    work->max = parts[ATTNI_MAX];
    work->sum = parts[ATTNI_SUM];
    work->edges = parts[ATTNI_NEXT_EDGES];
    work->edge_scores = work->tiles->edges ? parts[ATTNI_EDGE_TILE] : NULL;
}

/* Head and query of a row. With one head, the usual case, nothing is divided. */
static size_t head_of(const struct attni_work *work, size_t i)
{
    return work->n_heads == 1 ? work->head : work->head + i / work->n_queries;
}

static size_t query_of(const struct attni_work *work, size_t i)
{
    return work->first + (work->n_heads == 1 ? i : i % work->n_queries);
}

static float *context_of(const struct attni_work *work, size_t i)
{
    const struct attni_core *core = work->core;
    return core->context.data +
           (work->batch - core->context.first) * core->context.batch +
           query_of(work, i) * core->context.row + head_of(work, i) * core->context.head;
}

float *attni_work_result(const struct attni_work *work, size_t i)
{
    if (!work->wanted) {
        return NULL;
    }
    return work->tiles->few ? context_of(work, i) : work->result + i * work->result_row;
}

/* Where the maximum and the sum of a row are kept. */
static size_t state_at(const struct attni_work *work, size_t i)
{
    const struct attni_core *core = work->core;
    size_t head =
        (work->batch - core->first) * core->plan->layer->spec.n_heads + head_of(work, i);
    return head * core->plan->n_queries + query_of(work, i);
}

/* Start anew, or go on where an earlier round of keys has left off. */
static void begin(struct attni_work *work)
{
    const struct attni_core *core = work->core;
    const attn_plan *plan = core->plan;
    size_t n_bytes = plan->value_width * sizeof(float);
    bool anew = core->first_key == 0;
    for (size_t i = 0; i < work->n; i++) {
        float *result = attni_work_result(work, i);
        work->max[i] = anew ? -INFINITY : core->max[state_at(work, i)];
        work->sum[i] = anew ? 0 : core->sum[state_at(work, i)];
        if (result && anew) {
            memset(result, 0, n_bytes);
        } else if (result && result != context_of(work, i)) {
            memcpy(result, context_of(work, i), n_bytes);
        }
        if (plan->n_edges) {
            size_t at = work->batch * plan->n_queries + query_of(work, i);
            work->edges[i] = work->core->edges.list + work->core->edges.starts[at];
        }
    }
}

void attni_work_start(struct attni_work *work, const struct attni_core *core,
                      size_t batch, size_t head, size_t n_heads, size_t part,
                      unsigned char *scratch)
{
    const attn_plan *plan = core->plan;
    size_t parts = plan->tiles.query_parts;
    size_t first = attni_part_start(plan->n_queries, parts, part);
    size_t n_queries = attni_part_start(plan->n_queries, parts, part + 1) - first;
    *work = (struct attni_work){
        .core = core,
        .kernels = attni_kernels(),
        .tiles = &plan->tiles,
        .batch = batch,
        .head = head,
        .n_heads = n_heads,
        .first = first,
        .n_queries = n_queries,
        .n = n_heads * n_queries,
        .terms = attni_terms_any(plan),
        .value_terms = plan->kv.data || plan->layer->edge_value_bias,
        .wanted = core->context.data && batch < plan->n_batch,
    };
    if (core->probabilities && batch < plan->n_score_batch) {
        size_t row = (batch * plan->layer->spec.n_heads + head) * plan->n_queries + first;
        work->probabilities = core->probabilities + row * plan->n_keys;
    }
    bind_scratch(work, scratch);
    bool once = core->n_keys <= work->tiles->n_keys;
    work->result = once && work->wanted ? context_of(work, 0) : work->copies[1];
    work->result_row = once ? core->context.row : plan->value_width;
    begin(work);
}

bool attni_work_is_idle(const struct attni_core *core, size_t part)
{
    const attn_plan *plan = core->plan;
    size_t end = attni_part_start(plan->n_queries, plan->tiles.query_parts, part + 1) +
                 plan->kept.first;
    return plan->layer->spec.causal && end <= core->first_key && core->first_key > 0 &&
           !core->probabilities && core->first_key + core->n_keys < plan->n_keys;
}

size_t attni_work_bound(const struct attni_work *work)
{
    const attn_plan *plan = work->core->plan;
    size_t last = work->first + work->n_queries;
    size_t end = work->core->first_key + work->core->n_keys;
    last += plan->kept.first;
    return plan->layer->spec.causal && last < end ? last : end;
}

const float *attni_work_rows(const struct attni_work *work, const struct attni_rows *rows,
                             size_t head, size_t row)
{
    return attni_row_at(rows, work->batch, head, row);
}

/* ---- one tile of keys ---------------------------------------------------------------------- */

size_t attni_work_visible(const struct attni_work *work, size_t i)
{
    if (!work->core->plan->layer->spec.causal) {
        return work->n_keys;
    }
    size_t bound = work->core->plan->kept.first + query_of(work, i) + 1;
    if (bound >= work->key + work->n_keys) {
        return work->n_keys;
    }
    return bound > work->key ? bound - work->key : 0;
}

bool attni_work_blocked(const struct attni_work *work)
{
    struct attni_row all = {.batch = work->batch,
                            .query = query_of(work, work->block),
                            .key = work->key,
                            .n_keys = work->n_seen};
    size_t n_queries = work->n_heads == 1 ? work->n_block : work->n_queries;
    bool blocked = true;
    for (size_t head = 0; blocked && head < work->n_heads; head++) {
        all.head = work->head + head;
        blocked = attni_terms_blocked(work->core, &all, n_queries);
    }
    return blocked;
}

/* Keep scores for the probabilities; those of keys that are not seen are -inf. */
static void keep_scores(const struct attni_work *work, size_t i, const float *scores,
                        size_t n)
{
    float *kept = work->probabilities + i * work->core->plan->n_keys + work->key;
    if (n > 0) {
        memcpy(kept, scores, n * sizeof *kept);
    }
    for (size_t j = n; j < work->n_keys; j++) {
        kept[j] = -INFINITY;
    }
}

void attni_work_skip(const struct attni_work *work)
{
    for (size_t i = 0; work->probabilities && i < work->n_block; i++) {
        keep_scores(work, work->block + i, NULL, 0);
    }
}

static struct attni_row row_of(const struct attni_work *work, size_t i, size_t n_keys)
{
    return (struct attni_row){.batch = work->batch,
                              .head = head_of(work, i),
                              .query = query_of(work, i),
                              .key = work->key,
                              .n_keys = n_keys,
                              .scores =
                                  work->scores + (i - work->block) * work->tiles->n_keys,
                              .edge_scores = work->edge_scores};
}

/* From products to scores of row i. */
static void adjust(const struct attni_work *work, size_t i, size_t n_keys)
{
    struct attni_row row = row_of(work, i, n_keys);
    if (work->terms && n_keys > 0) {
        attni_terms_scores(work->core, &row, &work->edges[i]);
    }
    if (work->probabilities) {
        keep_scores(work, i, row.scores, n_keys);
    }
}

/* What the new weights of row i do to its result, but for the values themselves. */
static void rescale(const struct attni_work *work, size_t i, size_t n_keys, float factor)
{
    const struct attni_core *core = work->core;
    float *result = attni_work_result(work, i);
    if (!result) {
        return;
    }
    if (factor == 0) { /* a weight of 0 adds nothing, not even 0 times infinity */
        memset(result, 0, core->plan->value_width * sizeof(float));
    } else if (factor != 1) {
        work->kernels->scale_f32(core->plan->value_width, factor, result);
    }
    if (work->value_terms && n_keys > 0) {
        struct attni_row row = row_of(work, i, n_keys);
        attni_terms_values(core, &row, core->plan->n_edges ? work->edges[i] : NULL,
                           result);
    }
}

/* Which sample's draws: scores that serve many samples are drawn once. */
static size_t drawn_sample(const struct attni_work *work)
{
    return work->core->plan->n_score_batch == 1 ? 0 : work->batch;
}

/* Drop weights, or probabilities, of row i from key `key` on. */
static void drop(const struct attni_work *work, size_t i, size_t key, size_t n_keys,
                 float *weights)
{
    attni_dropout_apply(&work->core->dropout, drawn_sample(work), head_of(work, i),
                        query_of(work, i), key, n_keys, weights);
}

void attni_work_weigh(const struct attni_work *work)
{
    size_t n_keys[ATTNI_MOST_BLOCK], tile = work->tiles->n_keys;
    float factor[ATTNI_MOST_BLOCK];
    bool untouched = !work->terms && !work->probabilities;
    for (size_t i = 0; i < work->n_block; i++) {
        n_keys[i] = attni_work_visible(work, work->block + i);
        if (!untouched) {
            adjust(work, work->block + i, n_keys[i]);
        }
    }
    work->kernels->softmax_step_f32(
        work->n_block, n_keys, work->terms ? 1 : work->core->plan->scale, work->scores,
        tile, work->max + work->block, work->sum + work->block, factor);
    for (size_t i = 0; i < work->n_block; i++) {
        if (work->core->drops) {
            drop(work, work->block + i, work->key, n_keys[i], work->scores + i * tile);
        }
        if (n_keys[i] < work->n_seen) {
            memset(work->scores + i * tile + n_keys[i], 0,
                   (work->n_seen - n_keys[i]) * sizeof(float));
        }
        if (factor[i] != 1 || work->value_terms) {
            rescale(work, work->block + i, n_keys[i], factor[i]);
        }
    }
}

/* ---- the whole row ------------------------------------------------------------------------- */

/* What turns gathered weights into probabilities; NaN for a row that is to be NaN. */
static float normaliser(const struct attni_work *work, size_t i)
{
    const attn_plan *plan = work->core->plan;
    if (work->sum[i] != 0) {
        return 1 / work->sum[i];
    }
    /* nothing was open */
    return plan->n_keys > 0 && plan->layer->spec.empty_rows == ATTN_EMPTY_NAN ? NAN : 0;
}

static void finish_result(const struct attni_work *work, size_t i, float factor)
{
    size_t width = work->core->plan->value_width;
    float *result = attni_work_result(work, i);
    if (!result) {
        return;
    }
    float *context = context_of(work, i);
    if (factor != 1) {
        work->kernels->scale_f32(width, factor, result);
    }
    if (context != result) {
        memcpy(context, result, width * sizeof *context);
    }
}

static void finish_probabilities(const struct attni_work *work, size_t i, float factor)
{
    const attn_plan *plan = work->core->plan;
    size_t bound = attni_work_bound(work); /* of the last round of keys: of all */
    float *row = work->probabilities + i * plan->n_keys;
    if (isnan(factor) || factor == 0) {
        for (size_t j = 0; j < plan->n_keys; j++) {
            row[j] = factor;
        }
        return;
    }
    work->kernels->exponential_f32(bound, work->terms ? 1 : plan->scale, work->max[i],
                                   factor, row);
    memset(row + bound, 0, (plan->n_keys - bound) * sizeof *row);
    if (work->core->drops && plan->layer->spec.attention_dropped) {
        drop(work, i, 0, bound, row);
    }
}

/* Keep what a backward needs to know of the row. */
static void keep_row(const struct attni_work *work, size_t i, float factor)
{
    const attn_plan *plan = work->core->plan;
    size_t at =
        (work->batch * plan->layer->spec.n_heads + head_of(work, i)) * plan->n_queries +
        query_of(work, i);
    if (work->core->row_max) {
        work->core->row_max[at] = work->max[i];
        work->core->row_factor[at] = factor;
    }
}

/* Keep what the next round of keys goes on with. */
static void leave_off(const struct attni_work *work)
{
    for (size_t i = 0; i < work->n; i++) {
        work->core->max[state_at(work, i)] = work->max[i];
        work->core->sum[state_at(work, i)] = work->sum[i];
        finish_result(work, i, 1);
    }
}

void attni_work_finish(const struct attni_work *work)
{
    if (work->core->first_key + work->core->n_keys < work->core->plan->n_keys) {
        leave_off(work);
        return;
    }
    for (size_t i = 0; i < work->n; i++) {
        float factor = normaliser(work, i);
        keep_row(work, i, factor);
        finish_result(work, i, factor);
        if (work->probabilities) {
            finish_probabilities(work, i, factor);
        }
    }
}
