/* kernel_choice.h - one table of kernels after the other in one process, and what comes of each.
 *
 * The program is linked with --wrap=attni_kernels, so that whoever asks for the table gets the one that is
 * chosen here. */
#ifndef TESTS_FUZZ_KERNEL_CHOICE_H
#define TESTS_FUZZ_KERNEL_CHOICE_H

#include "attention.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Sums of numbers below 1 in another order differ by a millionth of the largest; what follows them, as a
 * division by a small variance, makes that more. A fault in a kernel is of the size of the numbers. */
#define TOLERANCE 1e-2
#define TOLERANCE_BF16 \
    0.1 /* such a difference may round an activation to the next of 256 */
#define MOST_COMPARED 1e4 /* what is larger was divided by next to nothing */

static const struct attni_kernels *kernels_chosen;

/* Names are the linker's. */
const struct attni_kernels *__wrap_attni_kernels(void);
const struct attni_kernels *__wrap_attni_kernels(void)
{
    return kernels_chosen;
}

/* False: there is none of that index that runs here. */
static inline bool kernels_choose(size_t index)
{
    kernels_chosen = attni_kernels_at(index);
    return kernels_chosen != NULL;
}

/* What a call gave. {0}: it was not run. */
struct results {
    enum attn_status status;
    bool tame;        /* can be compared */
    double tolerance; /* relative to the largest number of an output, 1 at least */
    size_t n;
    unsigned char *data[ATTN_MAX_PORTS];
    size_t n_bytes[ATTN_MAX_PORTS];
};

/* Takes data over. */
static inline void results_add(struct results *results, unsigned char *data,
                               size_t n_bytes)
{
    results->data[results->n] = data;
    results->n_bytes[results->n++] = n_bytes;
}

static inline void results_reset(struct results *results)
{
    while (results->n > 0) {
        free(results->data[--results->n]);
    }
}

/* The largest number; infinity where there is a NaN. */
static inline double results_largest(const float *numbers, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double size = isnan(numbers[i]) ? (double)INFINITY : fabs((double)numbers[i]);
        largest = size > largest ? size : largest;
    }
    return largest;
}

static inline void results_compare_output(const struct results *plain,
                                          const struct results *other, size_t at)
{
    const float *a = (const float *)(const void *)plain->data[at];
    const float *b = (const float *)(const void *)other->data[at];
    size_t n = plain->n_bytes[at] / sizeof *a;
    double largest = results_largest(a, n);
    if (!(largest <= MOST_COMPARED)) {
        return;
    }
    double most = plain->tolerance * (largest > 1 ? largest : 1);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)a[i] - (double)b[i]) <= most)) {
            fprintf(stderr, "output %zu, element %zu of %zu: %g, but %g with %s\n", at, i,
                    n, (double)a[i], (double)b[i], kernels_chosen->name);
            abort();
        }
    }
}

static inline void results_compare(const struct results *plain,
                                   const struct results *other)
{
    if (plain->n != other->n || plain->status != other->status) {
        fprintf(stderr, "another status with %s\n", kernels_chosen->name);
        abort();
    }
    for (size_t i = 0; plain->tame && !plain->status && i < plain->n; i++) {
        if (plain->n_bytes[i] != other->n_bytes[i]) {
            abort();
        }
        results_compare_output(plain, other, i);
    }
}

#endif
