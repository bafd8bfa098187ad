/* edges.c - check edges and sort them by query, once a forward, on the caller's thread. */
#include "edges.h"

#include "status.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Keys that edges may point at. Without queries no edge is right, and keys without a sample may be
 * any number at no cost to whoever sends them. */
static size_t reachable_keys(const attn_plan *plan)
{
    return plan->n_batch && plan->n_queries ? plan->n_keys : 0;
}

bool attni_edges_bytes(const attn_plan *plan, size_t bytes[4])
{
    size_t n_rows, n_keys;
    return attni_multiply(plan->n_batch, plan->n_queries, &n_rows) &&
           attni_add(n_rows, 1, &n_rows) &&
           attni_multiply(n_rows, sizeof(size_t), &bytes[0]) &&
           attni_multiply(plan->n_edges, sizeof(struct attni_edge), &bytes[1]) &&
           attni_add(reachable_keys(plan), 1, &n_keys) &&
           attni_multiply(n_keys, sizeof(size_t), &bytes[2]) &&
           attni_multiply(plan->n_edges, sizeof(size_t), &bytes[3]);
}

/* Element i of an I32 or I64 tensor at any alignment. */
static int64_t read_index(const struct attn_tensor *tensor, size_t i)
{
    if (tensor->dtype == ATTN_I32) {
        int32_t value;
        memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
        return value;
    }
    int64_t value;
    memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
    return value;
}

static enum attn_status check_index(const char *name, size_t row, const char *what,
                                    int64_t value, size_t size, struct attn_error *error)
{
    if (value >= 0 && (uint64_t)value < size) {
        return ATTN_OK;
    }
    return attni_fail(
        error, ATTN_RANGE, name,
        "input '%s': row %zu: expected %s of at least 0 and below %zu, got %" PRId64,
        name, row, what, size, value);
}

static enum attn_status check_edge(const attn_plan *plan, size_t row,
                                   struct attn_error *error)
{
    const struct attn_edge_spec *spec = &plan->layer->spec.edge;
    static const char *const what[] = {"a sample", "a source (query)", "a target (key)"};
    const size_t sizes[] = {plan->n_batch, plan->n_queries, plan->n_keys};
    for (size_t i = 0; i < 3; i++) {
        enum attn_status status = check_index(
            spec->edges, row, what[i],
            read_index(&plan->inputs[ATTNI_EDGES], 3 * row + i), sizes[i], error);
        if (status) {
            return status;
        }
    }
    return check_index(spec->types, row, "a type",
                       read_index(&plan->inputs[ATTNI_EDGE_TYPES], row), spec->n_types,
                       error);
}

/* The row of queries, over all samples, that edge `row` concerns. */
static size_t query_of(const attn_plan *plan, size_t row)
{
    const struct attn_tensor *edges = &plan->inputs[ATTNI_EDGES];
    return (size_t)read_index(edges, 3 * row) * plan->n_queries +
           (size_t)read_index(edges, 3 * row + 1);
}

static size_t key_of(const attn_plan *plan, size_t row)
{
    return (size_t)read_index(&plan->inputs[ATTNI_EDGES], 3 * row + 2);
}

/* From counts in starts[1..n] to where each bucket begins. */
static void accumulate(size_t *starts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        starts[i + 1] += starts[i];
    }
}

/* Two counting sorts, by key and then by query: linear in the edges, and stable, so that duplicates
 * keep their order and sums their bits. Each places from the back, moving the end of a bucket down
 * to its start. */
enum attn_status attni_edges_sort(const attn_plan *plan, struct attni_edges *edges,
                                  struct attn_error *error)
{
    size_t n_rows = plan->n_batch * plan->n_queries, n_keys = reachable_keys(plan);
    memset(edges->starts, 0, (n_rows + 1) * sizeof *edges->starts);
    memset(edges->key_starts, 0, (n_keys + 1) * sizeof *edges->key_starts);
    for (size_t row = 0; row < plan->n_edges; row++) {
        enum attn_status status = check_edge(plan, row, error);
        if (status) {
            return status;
        }
        edges->starts[query_of(plan, row) + 1]++;
        edges->key_starts[key_of(plan, row) + 1]++;
    }
    accumulate(edges->starts, n_rows);
    accumulate(edges->key_starts, n_keys);
    for (size_t row = plan->n_edges; row-- > 0;) {
        edges->by_key[--edges->key_starts[key_of(plan, row) + 1]] = row;
    }
    for (size_t i = plan->n_edges; i-- > 0;) {
        size_t row = edges->by_key[i];
        size_t place = --edges->starts[query_of(plan, row) + 1];
        edges->list[place] = (struct attni_edge){
            .key = key_of(plan, row),
            .type = (size_t)read_index(&plan->inputs[ATTNI_EDGE_TYPES], row)};
    }
    /* every start now stands one place too far on */
    memmove(edges->starts, edges->starts + 1, n_rows * sizeof *edges->starts);
    edges->starts[n_rows] = plan->n_edges;
    return ATTN_OK;
}
