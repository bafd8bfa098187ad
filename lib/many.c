/* many.c - forward many plans of one layer. Belongs to the caller's thread; tasks run on any. */
#include "plan.h"

#include <assert.h>

bool attn_plan_joins(const attn_plan *plan)
{
    return !plan->mode.gradient && plan->mode.n_draws == 0 &&
           !plan->layer->spec.scores_only;
}

enum attn_status attn_many_scratch(const attn_plan *const *plans, size_t n_plans,
                                   size_t n_workers, size_t *n_bytes)
{
    size_t most = 0;
    for (size_t i = 0; i < n_plans; i++) {
        size_t bytes;
        enum attn_status status = attn_plan_scratch(plans[i], n_workers, &bytes);
        if (status) {
            return status;
        }
        most = bytes > most ? bytes : most;
    }
    *n_bytes = most;
    return n_workers == 0 ? ATTN_INVALID : ATTN_OK;
}

void attn_forward_many(const attn_plan *const *plans, size_t n_plans,
                       float *const *const *outputs, void *scratch,
                       const struct attn_parallel *parallel, struct attn_error *errors)
{
    for (size_t i = 0; i < n_plans; i++) {
        assert(attn_plan_joins(plans[i]) && plans[i]->layer == plans[0]->layer);
        enum attn_status status =
            attn_forward(plans[i], outputs[i], scratch, parallel, &errors[i]);
        assert(status == errors[i].status);
        (void)status;
    }
}
