/* layer.h - an immutable layer: its spec and its parameters, ready to compute with. */
#ifndef ATTNI_LAYER_H
#define ATTNI_LAYER_H

#include "attention.h"
#include "fingerprint.h"
#include "linear.h"
#include "ports.h"

/* Parameters of what follows the heads, each [length, width]. NULL: the kind has none, or it was
 * absent and stands for gamma 1, beta 0, mean 0, variance 1. */
struct attni_post {
    struct attn_post_spec spec;
    const float *gamma, *beta, *mean, *variance;
};

struct attn_layer {
    struct attn_spec spec;
    float *parameters; /* all of them, one after the other; owned */
    size_t n_floats;
    struct attni_linear fused, query, key, value, output;
    const float *edge_bias, *edge_value_bias;
    struct attni_post posts[ATTNI_N_POSTS]; /* by enum attni_post_owner */
    struct attni_parameter
        learned[ATTNI_MAX_PARAMETERS]; /* as attni_spec_parameters has them */
    size_t n_learned;
    struct attni_port_names port_names;
    char fingerprint[ATTNI_FINGERPRINT_SIZE];
};

#endif
