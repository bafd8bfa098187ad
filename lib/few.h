/* few.h - attention of a few queries: bound by how fast keys and values are read, as they lie. */
#ifndef ATTNI_FEW_H
#define ATTNI_FEW_H

#include "core.h"

/* All heads of samples [first, last), or heads [head, head + n_heads) of one. One thread. */
void attni_few_samples(const struct attni_core *core, size_t first, size_t last,
                       unsigned char *scratch);
void attni_few_heads(const struct attni_core *core, size_t batch, size_t head,
                     size_t n_heads, unsigned char *scratch);

#endif
