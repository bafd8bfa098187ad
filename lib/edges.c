/* edges.c - check edges and sort them by query, once a forward, on the caller's thread. */
#include "edges.h"

#include "status.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

bool attni_edges_bytes(const attn_plan *plan, size_t *starts_bytes, size_t *list_bytes)
{
    size_t n_rows;
    return attni_multiply(plan->n_batch, plan->n_queries, &n_rows) &&
           attni_add(n_rows, 1, &n_rows) &&
           attni_multiply(n_rows, sizeof(size_t), starts_bytes) &&
           attni_multiply(plan->n_edges, sizeof(struct attni_edge), list_bytes);
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

/* A counting sort, so that edges of one query keep their order and sums their bits. */
enum attn_status attni_edges_sort(const attn_plan *plan, struct attni_edges *edges,
                                  struct attn_error *error)
{
    size_t n_rows = plan->n_batch * plan->n_queries;
    memset(edges->starts, 0, (n_rows + 1) * sizeof *edges->starts);
    for (size_t row = 0; row < plan->n_edges; row++) {
        enum attn_status status = check_edge(plan, row, error);
        if (status) {
            return status;
        }
        edges->starts[query_of(plan, row) + 1]++;
    }
    for (size_t i = 0; i < n_rows; i++) {
        edges->starts[i + 1] += edges->starts[i];
    }
    /* place from the back, moving each query's end down to its start: starts ends up shifted by
     * one, which is where it has to be */
    for (size_t row = plan->n_edges; row-- > 0;) {
        size_t place = --edges->starts[query_of(plan, row) + 1];
        edges->list[place] = (struct attni_edge){
            .key = (size_t)read_index(&plan->inputs[ATTNI_EDGES], 3 * row + 2),
            .type = (size_t)read_index(&plan->inputs[ATTNI_EDGE_TYPES], row)};
    }
    memmove(edges->starts, edges->starts + 1, n_rows * sizeof *edges->starts);
    edges->starts[n_rows] = plan->n_edges;
    return ATTN_OK;
}
