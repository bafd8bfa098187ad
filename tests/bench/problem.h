/* problem.h - the numbers of one case: inputs and weights, made up. */
#ifndef TESTS_BENCH_PROBLEM_H
#define TESTS_BENCH_PROBLEM_H

#include "bench/cases.h"

#include <stdint.h>

/* A square map of the case's width: y = x W^T + b. weight NULL: none; bias NULL: zero. */
struct map {
    float *weight; /* [out, in] */
    float *bias;
};

struct problem {
    struct bench_case c;
    float scale;
    float *query;          /* [B, Q, D] */
    float *key, *value;    /* [B, K, D]; may be one and the same, or the query */
    unsigned char *blocks; /* [B, K], 1: blocked; NULL: no mask */
    unsigned char *keeps;  /* the same, said the other way round */
    struct map query_map, key_map, value_map, output_map;

    /* Relations; n_edges 0: none. Sorted by sample. */
    size_t n_edges;
    int64_t *edges;         /* [n_edges, 3]: sample, query, key */
    int64_t *types;         /* [n_edges] */
    float *edge_bias;       /* [EDGE_TYPES, D] */
    float *edge_value_bias; /* [EDGE_TYPES, D] */
};

struct problem *problem_create(const struct bench_case *c);
void problem_free(struct problem *problem);

/* Bytes of all inputs and weights: what a forward has to read at least once. */
size_t problem_bytes(const struct problem *problem);

/* Aligned memory that has been touched, or the end of the program. Freed with free. */
void *bench_memory(size_t n_bytes);

#endif
