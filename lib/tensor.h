/* tensor.h - sizes that cannot overflow, and shapes as text. */
#ifndef ATTNI_TENSOR_H
#define ATTNI_TENSOR_H

#include "attention.h"

/* *product = a * b, or *sum = a + b; false when that overflows size_t. */
static inline bool attni_multiply(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool attni_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* Into how many parts of at most `most` n is cut, and where even part `part` of them begins. */
static inline size_t attni_parts(size_t n, size_t most)
{
    return n / most + (n % most != 0);
}

static inline size_t attni_part_start(size_t n, size_t n_parts, size_t part)
{
    return n / n_parts * part + n % n_parts * part / n_parts;
}

/* Elements of a shape; false when that overflows. A 0 anywhere makes it 0. */
bool attni_count(const size_t *shape, size_t rank, size_t *n);

/* "[2, 3]" for messages. */
struct attni_text {
    char text[160];
};
struct attni_text attni_shape_text(const size_t *shape, size_t rank);

#endif
