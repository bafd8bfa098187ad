/* few.c - a few queries a head: keys and values are multiplied where they lie, all heads of a
 * sample in one walk over memory. */
#include "few.h"

#include "work.h"

/* Floats of keys or values to ask for ahead: what fits a second-level cache beside the rest. */
#define MOST_FETCHED ((size_t)65536)
#define LINE_FLOATS ((size_t)16)

/* Ask for rows that are read soon. */
static void fetch(const struct attni_core *core, const struct attni_rows *rows,
                  size_t batch)
{
    size_t n = attni_rows_together(rows, core->first_key, core->n_keys) * rows->row;
    const float *data = attni_row_at(rows, batch, 0, core->first_key);
    for (size_t i = 0; i < n && i < MOST_FETCHED; i += LINE_FLOATS) {
        __builtin_prefetch(data + i);
    }
}

static struct attni_lying lying(const struct attni_work *work,
                                const struct attni_rows *rows, size_t row)
{
    return (struct attni_lying){.data = attni_work_rows(work, rows, work->head, row),
                                .row = rows->row,
                                .head = rows->head};
}

static void multiply_keys(const struct attni_work *work)
{
    const struct attni_core *core = work->core;
    struct attni_few_scores few = {
        .n_heads = work->n_heads,
        .n_queries = work->n_queries,
        .width = core->plan->head_width,
        .query = lying(work, &core->query, work->first),
        .score_row = work->tiles->n_keys,
    };
    for (size_t j = 0; j < work->n_seen; j += few.n_keys) {
        size_t key = work->key + j;
        few.n_keys = attni_rows_together(&core->key, key, work->n_seen - j);
        few.key = lying(work, &core->key, key);
        few.scores = work->scores + j;
        work->kernels->scores_f32(&few);
    }
}

/* Values of keys [j, j + n) of the tile, which lie together. */
static void add_values_of(const struct attni_work *work, size_t j, size_t n)
{
    const struct attni_core *core = work->core;
    for (size_t i = 0; i < work->n_queries; i++) {
        const struct attni_few_sums few = {
            .n_heads = work->n_heads,
            .n_keys = n,
            .width = core->plan->value_width,
            .weight = work->scores + i * work->tiles->n_keys + j,
            .weight_head = work->n_queries * work->tiles->n_keys,
            .value = lying(work, &core->value, work->key + j),
            .out = attni_work_result(work, i),
            .out_head = core->context.head,
        };
        work->kernels->weighted_heads_f32(&few);
    }
}

static void add_values(const struct attni_work *work)
{
    size_t n;
    for (size_t j = 0; j < work->n_seen; j += n) {
        n = attni_rows_together(&work->core->value, work->key + j, work->n_seen - j);
        add_values_of(work, j, n);
    }
}

static void run(struct attni_work *work)
{
    size_t bound = attni_work_bound(work), tile = work->tiles->n_keys;
    work->n_block = work->n;
    for (work->key = work->core->first_key; work->key < bound && work->n > 0;
         work->key += tile) {
        work->n_keys = bound - work->key < tile ? bound - work->key : tile;
        work->n_seen = attni_work_visible(work, work->n - 1);
        if (work->n_seen == 0 || attni_work_blocked(work)) {
            attni_work_skip(work);
            continue;
        }
        multiply_keys(work);
        attni_work_weigh(work);
        if (work->wanted) {
            add_values(work);
        }
    }
    attni_work_finish(work);
}

void attni_few_heads(const struct attni_core *core, size_t batch, size_t head,
                     size_t n_heads, unsigned char *scratch)
{
    struct attni_work work;
    attni_work_start(&work, core, batch, head, n_heads, 0, scratch);
    run(&work);
}

void attni_few_samples(const struct attni_core *core, size_t first, size_t last,
                       unsigned char *scratch)
{
    const attn_plan *plan = core->plan;
    size_t n_heads = plan->layer->spec.n_heads, step = plan->tiles.n_heads;
    for (size_t batch = first; batch < last; batch++) {
        fetch(core, &core->key, batch);
        fetch(core, &core->value, batch);
        for (size_t head = 0; head < n_heads; head += step) {
            attni_few_heads(core, batch, head,
                            n_heads - head < step ? n_heads - head : step, scratch);
        }
    }
}
