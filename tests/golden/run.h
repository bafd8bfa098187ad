/* run.h - compute one golden case through the public C API, in one of several ways. */
#ifndef TESTS_GOLDEN_RUN_H
#define TESTS_GOLDEN_RUN_H

#include "attention.h"
#include "golden/case.h"
#include "golden/guarded.h"

#include <stdbool.h>
#include <stddef.h>

/* How a case is run. */
struct variant {
    const char *name;
    bool parallel;   /* on three threads */
    bool misaligned; /* memory at no better address than its elements need */
    bool reversed;   /* outputs asked for in the opposite order */
    bool lean;       /* no output asked for by name: those that are not optional */
};

/* What one run gave; outputs in the pass's order. Reset it when done. */
struct result {
    struct attn_error error; /* of the refusal, if it was refused */
    char names[ATTN_MAX_PORTS][ATTN_NAME_SIZE];
    struct attn_tensor outputs[ATTN_MAX_PORTS]; /* data is that of memory */
    struct guarded memory[ATTN_MAX_PORTS];
    size_t n_outputs;
    char problem[512]; /* "": the library kept its promises */
};

/* ATTN_OK, or how the library refused this pass of the case. */
enum attn_status case_run(const struct test_case *c, const struct pass *pass,
                          const struct variant *v, struct result *result);

void result_reset(struct result *result);

#endif
