/* ports.c - what a layer takes and gives in each mode: the spec's own ports, then those of training,
 * of draws and of gradients. Pure functions, any thread. */
#include "ports.h"

#include "layer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const moment_suffix[ATTNI_N_MOMENTS] = {"mean", "variance"};

/* ---- names --------------------------------------------------------------------------------- */

static void join(char name[ATTN_NAME_SIZE], const char *a, const char *b, const char *c)
{
    int n = snprintf(name, ATTN_NAME_SIZE, "%s%s%s", a, b, c);
    assert(n < ATTN_NAME_SIZE); /* names of a spec leave room */
    (void)n;
}

void attni_port_names_fill(attn_layer *layer)
{
    struct attni_port_names *names = &layer->port_names;
    const struct attn_spec *spec = &layer->spec;
    struct attn_port ports[ATTN_MAX_PORTS];
    enum attni_role roles[ATTN_MAX_PORTS];
    size_t n = attni_spec_inputs(spec, ports, roles);
    for (size_t i = 0; i < n; i++) {
        join(names->grad_input[roles[i]], "grad_", ports[i].name, "");
    }
    for (size_t i = 0; i < layer->n_learned; i++) {
        join(names->grad[i], "grad.", layer->learned[i].name, "");
        join(names->state[i], "state.", layer->learned[i].name, "");
    }
    const struct attn_post_spec *posts[] = {&spec->normalisation, &spec->activation};
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        join(names->uniform[i], posts[i]->prefix, "_uniform", "");
    }
    for (size_t i = 0; i < ATTNI_N_MOMENTS; i++) {
        join(names->main_moment[i], spec->output, ".", moment_suffix[i]);
        join(names->attention_moment[i], spec->attention, ".", moment_suffix[i]);
    }
}

/* ---- inputs -------------------------------------------------------------------------------- */

struct inputs {
    struct attn_port *ports;
    enum attni_role *roles;
    size_t n;
};

static struct attn_port *add_input(struct inputs *list, enum attni_role role,
                                   const char *name, size_t rank)
{
    struct attn_port *port = &list->ports[list->n];
    list->roles[list->n++] = role;
    *port = (struct attn_port){
        .name = name, .dtype = ATTN_F32, .rank = rank, .optional = true};
    for (size_t i = 0; i < rank; i++) {
        port->shape[i] = -1;
    }
    return port;
}

static void add_draws(struct inputs *list, const attn_layer *layer)
{
    const struct attn_spec *spec = &layer->spec;
    const struct attn_post_spec *posts[] = {&spec->normalisation, &spec->activation};
    add_input(list, ATTNI_DROPOUT_UNIFORM, "dropout_uniform", 4)->shape[1] =
        (int64_t)spec->n_heads;
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        if (posts[i]->kind == ATTN_POST_DROPOUT) {
            struct attn_port *port =
                add_input(list, (enum attni_role)(ATTNI_POST_UNIFORM + i),
                          layer->port_names.uniform[i], 3);
            port->shape[1] = attni_spec_per_position(spec) ? (int64_t)spec->length : -1;
            port->shape[2] = (int64_t)attni_spec_output_width(spec);
        }
    }
}

static void add_cotangents(struct inputs *list, const struct attn_spec *spec)
{
    struct attn_port outputs[ATTN_MAX_PORTS];
    size_t n = attni_spec_outputs(spec, outputs);
    static const enum attni_role roles[] = {ATTNI_GRAD_OUTPUT, ATTNI_GRAD_ATTENTION};
    static const char *const names[] = {"grad_output", "grad_attention"};
    assert(n <= sizeof names / sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct attn_port *port = add_input(list, roles[i], names[i], outputs[i].rank);
        memcpy(port->shape, outputs[i].shape, sizeof port->shape);
        port->optional = n > 1; /* either of them will do */
    }
}

size_t attni_ports_inputs(const attn_layer *layer, const struct attn_mode *mode,
                          struct attn_port ports[ATTN_MAX_PORTS],
                          enum attni_role roles[ATTN_MAX_PORTS])
{
    const struct attn_spec *spec = &layer->spec;
    struct inputs list = {ports, roles, attni_spec_inputs(spec, ports, roles)};
    if (mode->training && mode->n_draws == 0 && !spec->scores_only) {
        add_draws(&list, layer);
    }
    if (mode->gradient) {
        add_cotangents(&list, spec);
    }
    return list.n;
}

/* ---- outputs ------------------------------------------------------------------------------- */

struct outputs {
    struct attn_port *ports;
    struct attni_result *results;
    size_t n;
};

