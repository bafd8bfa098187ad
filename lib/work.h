/* work.h - one task of the core under way: rows of scores that become weights, and what is gathered of
 * them. A row is a query of a head; the rows of a task are the queries [first, first + n_queries) of
 * heads [head, head + n_heads) of one sample, head by head. Whoever multiplies (core.c, few.c) goes
 * tile by tile of keys: it sets key, n_keys, block, n_block and n_seen, fills scores, weighs them, adds
 * the weighted values to the results, and finishes. A task belongs to one thread. */
#ifndef ATTNI_WORK_H
#define ATTNI_WORK_H

#include "core.h"
#include "kernels/kernels.h"
#include "terms.h"

struct attni_work {
    const struct attni_core *core;
    const struct attni_kernels *kernels;
    const struct attni_tiles *tiles;
    size_t batch, head, n_heads, first, n_queries;
    size_t n;              /* rows */
    size_t key, n_keys;    /* the tile of keys */
    size_t block, n_block; /* rows [block, block + n_block) have scores */
    size_t n_seen;         /* keys of the tile that any row of the block sees */
    bool terms;            /* scores are more than scaled products */
    bool value_terms;      /* results are more than weighted values */
    bool wanted;           /* the results are */
    float
        *probabilities; /* of the first row, the next ones following; NULL: not wanted */
    float *scores;      /* [n_block][tiles->n_keys] */
    /* Rows of a head lie apart, which wastes a cache if they are read or written again and again: then
     * they are copied, [n][width]. Not with few queries. */
    const float *query;
    float *result;
    size_t query_row, result_row;
    float *copies[2];     /* memory for that, of queries and results */
    float *keys, *values; /* packed */
    float *edge_scores;   /* [types][tiles->n_keys]; NULL: edges are scored one by one */
    float *max, *sum;     /* [n] */
    const struct attni_edge *
        *edges; /* [n]: the first edge that may concern the next tile */
};

/* Take up the rows of heads [head, head + n_heads) and of one of the parts of their queries. */
void attni_work_start(struct attni_work *work, const struct attni_core *core,
                      size_t batch, size_t head, size_t n_heads, size_t part,
                      unsigned char *scratch);

/* Whether a part of the queries has nothing to do with the keys of this time, and has been taken up
 * before, and will be again. */
bool attni_work_is_idle(const struct attni_core *core, size_t part);

/* The end of the round's keys that any row of the task sees. */
size_t attni_work_bound(const struct attni_work *work);

/* Row `row` of a head's queries, keys or values. */
const float *attni_work_rows(const struct attni_work *work, const struct attni_rows *rows,
                             size_t head, size_t row);

/* Where the result of row i is gathered; NULL: it is not wanted. */
float *attni_work_result(const struct attni_work *work, size_t i);

/* Keys of the tile that row i may see: those before the causal bound. */
size_t attni_work_visible(const struct attni_work *work, size_t i);

/* Whether all keys of the tile are blocked for all rows of the block. */
bool attni_work_blocked(const struct attni_work *work);

/* Leave the tile out for the block: it is blocked or beyond the bound. */
void attni_work_skip(const struct attni_work *work);

/* From products to weights, for all rows of the block; what was gathered is multiplied down. */
void attni_work_weigh(const struct attni_work *work);

/* Results and probabilities, once all tiles are in; or what the next round of keys goes on with. */
void attni_work_finish(const struct attni_work *work);

#endif
