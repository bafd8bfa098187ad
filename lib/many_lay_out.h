/* many_lay_out.h - what plans that are forwarded together share, and where everything lies. */
#ifndef ATTNI_MANY_LAY_OUT_H
#define ATTNI_MANY_LAY_OUT_H

#include "run.h"

/* What rows are of: queries, keys, values, and what the heads give. */
enum { ATTNI_OF_HEADS = 3, ATTNI_N_ROWS };

/* A plan under way, or what gathered plans have in common. */
struct attni_joined {
    struct attni_run run;
    size_t index; /* among the caller's plans */
    bool gathered;
    size_t first[ATTNI_N_ROWS];     /* where its rows are among the gathered ones */
    struct attni_products products; /* of queries, keys and values */
    struct attni_products output;
    struct attni_post_step post;
    size_t n_tasks, n_bundles; /* of the stage: small tasks are taken together */
};

/* Places in scratch, in bytes from its start. */
struct attni_many_places {
    size_t n_joined; /* plans that do not run by themselves */
    bool gathers;    /* some of them gather their rows */
    size_t n_rows[ATTNI_N_ROWS];
    size_t joined_at;  /* n_joined + 1 struct attni_joined */
    size_t starts_at;  /* as many size_t */
    size_t rows_at[3]; /* gathered, as they came */
    size_t products_at[3];
    size_t context_at, output_at;
    size_t own_at; /* of plan after plan */
    size_t shared_bytes, worker_bytes;
    bool overflow;
};

/* n_plans > 0 */
void attni_many_lay_out(const attn_plan *const *plans, size_t n_plans,
                        struct attni_many_places *places);

/* Whether a plan runs by itself: it takes several rounds, or its tasks would be long. */
bool attni_many_goes_alone(const attn_plan *plan);

/* Whether a plan gathers its rows, and the bytes that it has of its own in the shared part. */
bool attni_many_gathers(const struct attni_many_places *places, const attn_plan *plan);
size_t attni_many_own_bytes(const struct attni_many_places *places,
                            const attn_plan *plan);

#endif
