/* edges.h - sparse relations, checked and sorted by the query that they concern. */
#ifndef ATTNI_EDGES_H
#define ATTNI_EDGES_H

#include "plan.h"

struct attni_edge {
    size_t key;  /* row of the keys */
    size_t type; /* row of the bias tables */
};

/* Edges of query q of sample b: list[starts[i]] to list[starts[i + 1]] with i = b * n_queries + q,
 * by key, duplicates in the order given. */
struct attni_edges {
    size_t *starts; /* n_batch * n_queries + 1 */
    struct attni_edge *list;
    size_t *key_starts; /* n_keys + 1, for the sort */
    size_t *by_key;     /* one an edge, for the sort */
};

/* Bytes of scratch for the four arrays, in the order of the struct; false when that overflows. */
bool attni_edges_bytes(const attn_plan *plan, size_t bytes[4]);

/* Check every edge and sort all into the given memory. ATTN_RANGE names the row. */
enum attn_status attni_edges_sort(const attn_plan *plan, struct attni_edges *edges,
                                  struct attn_error *error) ATTN_MUST_CHECK;

#endif
