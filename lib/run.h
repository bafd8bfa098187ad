/* run.h - one call under way: what is spread over workers, and with which memory. */
#ifndef ATTNI_RUN_H
#define ATTNI_RUN_H

#include "core.h"
#include "linear.h"
#include "plan.h"
#include "post.h"

struct attni_run {
    const attn_plan *plan;
    const struct attn_parallel *parallel;
    unsigned char *scratch; /* the part that all workers share */
    unsigned char *workers; /* each worker's own, worker_bytes apart */
    size_t worker_bytes;
    float *
        out; /* what follows the joined heads, before the steps after them; NULL: not wanted */
    float *attention; /* NULL: not wanted */
    float *context;   /* what the heads give is to be kept here; NULL: it need not be */
    bool projected;   /* queries, keys and values are still there from an earlier draw */
    struct attni_core core;
};

/* Take up a call: align its scratch, check the draws that are given and sort the edges. */
enum attn_status attni_run_start(struct attni_run *run, const attn_plan *plan,
                                 const struct attn_parallel *parallel, void *scratch,
                                 struct attn_error *error) ATTN_MUST_CHECK;

/* Part `at` of the scratch that all workers share, and a worker's own. */
float *attni_run_floats(const struct attni_run *run, size_t at);
unsigned char *attni_run_worker(const struct attni_run *run, size_t worker);

/* Run every task once, inline where there are no workers. */
void attni_run_spread(const struct attn_parallel *parallel, size_t n_tasks,
                      attn_task *task, void *argument);

/* Products that are independent of each other, to be run together; which: of queries, keys or values (0,
 * 1, 2). */
struct attni_products {
    const struct attni_run *run;
    struct attni_product items[3];
    size_t which[3];
    size_t n_tasks[3];
    size_t n;
};

void attni_run_products(struct attni_products *list);

/* Its tasks, and one of them; scratch: attni_linear_scratch bytes. */
size_t attni_products_count(struct attni_products *list);
void attni_products_task(const struct attni_products *list, size_t task, void *scratch);

/* Everything up to the joined heads and their projection, in as many rounds as the plan says. */
void attni_run_attend(struct attni_run *run);

/* The same for a plan of one round, in pieces: make the core ready, and the list of what it needs to be
 * projected first; once the core's tasks have run, the product that gives the output: false where it is
 * not wanted, or is what the core has left. */
void attni_run_prepare(struct attni_run *run, struct attni_products *list);
bool attni_run_output(const struct attni_run *run, struct attni_product *product);

/* Once the rows of a call to a sequence that grows are stored, let the core read all that is kept. */
void attni_run_read_kept(struct attni_run *run);

/* Masked scores alone, into out. */
void attni_run_scores(struct attni_run *run);

/* A step after the heads on data, [samples, length, width], in place; statistics that it moves go to the
 * outputs that want them. draw: which of n_draws. */
struct attni_post_step {
    const struct attni_post *post;
    struct attni_post_data data;
};

struct attni_post_step attni_run_post_step(const attn_plan *plan,
                                           enum attni_post_owner owner, float *data,
                                           size_t draw, float *const *outputs);

/* Take it. */
void attni_run_post(const struct attni_run *run, enum attni_post_owner owner, float *data,
                    size_t draw, float *const *outputs);

/* Where the main output (0) or the probabilities (1) of a draw go; NULL: they are not wanted. */
float *attni_run_memory(const struct attni_run *run, size_t which, size_t draw,
                        float *const *outputs);

/* The draws of a step after the heads; draw: which of n_draws. */
struct attni_dropout attni_run_post_draws(const attn_plan *plan,
                                          enum attni_post_owner owner, size_t draw);

#endif
