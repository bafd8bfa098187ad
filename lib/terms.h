/* terms.h - what is added to a row of scores, and to a row of results, beside the products. */
#ifndef ATTNI_TERMS_H
#define ATTNI_TERMS_H

#include "core.h"

/* Part of a row: a query of a head of a sample against keys [key, key + n_keys). */
struct attni_row {
    size_t batch, head, query;
    size_t key, n_keys;
    float *scores; /* of those keys; weights once the softmax has been there */
    float *slopes; /* of the clipped scores, to be filled in; NULL: not wanted */
    const float *
        edge_scores; /* what an edge of each type adds at each key, [types][a tile's keys];
                               * NULL: to be computed */
};

/* Whether scores of this plan are anything but scaled products. */
bool attni_terms_any(const attn_plan *plan);

/* Scale, clip, edges, dense relations and mask, in this order. *edge is where the row's edges of
 * these keys begin, or before. */
void attni_terms_scores(const struct attni_core *core, const struct attni_row *row,
                        const struct attni_edge **edge);

/* Add the value biases of edges and the dense value relations, each by its weight. */
void attni_terms_values(const struct attni_core *core, const struct attni_row *row,
                        const struct attni_edge *edge, float *out);

/* Which keys of the row the mask blocks: blocked[j] becomes -inf there and is 0 elsewhere. */
void attni_terms_mask(const struct attni_core *core, const struct attni_row *row,
                      float *blocked);

/* ---- backward ------------------------------------------------------------------------------ */

/* Add what a change of each weight does to the result through edges and dense relations: the products
 * of their values with the cotangent of the result. edge as in attni_terms_values. */
void attni_terms_weight_gradients(const struct attni_core *core,
                                  const struct attni_row *row,
                                  const struct attni_edge *edge, const float *cotangent,
                                  float *gradients);

/* Whether the mask blocks all of these keys for n_queries queries from row->query on. */
bool attni_terms_blocked(const struct attni_core *core, const struct attni_row *row,
                         size_t n_queries);

#endif
