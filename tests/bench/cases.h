/* cases.h - what is measured, as cases.txt lists it. */
#ifndef TESTS_BENCH_CASES_H
#define TESTS_BENCH_CASES_H

#include <stdbool.h>
#include <stddef.h>

enum mode {
    MODE_SELF,  /* one input */
    MODE_CROSS, /* keys and values are projected from a memory of their own */
    MODE_GIVEN, /* keys and values come projected */
    MODE_CORE   /* everything comes projected */
};

enum mask { MASK_NONE, MASK_KEY, MASK_CAUSAL };

struct bench_case {
    char id[32];
    char layer[32]; /* "plain", or a preset */
    size_t n_batch, n_queries, n_keys, width, n_heads;
    enum mode mode;
    enum mask mask;
};

/* Edges a sample of the relational layer, and types of them. */
#define EDGES_PER_SAMPLE 2048
#define EDGE_TYPES 16

/* Find a case by its id in the file; false when there is none. Ends the program when the file
 * cannot be read or a line of it makes no sense. */
bool case_find(const char *path, const char *id, struct bench_case *found);

/* Which projections the case has; a relational layer has an output projection alone. */
bool case_projects_query(const struct bench_case *c);
bool case_projects_memory(const struct bench_case *c);
bool case_projects_output(const struct bench_case *c);

/* Print a message and end the program: a bench that cannot measure says so. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
