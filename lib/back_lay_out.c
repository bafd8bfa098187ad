/* back_lay_out.c - what a plan of gradients keeps in scratch. Everything projected stays, so memory grows
 * with the lengths, never with their product. The plan belongs to the caller. */
#include "lay_out.h"

#include "back_core.h"
#include "back_linear.h"
#include "back_scores.h"
#include "status.h"

#include <stdint.h>

/* Whether any gradient of a table of edges or a dense relation is asked for. */
static bool wants_terms(const attn_plan *plan)
{
    const struct attni_parameter *parameters = plan->layer->learned;
    bool any = attni_plan_wants(plan, ATTNI_GRAD_INPUT, ATTNI_DENSE_KQ) ||
               attni_plan_wants(plan, ATTNI_GRAD_INPUT, ATTNI_DENSE_KV);
    for (size_t i = 0; i < plan->layer->n_learned; i++) {
        bool table = parameters[i].kind == ATTNI_EDGE_BIAS ||
                     parameters[i].kind == ATTNI_EDGE_VALUE_BIAS;
        any = any || (table && attni_plan_wants(plan, ATTNI_GRAD_PARAMETER, i));
    }
    return any;
}

/* Whether any gradient is asked for that depends on the rows of queries, keys or values (0, 1, 2). */
static bool wants_rows(const attn_plan *plan, size_t which)
{
    const struct attni_parameter *parameters = plan->layer->learned;
    bool any = attni_plan_wants(plan, ATTNI_GRAD_INPUT, attni_plan_source(plan, which));
    for (size_t i = 0; i < plan->layer->n_learned; i++) {
        bool linear =
            parameters[i].kind == ATTNI_WEIGHT || parameters[i].kind == ATTNI_BIAS;
        bool own = parameters[i].owner == ATTNI_FUSED ||
                   parameters[i].owner == ATTNI_OF_QUERY + which;
        any = any || (linear && own && attni_plan_wants(plan, ATTNI_GRAD_PARAMETER, i));
    }
    return any;
}

/* Whether those rows are the gradient of an input as they are: it was not projected, serves once, and
 * serves no more than its own samples. */
static bool is_direct(const attn_plan *plan, size_t which)
{
    enum attni_role source = attni_plan_source(plan, which);
    bool direct = !attni_plan_projection(plan, which)->weight &&
                  plan->batch[which] == plan->n_batch &&
                  attni_plan_wants(plan, ATTNI_GRAD_INPUT, source);
    for (size_t other = 0; other < 3; other++) {
        direct = direct && (other == which || attni_plan_source(plan, other) != source);
    }
    return direct;
}

static void take_rows(attn_plan *plan, struct attni_cursor *cursor)
{
    struct attni_back_plan *back = &plan->back;
    bool fused = plan->layer->fused.weight != NULL;
    back->attends = wants_terms(plan);
    for (size_t i = 0; i < 3; i++) {
        size_t length = attni_plan_length(plan, i), width = attni_plan_width(plan, i);
        size_t row = fused ? plan->layer->fused.n_out : plan->layer->spec.n_heads * width;
        back->wants[i] = wants_rows(plan, i);
        back->attends = back->attends || back->wants[i];
        back->direct[i] = is_direct(plan, i);
        if (back->wants[i] && !back->direct[i] && (!fused || i == 0)) {
            back->rows_at[i] = attni_take_floats(cursor, plan->n_batch, length, row);
        }
    }
}

/* The heads' results and what follows them, and the cotangents on the way back. */
static void take_steps(attn_plan *plan, struct attni_cursor *cursor)
{
    struct attni_back_plan *back = &plan->back;
    const attn_layer *layer = plan->layer;
    const struct attni_post *posts = layer->posts;
    size_t n_batch = plan->n_batch, n_queries = plan->n_queries;
    size_t width = attni_spec_output_width(&layer->spec);
    size_t context = layer->spec.n_heads * plan->value_width;
    back->context_at = attni_take_floats(cursor, n_batch, n_queries, context);
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        if (posts[i].spec.kind != ATTN_POST_NONE) {
            back->steps_at[1 + i] = attni_take_floats(cursor, n_batch, n_queries, width);
        }
    }
    if (layer->output.weight) {
        back->steps_at[0] = attni_take_floats(cursor, n_batch, n_queries, width);
        back->context_cotangent_at =
            attni_take_floats(cursor, n_batch, n_queries, context);
    }
    if (attni_plan_has_posts(plan) || !plan->given[ATTNI_GRAD_OUTPUT]) {
        back->cotangent_at = attni_take_floats(cursor, n_batch, n_queries, width);
    }
}

