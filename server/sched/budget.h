/* budget.h - memory that all waiting bodies together may take.
 *
 * A model may hold as much as it leaves free. So one that is flooded takes half at the most, two a
 * third each, and whoever comes next still finds room; all together never pass the limit. Any thread;
 * takes no lock. */
#ifndef AD_SCHED_BUDGET_H
#define AD_SCHED_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ad_budget {
    size_t limit; /* immutable */
    atomic_size_t total;
};

/* n bytes more for the holder of `share`. False: not now; nothing is taken. */
bool ad_budget_take(struct ad_budget *budget, atomic_size_t *share, size_t n);
void ad_budget_give(struct ad_budget *budget, atomic_size_t *share, size_t n);

#endif
