/* back_edges.c - from the gradient of each edge's score and from its weight to those of the tables:
 *     d bias[type] = sum of ds * key (or ds * sum of key);  d value bias[type] = sum of weight * g
 * over the edges of that type, in their sorted order. Any thread; a task writes one head's columns. */
#include "back_edges.h"

#include "kernels/kernels.h"

size_t attni_back_tables_n_tasks(const struct attni_back_tables *tables)
{
    const attn_plan *plan = tables->back->core->plan;
    return plan->n_edges && (tables->bias || tables->value_bias)
               ? plan->layer->spec.n_heads
               : 0;
}

static void add_bias(const struct attni_back_tables *tables, size_t head, size_t batch,
                     const struct attni_edge *edge)
{
    const struct attni_core *core = tables->back->core;
    const attn_plan *plan = core->plan;
    size_t n_heads = plan->layer->spec.n_heads, width = plan->head_width;
    const float *key = attni_row_at(&core->key, batch, head, edge->key);
    size_t at = (size_t)(edge - core->edges.list) * n_heads + head;
    float gradient = tables->factor * tables->back->edge_scores[at];
    float *out = tables->bias;
    if (plan->layer->spec.edge.scalar) {
        out[edge->type * n_heads + head] +=
            gradient * attni_kernels()->sum_f32(width, key);
        return;
    }
    attni_kernels()->weighted_sum_f32(1, width, &gradient, key, 0,
                                      out + (edge->type * n_heads + head) * width);
}

static void add_value_bias(const struct attni_back_tables *tables, size_t head,
                           size_t row, const struct attni_edge *edge)
{
    const struct attni_core *core = tables->back->core;
    size_t n_heads = core->plan->layer->spec.n_heads, width = core->plan->value_width;
    size_t at = (size_t)(edge - core->edges.list) * n_heads + head;
    float weight = tables->factor * tables->back->edge_weights[at];
    attni_kernels()->weighted_sum_f32(
        1, width, &weight, tables->back->cotangent + (row * n_heads + head) * width, 0,
        tables->value_bias + (edge->type * n_heads + head) * width);
}

void attni_back_tables_run(const struct attni_back_tables *tables, size_t task)
{
    const struct attni_core *core = tables->back->core;
    const attn_plan *plan = core->plan;
    for (size_t row = 0; row < plan->n_batch * plan->n_queries; row++) {
        for (size_t i = core->edges.starts[row]; i < core->edges.starts[row + 1]; i++) {
            const struct attni_edge *edge = &core->edges.list[i];
            if (tables->bias) {
                add_bias(tables, task, row / plan->n_queries, edge);
            }
            if (tables->value_bias && tables->back->results) {
                add_value_bias(tables, task, row, edge);
            }
        }
    }
}
