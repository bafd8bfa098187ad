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

/* Elements of a shape; false when that overflows. A 0 anywhere makes it 0. */
bool attni_count(const size_t *shape, size_t rank, size_t *n);

/* "[2, 3]" for messages. */
struct attni_text {
    char text[160];
};
struct attni_text attni_shape_text(const size_t *shape, size_t rank);

#endif
