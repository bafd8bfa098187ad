/* linear_problem.h - projections with the results that they should have, in double precision. */
#ifndef TESTS_UNIT_LIB_LINEAR_PROBLEM_H
#define TESTS_UNIT_LIB_LINEAR_PROBLEM_H

#include "linear.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct problem {
    struct attni_linear linear; /* its weight is `stored` */
    size_t n_rows;
    float *weight, *stored, *bias, *x, *y;
    double *expected, *size; /* of each y: its value, and the sum of its terms' sizes */
};

/* What a projection multiplies: bf16 has 8 binary digits, the nearest and, of two, the even one. */
static inline double multiplied(const struct attni_linear *linear, float x)
{
    if (!linear->bf16 || !isfinite(x) || x == 0) {
        return (double)x;
    }
    int exponent;
    double digits = rint(ldexp(frexp((double)x, &exponent), 8));
    return ldexp(digits, exponent - 8);
}

static inline void solve(struct problem *p)
{
    const struct attni_linear *l = &p->linear;
    for (size_t r = 0; r < p->n_rows; r++) {
        for (size_t o = 0; o < l->n_out; o++) {
            double sum = l->bias ? (double)p->bias[o] : 0, size = fabs(sum);
            for (size_t i = 0; i < l->n_in; i++) {
                size_t at = l->in_out ? i * l->n_out + o : o * l->n_in + i;
                double term =
                    multiplied(l, p->weight[at]) * multiplied(l, p->x[r * l->n_in + i]);
                sum += term;
                size += fabs(term);
            }
            p->expected[r * l->n_out + o] = sum;
            p->size[r * l->n_out + o] = size;
        }
    }
}

/* Every array starts one float past an aligned address. */
static inline float *odd_floats(struct dice *dice, size_t n)
{
    float *memory = need_memory((n + 1) * sizeof *memory);
    dice_fill(dice, memory, n + 1, 1);
    return memory + 1;
}

enum flags { IN_OUT = 1, BIAS = 2, BF16 = 4 };

static inline struct problem make_problem(struct dice *dice, size_t n_rows, size_t n_in,
                                          size_t n_out, unsigned flags)
{
    struct problem p = {.n_rows = n_rows,
                        .weight = odd_floats(dice, n_in * n_out),
                        .bias = odd_floats(dice, n_out),
                        .x = odd_floats(dice, n_rows * n_in),
                        .y = odd_floats(dice, n_rows * n_out),
                        .expected = need_memory(n_rows * n_out * sizeof(double)),
                        .size = need_memory(n_rows * n_out * sizeof(double))};
    p.linear = (struct attni_linear){.bias = flags & BIAS ? p.bias : NULL,
                                     .n_in = n_in,
                                     .n_out = n_out,
                                     .in_out = flags & IN_OUT,
                                     .bf16 = flags & BF16};
    size_t n_floats = 0;
    ck_assert(attni_linear_floats(n_in, n_out, p.linear.bf16, &n_floats));
    p.stored = odd_floats(dice, n_floats);
    attni_linear_store(&p.linear, p.weight, p.stored);
    p.linear.weight = p.stored;
    solve(&p);
    return p;
}

/* All tasks, from the last to the first. What the memory held before must not matter, were it NaN. */
static inline void apply(const struct problem *p, float *y)
{
    for (size_t i = 0; i < p->n_rows * p->linear.n_out; i++) {
        y[i] = NAN;
    }
    struct attni_product product = attni_product_of(&p->linear, p->n_rows, p->x, y);
    size_t n_bytes = 0;
    ck_assert(attni_linear_scratch(&p->linear, false, &n_bytes));
    void *scratch = attn_alloc(n_bytes);
    for (size_t task = attni_linear_n_tasks(&product); task-- > 0;) {
        attni_linear_run(&product, task, scratch);
    }
    attn_free(scratch);
}

static inline void problem_free(struct problem *p)
{
    free(p->weight - 1);
    free(p->stored - 1);
    free(p->bias - 1);
    free(p->x - 1);
    free(p->y - 1);
    free(p->expected);
    free(p->size);
}

/* A float sum of n terms in any order is off by less than n roundings of the sum of their sizes. */
static inline bool is_right(const struct problem *p, const float *y)
{
    bool right = true;
    for (size_t i = 0; i < p->n_rows * p->linear.n_out; i++) {
        double tolerance = p->size[i] * (double)(p->linear.n_in + 1) * 6e-8;
        right = right && fabs((double)y[i] - p->expected[i]) <= tolerance;
    }
    return right;
}

#endif
