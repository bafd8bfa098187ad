/* budget.c - memory that all waiting bodies together may take. Any thread; takes no lock. */
#include "sched/budget.h"

void ad_budget_give(struct ad_budget *budget, atomic_size_t *share, size_t n)
{
    atomic_fetch_sub_explicit(share, n, memory_order_relaxed);
    atomic_fetch_sub_explicit(&budget->total, n, memory_order_relaxed);
}

bool ad_budget_take(struct ad_budget *budget, atomic_size_t *share, size_t n)
{
    /* Taken first and given back if that was too much: two that come together may both be refused,
     * but never both be let in where there is room for one. */
    size_t limit = budget->limit;
    if (n > limit) {
        return false;
    }
    size_t held = atomic_fetch_add_explicit(share, n, memory_order_relaxed) + n;
    size_t total = atomic_fetch_add_explicit(&budget->total, n, memory_order_relaxed) + n;
    if (total <= limit && held <= limit - total) {
        return true;
    }
    ad_budget_give(budget, share, n);
    return false;
}
