/* back_edges.h - gradients of the tables of edges. */
#ifndef ATTNI_BACK_EDGES_H
#define ATTNI_BACK_EDGES_H

#include "back_core.h"

/* After the backward of attention: the gradients of both tables, times factor, NULL where one is not
 * wanted. Both start at 0. A task takes one head. */
struct attni_back_tables {
    const struct attni_back *back;
    float factor;
    float *bias, *value_bias;
};

size_t attni_back_tables_n_tasks(const struct attni_back_tables *tables);
void attni_back_tables_run(const struct attni_back_tables *tables, size_t task);

#endif