static struct attn_port *add_output(struct outputs *list, enum attni_result_kind kind,
                                    size_t index, const char *name)
{
    struct attn_port *port = &list->ports[list->n];
    list->results[list->n++] = (struct attni_result){kind, index};
    *port = (struct attn_port){.name = name, .dtype = ATTN_F32};
    return port;
}

/* Every output of inference gets an axis of draws; its moments have none. */
static void add_moments(struct outputs *list, const attn_layer *layer)
{
    static const enum attni_result_kind kinds[] = {ATTNI_MAIN_MOMENT,
                                                   ATTNI_ATTENTION_MOMENT};
    const struct attni_port_names *names = &layer->port_names;
    size_t n = list->n;
    for (size_t i = 0; i < n; i++) {
        struct attn_port *own = &list->ports[i];
        for (size_t k = 0; k < ATTNI_N_MOMENTS; k++) {
            const char *name =
                i == 0 ? names->main_moment[k] : names->attention_moment[k];
            struct attn_port *port = add_output(list, kinds[i], k, name);
            port->rank = own->rank;
            memcpy(port->shape, own->shape, sizeof port->shape);
            port->optional = true;
        }
        if (own->rank < ATTN_MAX_RANK) {
            memmove(own->shape + 1, own->shape, own->rank * sizeof *own->shape);
            own->shape[0] = -1;
            own->rank++;
        }
    }
}

static void add_gradients_of_inputs(struct outputs *list, const attn_layer *layer)
{
    struct attn_port inputs[ATTN_MAX_PORTS];
    enum attni_role roles[ATTN_MAX_PORTS];
    size_t n = attni_spec_inputs(&layer->spec, inputs, roles);
    for (size_t i = 0; i < n; i++) {
        if (inputs[i].dtype == ATTN_F32) {
            struct attn_port *port = add_output(list, ATTNI_GRAD_INPUT, roles[i],
                                                layer->port_names.grad_input[roles[i]]);
            port->rank = inputs[i].rank;
            memcpy(port->shape, inputs[i].shape, sizeof port->shape);
        }
    }
}

static bool is_statistic(const struct attni_parameter *parameter)
{
    return parameter->kind == ATTNI_RUNNING_MEAN ||
           parameter->kind == ATTNI_RUNNING_VARIANCE;
}

/* Gradients of what is learned, or the statistics that are gathered. */
static void add_parameters(struct outputs *list, const attn_layer *layer, bool statistics)
{
    const struct attni_port_names *names = &layer->port_names;
    const struct attni_parameter *parameters = layer->learned;
    for (size_t i = 0; i < layer->n_learned; i++) {
        if (is_statistic(&parameters[i]) != statistics) {
            continue;
        }
        struct attn_port *port =
            statistics ? add_output(list, ATTNI_STATE, i, names->state[i])
                       : add_output(list, ATTNI_GRAD_PARAMETER, i, names->grad[i]);
        port->rank = parameters[i].rank;
        for (size_t axis = 0; axis < port->rank; axis++) {
            port->shape[axis] = (int64_t)parameters[i].shape[axis];
        }
        port->optional = statistics;
    }
}

size_t attni_ports_outputs(const attn_layer *layer, const struct attn_mode *mode,
                           struct attn_port ports[ATTN_MAX_PORTS],
                           struct attni_result results[ATTN_MAX_PORTS])
{
    struct outputs list = {ports, results, attni_spec_outputs(&layer->spec, ports)};
    for (size_t i = 0; i < list.n; i++) {
        results[i] = (struct attni_result){i == 0 ? ATTNI_MAIN : ATTNI_ATTENTION, 0};
        ports[i].optional = ports[i].optional || mode->gradient;
    }
    if (mode->n_draws > 0) {
        add_moments(&list, layer);
        return list.n;
    }
    if (mode->gradient) {
        add_gradients_of_inputs(&list, layer);
        add_parameters(&list, layer, false);
    }
    if (mode->training) {
        add_parameters(&list, layer, true);
    }
    return list.n;
}

/* ---- as a client sees them ----------------------------------------------------------------- */

static const struct attn_mode inference = {.size = sizeof(struct attn_mode)};

size_t attn_layer_inputs(const attn_layer *layer, const struct attn_mode *mode,
                         struct attn_port ports[ATTN_MAX_PORTS])
{
    enum attni_role roles[ATTN_MAX_PORTS];
    return attni_ports_inputs(layer, mode ? mode : &inference, ports, roles);
}

size_t attn_layer_outputs(const attn_layer *layer, const struct attn_mode *mode,
                          struct attn_port ports[ATTN_MAX_PORTS])
{
    struct attni_result results[ATTN_MAX_PORTS];
    return attni_ports_outputs(layer, mode ? mode : &inference, ports, results);
}
