/* lay_out.c - rounds and scratch of a call. All samples at once where their projected rows are few;
 * else some samples at a time; where one sample is too much, one of its heads at a time, and what the
 * heads give is kept in the output itself. The plan belongs to the caller. */
#include "lay_out.h"

#include "cursor.h"
#include "edges.h"
#include "kept.h"
#include "kernels/kernels.h"
#include "moments.h"
#include "status.h"
#include "tensor.h"
#include "tiles.h"

#include <string.h>

/* Whether any output has elements: without, nothing is computed, and axes may be of any length. */
static bool has_work(const attn_plan *plan)
{
    bool work = false;
    for (size_t i = 0; i < plan->n_outputs; i++) {
        const struct attn_tensor *output = &plan->outputs[i].tensor;
        size_t n = 0;
        work = work || !attni_count(output->shape, output->rank, &n) || n != 0;
    }
    return work;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static bool is_fused(const attn_plan *plan)
{
    return plan->layer->fused.weight != NULL;
}

/* Queries, keys and values that are projected so that each head has its rows for itself. */
static void choose_blocks(attn_plan *plan)
{
    const size_t widths[] = {plan->head_width, plan->head_width, plan->value_width};
    bool all = true;
    for (size_t i = 0; i < 3; i++) {
        const struct attni_linear *linear = attni_plan_projection(plan, i);
        plan->rounds.by_block[i] = linear->weight && attni_linear_cuts(linear, widths[i]);
        all = all && plan->rounds.by_block[i];
    }
    for (size_t i = 0; i < 3 && is_fused(plan); i++) {
        plan->rounds.by_block[i] = all;
    }
}

/* Projected rows of queries, keys or values (0, 1, 2) in one round. */
static void take_rows(attn_plan *plan, size_t i, struct attni_cursor *cursor)
{
    const struct attni_rounds *rounds = &plan->rounds;
    const struct attni_linear *linear = attni_plan_projection(plan, i);
    size_t length = i == 0 ? plan->n_queries : rounds->n_keys - plan->kept.first;
    size_t width = attni_plan_width(plan, i);
    size_t n_samples =
        plan->batch[i] < rounds->n_samples ? plan->batch[i] : rounds->n_samples;
    bool elsewhere = i > 0 && (plan->kept.kind == ATTNI_KEPT_FILL ||
                               plan->kept.kind == ATTNI_KEPT_READ);
    if (!linear->weight || elsewhere) {
        return;
    }
    if (rounds->by_block[i]) {
        size_t n_heads = rounds->by_head ? 1 : plan->layer->spec.n_heads;
        const size_t shape[] = {n_samples, length};
        size_t n_rows = 0;
        cursor->overflow = cursor->overflow || !attni_count(shape, 2, &n_rows);
        plan->rows_at[i] = attni_take_floats(cursor, n_rows, n_heads, width);
    } else if (i == 0 || !is_fused(plan)) {
        /* a fused projection makes all three in one matrix */
        plan->rows_at[i] = attni_take_floats(cursor, n_samples, length, linear->n_out);
    }
}

/* Everything of a round: its rows and what the heads give. */
static void take_round(attn_plan *plan, struct attni_cursor *cursor)
{
    for (size_t i = 0; i < 3; i++) {
        take_rows(plan, i, cursor);
    }
    if (plan->layer->output.weight && !plan->rounds.in_output && !plan->mode.gradient) {
        plan->context_at =
            attni_take_floats(cursor, plan->rounds.n_samples, plan->n_queries,
                              plan->layer->spec.n_heads * plan->value_width);
    }
    for (size_t i = 0; i < 2 && plan->rounds.n_seen < plan->n_keys; i++) {
        plan->state_at[i] = attni_take_floats(cursor, plan->rounds.n_samples,
                                              plan->layer->spec.n_heads, plan->n_queries);
    }
}

static bool round_fits(attn_plan *plan, size_t n_samples, size_t most_floats)
{
    struct attni_cursor cursor = {0, false};
    plan->rounds.n_samples = n_samples;
    take_round(plan, &cursor);
    return !cursor.overflow && cursor.bytes / sizeof(float) <= most_floats;
}

/* Whether heads may be taken one by one: what is projected must be cut by heads. */
static bool may_go_by_head(const attn_plan *plan)
{
    bool may = plan->layer->spec.n_heads > 1 || plan->layer->output.weight;
    for (size_t i = 0; i < 3; i++) {
        may =
            may && (plan->rounds.by_block[i] || !attni_plan_projection(plan, i)->weight);
    }
    return may;
}

/* Of one head, so many keys at a time that half the room is left for what goes on from round to round.
 * Whole tiles, so that the cut changes no result. */
static size_t keys_of_round(const attn_plan *plan, size_t most_floats)
{
    size_t width = 0, tile = plan->tiles.n_keys;
    if (!attni_add(plan->head_width, plan->value_width, &width) || width == 0) {
        return plan->n_keys;
    }
    size_t n = most_floats / 2 / width / tile * tile;
    n = n > tile ? n : tile;
    return n < plan->n_keys ? n : plan->n_keys;
}

static void go_by_head(attn_plan *plan, size_t most_floats)
{
    struct attni_rounds *rounds = &plan->rounds;
    const struct attni_linear *output = &plan->layer->output;
    rounds->by_head = true;
    rounds->n_keys = keys_of_round(plan, most_floats);
    rounds->n_keys = rounds->n_keys < rounds->n_seen ? rounds->n_keys : rounds->n_seen;
    rounds->n_seen = rounds->n_keys;
    rounds->in_output = plan->computes[0] && output->weight &&
                        output->n_in == output->n_out &&
                        attni_linear_cuts(output, attni_kernels()->n_panel);
}

static void choose_rounds(attn_plan *plan, size_t most_floats)
{
    struct attni_rounds *rounds = &plan->rounds;
    size_t n_batch = plan->n_batch > 0 ? plan->n_batch : 1;
    /* what is kept has to be there whole */
    if (round_fits(plan, n_batch, most_floats) || plan->kept.cache) {
        return;
    }
    if (!round_fits(plan, 1, most_floats)) {
        if (may_go_by_head(plan)) {
            go_by_head(plan, most_floats);
        }
        return;
    }
    /* the largest number of samples that fits, by halves */
    size_t fits = 1, too_many = n_batch;
    while (too_many - fits > 1) {
        size_t middle = fits + (too_many - fits) / 2;
        if (round_fits(plan, middle, most_floats)) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    rounds->n_samples = fits;
}

/* ---- scratch ------------------------------------------------------------------------------- */

/* The most that any projection takes of a worker's scratch. */
static size_t linear_bytes(const attn_plan *plan, bool *overflow)
{
    size_t most = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct attni_linear *linear =
            i < 3 ? attni_plan_projection(plan, i) : &plan->layer->output;
        size_t n_bytes = 0;
        if (linear->weight) {
            bool in_place = i == 3 && plan->rounds.in_output;
            *overflow = *overflow || !attni_linear_scratch(linear, in_place, &n_bytes);
        }
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}

void attni_lay_out_edges(attn_plan *plan, struct attni_cursor *cursor)
{
    size_t bytes[4] = {0};
    if (plan->n_edges == 0) {
        return;
    }
    cursor->overflow = cursor->overflow || !attni_edges_bytes(plan, bytes);
    for (size_t i = 0; i < 4; i++) {
        plan->edges_at[i] = attni_take_bytes(cursor, bytes[i]);
    }
}

/* What is computed but not given out, and what is gathered over draws. */
static void take_draws(attn_plan *plan, struct attni_cursor *cursor)
{
    static const enum attni_result_kind own[] = {ATTNI_MAIN, ATTNI_ATTENTION};
    static const enum attni_result_kind moment[] = {ATTNI_MAIN_MOMENT,
                                                    ATTNI_ATTENTION_MOMENT};
    for (size_t i = 0; i < 2; i++) {
        size_t n_bytes = 0;
        bool given = attni_plan_wants(plan, own[i], 0);
        bool gathered = attni_plan_wants(plan, moment[i], ATTNI_DRAWS_MEAN) ||
                        attni_plan_wants(plan, moment[i], ATTNI_DRAWS_VARIANCE);
        if (plan->computes[i] && !given) {
            plan->draw_at[i] = attni_take_floats(cursor, plan->n_values[i], 1, 1);
        }
        if (gathered) {
            cursor->overflow =
                cursor->overflow || !attni_moments_bytes(plan->n_values[i], &n_bytes);
            plan->moments_at[i] = attni_take_bytes(cursor, n_bytes);
        }
    }
}

void attni_lay_out_attention(attn_plan *plan, size_t most_floats,
                             struct attni_cursor *shared, struct attni_cursor *worker)
{
    size_t tile_bytes = 0;
    attni_tiles_cut(plan);
    plan->rounds = (struct attni_rounds){
        .n_samples = 1, .n_keys = plan->n_keys, .n_seen = attni_tiles_of_task(plan)};
    choose_blocks(plan);
    choose_rounds(plan, most_floats);
    take_round(plan, shared);
    worker->overflow = !attni_tiles_lay_out(plan, &tile_bytes);
    attni_take_bytes(worker, tile_bytes);
    plan->linear_at = attni_take_bytes(worker, linear_bytes(plan, &worker->overflow));
}

enum attn_status attni_lay_out(attn_plan *plan, size_t most_floats,
                               struct attn_error *error)
{
    struct attni_cursor shared = {0, false}, worker = {0, false};
    attni_lay_out_edges(plan, &shared);
    take_draws(plan, &shared);
    plan->rows_from = shared.bytes;
    if (!plan->layer->spec.scores_only && has_work(plan)) {
        attni_lay_out_attention(plan, most_floats, &shared, &worker);
    }
    plan->shared_bytes = shared.bytes;
    plan->worker_bytes = worker.bytes;
    if (shared.overflow || worker.overflow) {
        return attni_fail(error, ATTN_TOO_LARGE, plan->layer->spec.query,
                          "the inputs need more memory than can be counted");
    }
    return ATTN_OK;
}

bool attni_lay_out_is_one_pass(const attn_plan *plan)
{
    return attni_lay_out_is_one_round(plan) && plan->rounds.n_seen >= plan->n_keys;
}

bool attni_lay_out_is_one_round(const attn_plan *plan)
{
    return !plan->rounds.by_head && plan->rounds.n_samples >= plan->n_batch;
}
