/* dropout.h - which elements of a tensor are dropped, and what the others are multiplied by.
 *
 * Draws are numbers in [0, 1), given or made from a seed; an element is kept where its draw is below
 * 1 - probability. A made draw depends on the seed, the stream and the element's position and on
 * nothing else: not on instruction set, threads, tiles or what else a batch holds. */
#ifndef ATTNI_DROPOUT_H
#define ATTNI_DROPOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What draws are for: each has draws of its own. */
enum attni_stream {
    ATTNI_DRAW_PROBABILITIES, /* [samples, heads, queries, keys] */
    ATTNI_DRAW_NORMALISATION, /* [samples, length, width], as head 0 */
    ATTNI_DRAW_ACTIVATION     /* the same */
};

/* The draws of one tensor, and what they decide. */
struct attni_dropout {
    double probability; /* to be dropped: 0 to 1 */
    uint64_t seed;
    enum attni_stream stream;
    const float
        *uniform; /* draws that were given, or NULL: they are made from the seed */
    size_t sample, head, row; /* strides of uniform, in floats */
};

/* factors[j] = 0 where element (sample, head, row, first + j) is dropped, else 1 / (1 - probability),
 * for j < n. Head below 2^24, sample and row below 2^32, columns below 2^34: beyond, draws repeat.
 * Any thread. */
void attni_dropout_factors(const struct attni_dropout *dropout, size_t sample,
                           size_t head, size_t row, size_t first, size_t n,
                           float *factors);

/* x[j] *= the factor of element (sample, head, row, first + j), for j < n. */
void attni_dropout_apply(const struct attni_dropout *dropout, size_t sample, size_t head,
                         size_t row, size_t first, size_t n, float *x);

/* Whether all n given draws are in [0, 1); *bad is the first that is not (NaN is not). */
bool attni_dropout_check(const float *uniform, size_t n, size_t *bad);

#endif
