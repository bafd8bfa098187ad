/* served.h - small models that last as long as the fuzzer, and a worker that serves requests to them, as
 * the daemon has them: what is made once need not be made for each input. */
#ifndef TESTS_FUZZ_SERVED_H
#define TESTS_FUZZ_SERVED_H

#include "unit/codec/serving.h"

#define N_SERVED 4

/* Borrowed. The first two have a binary form that all of its tensors fit. */
static inline struct ad_version *served_model(size_t which)
{
    static struct ad_version *(*const make[N_SERVED])(void) = {
        fixture_relational, fixture_growing, fixture_scores, fixture_causal};
    static struct ad_version *models[N_SERVED];
    if (!models[which]) {
        models[which] = make[which]();
    }
    return models[which];
}

/* Alone, with scratch that is kept between inputs. */
static inline struct ad_worker *served_worker(void)
{
    static struct ad_worker worker = {.team = {.n_workers = 1}};
    return &worker;
}

#endif
