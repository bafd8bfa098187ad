/* ours.h - a case computed by the library, through its public header alone. */
#ifndef TESTS_BENCH_OURS_H
#define TESTS_BENCH_OURS_H

#include "attention.h"
#include "bench/problem.h"

struct ours;

/* A layer of the problem's weights, kept as weights_dtype says, and a plan of its inputs. parallel:
 * NULL for one thread; it and the problem must outlive the result. */
struct ours *ours_create(const struct problem *problem, enum attn_store weights_dtype,
                         const struct attn_parallel *parallel);
void ours_free(struct ours *ours);

/* The same for all gradients of its inputs and parameters, with a made-up gradient of the result. */
struct ours *ours_create_gradients(const struct problem *problem,
                                   const struct attn_parallel *parallel);

/* Bytes of scratch of the plan; take them, and write to them where touch is set. */
size_t ours_scratch_bytes(const struct ours *ours);
void ours_take_scratch(struct ours *ours, bool touch);

/* One forward into out, [B, Q, D]; the scratch must have been taken. */
void ours_run(struct ours *ours, float *out);

/* All gradients; the scratch must have been taken. */
void ours_run_gradients(struct ours *ours);

/* How far the gradients of the last run are from what they predict: how fast
 * sum(made-up gradient * result) grows when every input and parameter moves along its gradient. As a
 * share of that. */
double ours_gradients_error(const struct ours *ours);

/* Check the inputs and lay the forward out again, as a caller does for inputs of other shapes. */
void ours_plan_again(void *ours);

#endif