static void take_attention(attn_plan *plan, struct attni_cursor *cursor)
{
    struct attni_back_plan *back = &plan->back;
    size_t n_heads = plan->layer->spec.n_heads;
    back->row_max_at = attni_take_floats(cursor, plan->n_batch, n_heads, plan->n_queries);
    back->row_factor_at =
        attni_take_floats(cursor, plan->n_batch, n_heads, plan->n_queries);
    if (plan->given[ATTNI_GRAD_ATTENTION] &&
        !attni_plan_wants(plan, ATTNI_ATTENTION, 0)) {
        size_t n = 0;
        cursor->overflow =
            cursor->overflow ||
            attn_tensor_count(&plan->inputs[ATTNI_GRAD_ATTENTION], &n) != ATTN_OK;
        back->attention_at = attni_take_floats(cursor, n, 1, 1);
    }
    if (plan->n_edges) {
        back->edges_at[0] = attni_take_floats(cursor, plan->n_edges, n_heads, 1);
        back->edges_at[1] = attni_take_floats(cursor, plan->n_edges, n_heads, 1);
    }
    if (back->key_parts > 1 && back->wants[0]) {
        size_t n = 0;
        const size_t shape[] = {plan->n_batch, n_heads, back->key_parts};
        cursor->overflow = cursor->overflow || !attni_count(shape, 3, &n);
        back->query_parts_at =
            attni_take_floats(cursor, n, plan->n_queries, plan->head_width);
    }
}

/* Room for the largest projection's weight, turned. */
static void take_weight(attn_plan *plan, struct attni_cursor *cursor)
{
    size_t most = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct attni_linear *linear =
            i < 3 ? attni_plan_projection(plan, i) : &plan->layer->output;
        size_t n = 0;
        if (linear->weight) {
            cursor->overflow = cursor->overflow || !attni_back_weight_floats(linear, &n);
        }
        most = n > most ? n : most;
    }
    plan->back.weight_at = attni_take_floats(cursor, most, 1, 1);
}

static size_t greatest(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool attni_lay_out_back_works(const attn_plan *plan)
{
    return plan->n_batch > 0 && (plan->n_queries > 0 || plan->n_keys > 0);
}

enum attn_status attni_lay_out_back(attn_plan *plan, struct attn_error *error)
{
    struct attni_cursor shared = {0, false}, worker = {0, false};
    size_t task_bytes = 0;
    attni_lay_out_edges(plan, &shared);
    if (!plan->layer->spec.scores_only && attni_lay_out_back_works(plan)) {
        attni_lay_out_attention(plan, SIZE_MAX, &shared, &worker);
        attni_back_cut(plan);
        take_rows(plan, &shared);
        take_steps(plan, &shared);
        take_attention(plan, &shared);
        take_weight(plan, &shared);
        worker.overflow = worker.overflow || !attni_back_lay_out(plan, &task_bytes);
        shared.overflow = shared.overflow || !attni_lay_out_is_one_round(plan);
    }
    plan->shared_bytes = shared.bytes;
    if (plan->layer->spec.scores_only) {
        worker.overflow = !attni_back_scores_lay_out(plan, &task_bytes);
    }
    plan->worker_bytes =
        greatest(greatest(worker.bytes, task_bytes), attni_back_linear_scratch());
    if (shared.overflow || worker.overflow) {
        return attni_fail(error, ATTN_TOO_LARGE, plan->layer->spec.query,
                          "the inputs need more memory than can be counted");
    }
    return ATTN_OK;
}
