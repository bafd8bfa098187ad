/* ports.h - the inputs and outputs of a layer in each mode. */
#ifndef ATTNI_PORTS_H
#define ATTNI_PORTS_H

#include "spec.h"

/* What an output is. */
enum attni_result_kind {
    ATTNI_MAIN,
    ATTNI_ATTENTION,
    ATTNI_MAIN_MOMENT,      /* index: ATTNI_DRAWS_MEAN or ATTNI_DRAWS_VARIANCE */
    ATTNI_ATTENTION_MOMENT, /* the same */
    ATTNI_GRAD_INPUT,       /* index: enum attni_role */
    ATTNI_GRAD_PARAMETER,   /* index: among attni_spec_parameters */
    ATTNI_STATE             /* the same: a running statistic */
};

enum attni_moment { ATTNI_DRAWS_MEAN, ATTNI_DRAWS_VARIANCE, ATTNI_N_MOMENTS };

struct attni_result {
    enum attni_result_kind kind;
    size_t index;
};

/* Names that are made of a spec's. */
struct attni_port_names {
    char grad_input[ATTNI_N_INFERENCE_ROLES][ATTN_NAME_SIZE];
    char grad[ATTNI_MAX_PARAMETERS][ATTN_NAME_SIZE];
    char state[ATTNI_MAX_PARAMETERS][ATTN_NAME_SIZE];
    char uniform[ATTNI_N_POSTS][ATTN_NAME_SIZE];
    char main_moment[ATTNI_N_MOMENTS][ATTN_NAME_SIZE];
    char attention_moment[ATTNI_N_MOMENTS][ATTN_NAME_SIZE];
};

/* Fill in a layer's names, once it has its spec and its parameters' names. */
void attni_port_names_fill(attn_layer *layer);

/* The ports of a layer in a mode (never NULL), and what each is. */
size_t attni_ports_inputs(const attn_layer *layer, const struct attn_mode *mode,
                          struct attn_port ports[ATTN_MAX_PORTS],
                          enum attni_role roles[ATTN_MAX_PORTS]);
size_t attni_ports_outputs(const attn_layer *layer, const struct attn_mode *mode,
                           struct attn_port ports[ATTN_MAX_PORTS],
                           struct attni_result results[ATTN_MAX_PORTS]);

#endif
