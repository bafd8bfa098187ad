/* kernel_tables.h - what tests of kernels share: the tables that run here, arrays whose ends are
 * watched, sums in double precision and how far from them a sum of floats may be. */
#ifndef TESTS_UNIT_LIB_KERNEL_TABLES_H
#define TESTS_UNIT_LIB_KERNEL_TABLES_H

#include "kernels/kernels.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A function for every table that runs here, as a loop test. */
static inline void add_table_test(TCase *tcase, const TTest *test)
{
    int n = 0;
    while (attni_kernels_at((size_t)n)) {
        n++;
    }
    tcase_add_loop_test(tcase, test, 0, n);
}

/* ---- arrays -------------------------------------------------------------------------------- */

/* Floats before an array, and between its rows, that must stay as they are. */
#define UNTOUCHED (-12345.0f)
#define MARGIN 16

/* Memory that ends where touching anything faults: arrays are put at its end, at any multiple of a
 * float's size, so that reading or writing one element too many ends the test. */
struct arena {
    float *memory, *end;
    float *array; /* the present one */
};

/* An array of n floats, each UNTOUCHED. The arena's memory grows as needed and is never freed: a
 * test program keeps a handful. */
static inline float *arena_floats(struct arena *arena, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n_bytes = (n + MARGIN) * sizeof(float);
    if (!arena->memory || (size_t)(arena->end - arena->memory) < n + MARGIN) {
        size_t whole = (2 * n_bytes + page - 1) / page * page;
        unsigned char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(memory != MAP_FAILED);
        ck_assert_int_eq(mprotect(memory + whole, page, PROT_NONE), 0);
        arena->memory = (float *)(void *)memory;
        arena->end = (float *)(void *)(memory + whole);
    }
    arena->array = arena->end - n;
    for (size_t i = 0; i < n + MARGIN; i++) {
        arena->end[-1 - (ptrdiff_t)i] = UNTOUCHED;
    }
    return arena->array;
}

/* The same with numbers from -size to size. */
static inline float *arena_reals(struct arena *arena, struct dice *dice, size_t n,
                                 float size)
{
    float *array = arena_floats(arena, n);
    dice_fill(dice, array, n, size);
    return array;
}

static inline void check_untouched(const float *floats, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        same = same && floats[i] == UNTOUCHED;
    }
    ck_assert(same);
}

/* Nothing before the present array was written. */
static inline void check_margin(const struct arena *arena)
{
    check_untouched(arena->array - MARGIN, MARGIN);
}

/* ---- comparison ---------------------------------------------------------------------------- */

/* Equal to a double within a tolerance; NaN where it is NaN. */
static inline void check_near(const struct attni_kernels *table, float got,
                              double expected, double tolerance)
{
    bool near = isnan(expected) ? isnan(got)
                                : (double)got == expected ||
                                      fabs((double)got - expected) <= tolerance;
    if (!near) { /* an assertion that holds has its price too */
        ck_abort_msg("%s: expected %.9g, got %.9g", table->name, expected, (double)got);
    }
}

static inline void check_same(const struct attni_kernels *table, const float *got,
                              const float *expected, size_t n)
{
    if (memcmp(got, expected, n * sizeof *got) != 0) {
        ck_abort_msg("%s: bits differ", table->name);
    }
}

/* A sum of products, and the sum of their sizes. */
struct exact {
    double sum, size;
    size_t n;
};

static inline void exact_add(struct exact *exact, double term)
{
    exact->sum += term;
    exact->size += fabs(term);
    exact->n++;
}

/* A sum of n terms in floats, in any order, fused or not, is wrong by at most n + 1 roundings (of
 * 2^-24 each, 6e-8) of the sum of the terms' sizes; products below the normal range by a denormal
 * each. */
static inline void check_exact(const struct attni_kernels *table, float got,
                               const struct exact *exact)
{
    check_near(table, got, exact->sum,
               exact->size * (double)(exact->n + 1) * 6e-8 + (double)exact->n * 1.5e-45);
}

#endif
