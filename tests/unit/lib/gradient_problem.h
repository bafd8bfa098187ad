/* gradient_problem.h - one layer, one call, and the gradients that must come out: as derivatives of the
 * formulas, which must agree with central differences of the same formulas. */
#ifndef TESTS_UNIT_LIB_GRADIENT_PROBLEM_H
#define TESTS_UNIT_LIB_GRADIENT_PROBLEM_H

#include "unit/lib/random_call.h"
#include "unit/lib/run_mode.h"
#include "unit/lib/whole_make.h"

/* Of the largest gradient of a tensor, or of LEAST: a gradient is a float sum of products of floats
 * that are right to about 1e-6 of what they are made of, which may be larger than itself. A
 * normalisation magnifies what it is given. */
#define TOLERANCE 2e-5
#define LEAST 0.1

/* Derivatives against differences, both in double: a difference is wrong by the square of its step
 * times the third derivative, and by rounding over the step. */
#define DIFFERENCE_TOLERANCE 1e-6

struct problem {
    struct dice dice;
    struct attn_spec spec;
    struct made made;
    struct call call;
    struct whole whole;
    struct attn_mode mode;
};

/* The layer of p->spec and, with its inputs there, the formulas. */
static inline void problem_make(struct problem *p)
{
    p->made = make_layer(&p->spec, &p->dice);
    p->mode = (struct attn_mode){
        .size = sizeof p->mode, .gradient = true, .reduction = ATTN_REDUCTION_SUM};
}

static inline void problem_pose(struct problem *p, unsigned cotangents)
{
    whole_make(&p->whole, &p->spec, &p->made, &p->call);
    add_cotangents(&p->whole, &p->call, &p->dice, cotangents);
}

static inline void problem_free(struct problem *p)
{
    whole_free(&p->whole);
    made_free(&p->made);
    call_free(&p->call);
}

/* The leaf that an output is the gradient of. */
static inline struct leaf *leaf_of(struct problem *p, const char *output)
{
    bool parameter = strncmp(output, "grad.", 5) == 0;
    ck_assert_msg(parameter || strncmp(output, "grad_", 5) == 0, "%s", output);
    struct leaf *leaf = whole_leaf(&p->whole, output + 5);
    ck_assert_msg(leaf && leaf->parameter == parameter, "%s", output);
    return leaf;
}

/* What the reduction makes of the sum over the samples. */
static inline double factor_of(const struct problem *p, const struct leaf *leaf)
{
    enum attn_reduction reduction = p->mode.reduction;
    bool mean = reduction == ATTN_REDUCTION_MEAN ||
                (reduction == ATTN_REDUCTION_DEFAULT && p->spec.gradient_mean);
    return !mean || !leaf->parameter ? 1
           : leaf->frozen            ? 0
                                     : 1 / (double)p->whole.o.n_batch;
}

/* Every gradient that comes unasked against the derivatives. */
static inline void check_gradients(struct problem *p, const struct outcome *outcome)
{
    double tolerance = TOLERANCE * whole_magnified(&p->whole);
    size_t n_learned = 0, n_given = 0;
    for (size_t i = 0; i < outcome->n; i++) {
        struct leaf *leaf = leaf_of(p, outcome->names[i]);
        ck_assert_uint_eq(count_of(&outcome->tensors[i]), leaf->n);
        check_close(outcome->names[i], outcome->values[i], leaf->slope, leaf->n,
                    factor_of(p, leaf), tolerance, LEAST);
    }
    for (size_t i = 0; i < p->whole.n_leaves; i++) {
        n_learned += !strstr(p->whole.leaves[i].name, ".running_");
    }
    for (size_t i = 0; i < p->call.n; i++) {
        n_given += p->call.inputs[i].tensor.dtype == ATTN_F32 &&
                   !strstr(p->call.inputs[i].name, "grad_") &&
                   !strstr(p->call.inputs[i].name, "_uniform");
    }
    ck_assert_uint_eq(outcome->n, n_learned);
    ck_assert_uint_le(n_given, n_learned);
}

/* Derivatives, and what the library gave, against differences: at most `most` elements of each tensor. */
static inline void check_differences(struct problem *p, const struct outcome *outcome,
                                     size_t most)
{
    double magnified = whole_magnified(&p->whole);
    for (size_t i = 0; i < outcome->n; i++) {
        struct leaf *leaf = leaf_of(p, outcome->names[i]);
        double largest = LEAST;
        for (size_t k = 0; k < leaf->n; k++) {
            largest =
                isfinite(leaf->slope[k]) ? fmax(largest, fabs(leaf->slope[k])) : largest;
        }
        size_t step = 1 + leaf->n / most;
        for (size_t k = dice_below(&p->dice, step); k < leaf->n; k += step) {
            double slope = leaf->slope[k], factor = factor_of(p, leaf),
                   difference = whole_difference(&p->whole, leaf, k);
            if (isnan(slope) || isnan(difference)) {
                continue;
            }
            double off = fabs(slope - difference) / largest,
                   far = fabs((double)outcome->values[i][k] - difference * factor) /
                         largest;
            if (off > DIFFERENCE_TOLERANCE * pow(magnified, 3) ||
                far > (TOLERANCE + DIFFERENCE_TOLERANCE) * pow(magnified, 3)) {
                ck_abort_msg("%s[%zu]: difference %.9g, derivative %.9g, got %.9g",
                             outcome->names[i], k, difference, slope,
                             (double)outcome->values[i][k]);
            }
        }
    }
}

/* Run, compare with derivatives and, at most so many elements of each tensor, differences; then in the
 * other ways, for the same bits. */
static inline void check_problem(struct problem *p, size_t n_differences)
{
    whole_backward(&p->whole);
    struct outcome outcome = run_mode(p->made.layer, &p->mode, &p->call, NULL, 0, INLINE);
    check_gradients(p, &outcome);
    if (n_differences > 0) {
        check_differences(p, &outcome, n_differences);
    }
    check_ways(p->made.layer, &p->mode, &p->call, NULL, 0, &outcome);
    outcome_free(&outcome);
}

#endif
