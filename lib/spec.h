/* spec.h - what follows from a spec: its parameters, its inputs, whether it makes sense. */
#ifndef ATTNI_SPEC_H
#define ATTNI_SPEC_H

#include "attention.h"

/* Most rows, columns, heads or types that a layer may have: BLAS counts in int. */
#define ATTNI_MAX_DIMENSION ((size_t)1 << 24)

/* What a parameter is to its layer, and whose: of which projection or which of the two steps after
 * the heads. */
enum attni_parameter_kind {
    ATTNI_WEIGHT,
    ATTNI_BIAS,
    ATTNI_EDGE_BIAS,
    ATTNI_EDGE_VALUE_BIAS,
    ATTNI_GAMMA,
    ATTNI_BETA,
    ATTNI_RUNNING_MEAN,
    ATTNI_RUNNING_VARIANCE
};

enum attni_linear_owner {
    ATTNI_FUSED,
    ATTNI_OF_QUERY,
    ATTNI_OF_KEY,
    ATTNI_OF_VALUE,
    ATTNI_OF_OUTPUT,
    ATTNI_N_LINEAR
};

enum attni_post_owner { ATTNI_NORMALISATION, ATTNI_ACTIVATION, ATTNI_N_POSTS };

/* One learned tensor of a layer. */
struct attni_parameter {
    char name[ATTN_NAME_SIZE];
    enum attni_parameter_kind kind;
    size_t
        owner; /* enum attni_linear_owner or attni_post_owner; 0 for the tables of edges */
    size_t rank;
    size_t shape[2];
    bool optional;                         /* absent: the value that changes nothing */
    const struct attn_linear_spec *linear; /* whose weight this is; NULL: nobody's */
};

#define ATTNI_MAX_PARAMETERS 20

/* Names of a spec leave room for what ports put before and after them ("grad.", ".variance"). */
#define ATTNI_PLAIN_NAME_SIZE (ATTN_NAME_SIZE - 16)

/* The spec's parameters, in an order that is the same for the same spec. */
size_t attni_spec_parameters(const struct attn_spec *spec,
                             struct attni_parameter parameters[ATTNI_MAX_PARAMETERS]);

/* Refuse a spec that contradicts itself; error->field names the member. */
enum attn_status attni_spec_check(const struct attn_spec *spec,
                                  struct attn_error *error) ATTN_MUST_CHECK;

/* What an input is for. */
enum attni_role {
    ATTNI_QUERY,
    ATTNI_KEY,
    ATTNI_VALUE,
    ATTNI_MASK,
    ATTNI_EDGES,
    ATTNI_EDGE_TYPES,
    ATTNI_DENSE_KQ,
    ATTNI_DENSE_KV,
    ATTNI_DROPOUT_UNIFORM,
    ATTNI_POST_UNIFORM, /* of the normalisation, then of the activation */
    ATTNI_GRAD_OUTPUT = ATTNI_POST_UNIFORM + ATTNI_N_POSTS,
    ATTNI_GRAD_ATTENTION,
    ATTNI_N_ROLES
};

#define ATTNI_N_INFERENCE_ROLES ((size_t)ATTNI_DROPOUT_UNIFORM)

/* The spec's inputs as a client sees them, and what each is for. An input that serves as query and
 * as key stands once, as the query. */
size_t attni_spec_inputs(const struct attn_spec *spec,
                         struct attn_port ports[ATTN_MAX_PORTS],
                         enum attni_role roles[ATTN_MAX_PORTS]);

/* The spec's outputs: its main one first. */
size_t attni_spec_outputs(const struct attn_spec *spec,
                          struct attn_port ports[ATTN_MAX_PORTS]);

/* Whether the spec has parameters that belong to single positions, so that only inputs of its full
 * length make sense. */
bool attni_spec_per_position(const struct attn_spec *spec);

/* Width of one row of the output. */
size_t attni_spec_output_width(const struct attn_spec *spec);

#endif
