/* cost.c - how much a call is, from its sizes alone. Pure functions, any thread. */
#include "kept.h"
#include "plan.h"
#include "tensor.h"

#include <stdint.h>

/* What a gradient takes for each multiply-add of a forward: of a projection, the forward and two
 * products back; of attention, the two products, done again, and five. */
#define LINEAR_GRADIENT 3.0
#define ATTENTION_GRADIENT 3.5

static double n_draws_of(const attn_plan *plan)
{
    return plan->mode.n_draws > 0 ? (double)plan->mode.n_draws : 1;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static size_t rows_of(size_t batch, size_t length)
{
    size_t n;
    return attni_multiply(batch, length, &n) ? n : SIZE_MAX;
}

size_t attn_plan_rows(const attn_plan *plan)
{
    const attn_layer *layer = plan->layer;
    size_t n = rows_of(plan->n_batch, plan->n_queries), both;
    if ((!layer->key.weight && !layer->value.weight) || !attni_kept_brings(plan, 1)) {
        return n;
    }
    return attni_add(n, rows_of(plan->batch[1], attni_plan_length(plan, 1)), &both)
               ? both
               : SIZE_MAX;
}

/* ---- multiply-adds ------------------------------------------------------------------------- */

static double linear_cost(const struct attni_linear *linear, size_t batch, size_t length)
{
    return linear->weight ? (double)batch * (double)length * (double)linear->n_in *
                                (double)linear->n_out
                          : 0;
}

static double projections_cost(const attn_plan *plan)
{
    const attn_layer *layer = plan->layer;
    double cost = linear_cost(&layer->fused, plan->batch[0], plan->n_queries) +
                  linear_cost(&layer->query, plan->batch[0], plan->n_queries) +
                  linear_cost(&layer->output, plan->n_batch, plan->n_queries);
    if (attni_kept_brings(plan, 1)) {
        cost += linear_cost(&layer->key, plan->batch[1], attni_plan_length(plan, 1)) +
                linear_cost(&layer->value, plan->batch[2], attni_plan_length(plan, 2));
    }
    return cost;
}

/* Pairs of a query and a key that it may see. */
static double pairs_of(const attn_plan *plan)
{
    double n_queries = (double)plan->n_queries, n_keys = (double)plan->n_keys;
    double first = (double)plan->kept.first;
    return plan->layer->spec.causal ? n_queries * (first + n_keys + 1) / 2
                                    : n_queries * n_keys;
}

double attni_plan_attention_cost(const attn_plan *plan)
{
    double heads = (double)plan->n_batch * (double)plan->layer->spec.n_heads;
    double width = (double)plan->head_width + (double)plan->value_width;
    double edges = (double)plan->n_edges * (double)plan->layer->spec.n_heads;
    double relations = plan->kv.data ? (double)plan->value_width : 0;
    return n_draws_of(plan) *
           (heads * pairs_of(plan) * (width + relations) + edges * width);
}

static double scores_cost(const attn_plan *plan)
{
    double entries = 1;
    for (size_t i = 0; i < plan->free.rank; i++) {
        entries *= (double)plan->free.shape[i];
    }
    double forward = entries * pairs_of(plan) * (double)plan->head_width;
    return plan->mode.gradient ? LINEAR_GRADIENT * forward : n_draws_of(plan) * forward;
}

double attn_plan_cost(const attn_plan *plan)
{
    if (plan->layer->spec.scores_only) {
        return scores_cost(plan);
    }
    double linear = projections_cost(plan), attention = attni_plan_attention_cost(plan);
    return plan->mode.gradient ? LINEAR_GRADIENT * linear + ATTENTION_GRADIENT * attention
                               : linear + attention;
}
