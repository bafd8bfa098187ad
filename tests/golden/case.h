/* case.h - one golden case: what it is and the tensors that come with it. */
#ifndef TESTS_GOLDEN_CASE_H
#define TESTS_GOLDEN_CASE_H

#include "attention.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What a pass of the case must do; EXPECT_NOTHING: the case has no such pass. */
enum expectation { EXPECT_SERVED, EXPECT_REFUSED, EXPECT_NOTHING };

/* One way to run a case: the forward pass, or the backward pass that follows it. */
struct pass {
    const char *name;
    struct attn_mode mode;
    enum expectation expectation;
    struct attn_named_tensor inputs[ATTN_MAX_PORTS]; /* names without "inputs." */
    size_t n_inputs;
    const char *outputs[ATTN_MAX_PORTS]; /* names without "outputs." */
    size_t n_outputs;
};

enum { FORWARD, BACKWARD, N_PASSES };

/* Immutable once opened. Everything in it lives until case_close. */
struct test_case {
    json_t *description;
    const char *name;
    unsigned char *bytes; /* the tensor file */
    size_t n_bytes;
    attn_weights *file; /* of bytes */
    bool has_weights;
    struct pass passes[N_PASSES];
};

/* Ends the program where the files cannot be read: a case that is missing is no case passed. */
void case_open(struct test_case *c, const char *folder, const char *name);
void case_close(struct test_case *c);

/* The case's preset under its options; the library's verdict on them is the result. */
enum attn_status case_spec(const struct test_case *c, struct attn_spec *spec,
                           struct attn_error *error) ATTN_MUST_CHECK;

/* The expected values of an output (F64 before rounding where the file has them), and how far off
 * a value may be: absolutely, and as a part of what is expected. */
const struct attn_tensor *case_expected(const struct test_case *c, const char *output);
void case_tolerance(const struct test_case *c, const char *output, double *absolute,
                    double *relative);

/* Whether name ends in end. */
bool ends_with(const char *name, const char *end);

#endif
