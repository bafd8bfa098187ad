/* core.h - attention itself: scores, every term that changes them, softmax, values. One for all
 * layers. */
#ifndef ATTNI_CORE_H
#define ATTNI_CORE_H

#include "dropout.h"
#include "edges.h"
#include "plan.h"

/* What the core works on: projected rows, and where its results go. */
struct attni_core {
    const attn_plan *plan;
    struct attni_rows query, key, value;
    struct attni_edges edges; /* of no use when the plan has none */
    struct {
        float *data; /* NULL: not wanted */
        size_t batch, row, head, first;
    } context;                /* results, laid out as attni_rows */
    float *probabilities;     /* [score batch, heads, queries, keys]; NULL: not wanted */
    size_t first, n_samples;  /* samples of this round */
    size_t first_key, n_keys; /* keys that are attended to now */
    float *max,
        *sum;   /* [round's samples, heads, queries], while not all keys are in; of no use
                       * where they are at once */
    bool drops; /* weights are dropped by these draws */
    struct attni_dropout dropout;
    /* [batch, heads, queries]: the greatest score of each row, and what turns exp(score - greatest) into
     * probabilities (0 or NaN for a row without open keys), for a backward; NULL: not wanted */
    float *row_max, *row_factor;
};

/* Independent tasks of a round (a tile of queries of one head of one sample), costly ones first, and
 * one of them. scratch is a worker's, aligned to 64. */
size_t attni_core_n_tasks(const struct attni_core *core);
void attni_core_run(const struct attni_core *core, size_t task, unsigned char *scratch);

/* The same for one head of one sample. */
size_t attni_core_head_n_tasks(const struct attni_core *core);
void attni_core_head_run(const struct attni_core *core, size_t batch, size_t head,
                         size_t task, unsigned char *scratch);

#endif
