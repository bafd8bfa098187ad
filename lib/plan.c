/* plan.c - check one call and lay it out. The plan belongs to the caller; it only reads the layer. */
#include "plan.h"

#include "lay_out.h"
#include "scores.h"
#include "shapes.h"
#include "status.h"
#include "tensor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const struct attni_linear *attni_plan_projection(const attn_plan *plan, size_t which)
{
    const attn_layer *layer = plan->layer;
    const struct attni_linear *own[] = {&layer->query, &layer->key, &layer->value};
    return layer->fused.weight ? &layer->fused : own[which];
}

/* ---- inputs by name ------------------------------------------------------------------------ */

/* Stands for the data of empty inputs, which may be NULL: arithmetic on NULL is undefined. */
static const double no_elements;

static bool dtype_fits(enum attn_dtype expected, enum attn_dtype got)
{
    return got == expected || (expected == ATTN_I64 && got == ATTN_I32);
}

static enum attn_status take_input(attn_plan *plan, const struct attn_port *port,
                                   enum attni_role role,
                                   const struct attn_named_tensor *input,
                                   struct attn_error *error)
{
    size_t n_bytes;
    if (plan->given[role]) {
        return attni_fail(error, ATTN_INVALID, port->name, "input '%s': given twice",
                          port->name);
    }
    if (!dtype_fits(port->dtype, input->tensor.dtype)) {
        return attni_fail(error, ATTN_DTYPE, port->name,
                          "input '%s': expected type %s%s, got %s", port->name,
                          attn_dtype_name(port->dtype),
                          port->dtype == ATTN_I64 ? " or I32" : "",
                          attn_dtype_name(input->tensor.dtype));
    }
    if (input->tensor.rank > ATTN_MAX_RANK) {
        return attni_fail(error, ATTN_SHAPE, port->name,
                          "input '%s': expected a rank of at most %d, got %zu",
                          port->name, ATTN_MAX_RANK, input->tensor.rank);
    }
    if (attn_tensor_bytes(&input->tensor, &n_bytes) || n_bytes > PTRDIFF_MAX) {
        return attni_fail(error, ATTN_SHAPE, port->name,
                          "input '%s': shape %s is too large", port->name,
                          attni_shape_text(input->tensor.shape, input->tensor.rank).text);
    }
    plan->inputs[role] = input->tensor;
    if (n_bytes == 0) {
        plan->inputs[role].data = &no_elements;
    }
    plan->given[role] = true;
    return ATTN_OK;
}

/* The port of that name, or n_ports. */
static size_t find_port(const struct attn_port *ports, size_t n_ports, const char *name)
{
    size_t i = 0;
    while (i < n_ports && strcmp(ports[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* "a, b, c": the names of ports, for messages. */
static struct attni_text port_names(const struct attn_port *ports, size_t n)
{
    struct attni_text list = {""};
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(list.text);
        if (used + strlen(ports[i].name) + 3 < sizeof list.text) {
            strcpy(list.text + used, i ? ", " : "");
            strcat(list.text, ports[i].name);
        }
    }
    return list;
}

static enum attn_status take_inputs(attn_plan *plan,
                                    const struct attn_named_tensor *inputs,
                                    size_t n_inputs, struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    struct attn_port ports[ATTN_MAX_PORTS];
    enum attni_role roles[ATTN_MAX_PORTS];
    size_t n_ports = attni_spec_inputs(spec, ports, roles);
    for (size_t i = 0; i < n_inputs; i++) {
        size_t at = find_port(ports, n_ports, inputs[i].name);
        if (at == n_ports) {
            return attni_fail(error, ATTN_UNKNOWN, inputs[i].name,
                              "input '%s': unknown to %s, which takes %s", inputs[i].name,
                              spec->kind, port_names(ports, n_ports).text);
        }
        enum attn_status status =
            take_input(plan, &ports[at], roles[at], &inputs[i], error);
        if (status) {
            return status;
        }
    }
    for (size_t i = 0; i < n_ports; i++) {
        if (!plan->given[roles[i]] && !ports[i].optional) {
            return attni_fail(error, ATTN_MISSING, ports[i].name,
                              "input '%s': expected by %s, and missing", ports[i].name,
                              spec->kind);
        }
    }
    return ATTN_OK;
}

/* An input that serves as key or value too, by its name or because that input was left out. */
static void resolve_shared(attn_plan *plan)
{
    const struct attn_spec *spec = &plan->layer->spec;
    if (!plan->given[ATTNI_KEY]) {
        plan->inputs[ATTNI_KEY] = plan->inputs[ATTNI_QUERY];
    }
    if (!plan->given[ATTNI_VALUE]) {
        bool as_key = strcmp(spec->value, spec->key) == 0;
        plan->inputs[ATTNI_VALUE] = plan->inputs[as_key ? ATTNI_KEY : ATTNI_QUERY];
    }
}

/* ---- outputs ------------------------------------------------------------------------------- */

static enum attn_status add_output(attn_plan *plan, const struct attn_port *port,
                                   size_t which, const struct attn_tensor *tensor,
                                   struct attn_error *error)
{
    size_t *index = which == 0 ? &plan->main_output : &plan->attention_output;
    size_t n_bytes;
    if (*index != SIZE_MAX) {
        return attni_fail(error, ATTN_INVALID, port->name, "output '%s': asked for twice",
                          port->name);
    }
    if (attn_tensor_bytes(tensor, &n_bytes) || n_bytes > PTRDIFF_MAX) {
        return attni_fail(error, ATTN_TOO_LARGE, port->name,
                          "output '%s': shape %s is too large", port->name,
                          attni_shape_text(tensor->shape, tensor->rank).text);
    }
    *index = plan->n_outputs;
    plan->outputs[plan->n_outputs++] = (struct attn_named_tensor){
        which == 0 ? plan->layer->spec.output : plan->layer->spec.attention, *tensor};
    return ATTN_OK;
}

/* tensors: the shapes of the layer's outputs, in the order of its ports. */
static enum attn_status choose_outputs(attn_plan *plan, const char *const *names,
                                       size_t n_names,
                                       const struct attn_tensor tensors[2],
                                       struct attn_error *error)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    size_t n_ports = attni_spec_outputs(&plan->layer->spec, ports);
    plan->main_output = plan->attention_output = SIZE_MAX;
    if (n_names == 0) {
        return add_output(plan, &ports[0], 0, &tensors[0], error);
    }
    for (size_t i = 0; i < n_names; i++) {
        size_t at = find_port(ports, n_ports, names[i]);
        if (at == n_ports) {
            return attni_fail(error, ATTN_UNKNOWN, names[i],
                              "output '%s': unknown to %s, which gives %s", names[i],
                              plan->layer->spec.kind, port_names(ports, n_ports).text);
        }
        enum attn_status status = add_output(plan, &ports[at], at, &tensors[at], error);
        if (status) {
            return status;
        }
    }
    return ATTN_OK;
}

static void output_shapes(const attn_plan *plan, struct attn_tensor tensors[2])
{
    const struct attn_spec *spec = &plan->layer->spec;
    tensors[0] = (struct attn_tensor){
        .dtype = ATTN_F32,
        .rank = spec->squeeze_output ? 2 : 3,
        .shape = {plan->n_batch, plan->n_queries, attni_spec_output_width(spec)}};
    tensors[1] = (struct attn_tensor){
        .dtype = ATTN_F32,
        .rank = 4,
        .shape = {plan->n_score_batch, spec->n_heads, plan->n_queries, plan->n_keys}};
}

/* ---- the plan ------------------------------------------------------------------------------ */

static enum attn_status check_call(attn_plan *plan, struct attn_tensor outputs[2],
                                   struct attn_error *error)
{
    resolve_shared(plan);
    if (plan->layer->spec.scores_only) {
        outputs[0] = (struct attn_tensor){.dtype = ATTN_F32};
        return attni_scores_check(plan, &outputs[0], error);
    }
    enum attn_status status = attni_shapes_check(plan, error);
    output_shapes(plan, outputs);
    return status;
}

enum attn_status attn_plan_create(const attn_layer *layer,
                                  const struct attn_named_tensor *inputs, size_t n_inputs,
                                  const char *const *outputs, size_t n_outputs,
                                  attn_plan **plan, struct attn_error *error)
{
    struct attn_tensor tensors[2];
    attn_plan *created = calloc(1, sizeof *created);
    if (!created) {
        return attni_fail_memory(error);
    }
    created->layer = layer;
    enum attn_status status = take_inputs(created, inputs, n_inputs, error);
    if (status == ATTN_OK) {
        status = check_call(created, tensors, error);
    }
    if (status == ATTN_OK) {
        status = choose_outputs(created, outputs, n_outputs, tensors, error);
    }
    if (status == ATTN_OK && !layer->spec.scores_only) {
        status = attni_lay_out(created, ATTNI_ROUND_FLOATS, error);
    }
    if (status == ATTN_OK) {
        *plan = created;
        created = NULL;
    }
    attn_plan_free(created);
    return status;
}

void attn_plan_free(attn_plan *plan)
{
    free(plan);
}

size_t attn_plan_n_outputs(const attn_plan *plan)
{
    return plan->n_outputs;
}

const struct attn_named_tensor *attn_plan_output(const attn_plan *plan, size_t index)
{
    return index < plan->n_outputs ? &plan->outputs[index] : NULL;
}

enum attn_status attn_plan_scratch(const attn_plan *plan, size_t n_workers,
                                   size_t *n_bytes)
{
    size_t bytes;
    if (n_workers == 0) {
        return ATTN_INVALID;
    }
    /* 64 more, so that the parts can be aligned whatever the memory's own alignment */
    if (!attni_multiply(n_workers, plan->worker_bytes, &bytes) ||
        !attni_add(bytes, plan->shared_bytes, &bytes) || !attni_add(bytes, 64, &bytes) ||
        bytes > PTRDIFF_MAX) {
        return ATTN_TOO_LARGE;
    }
    *n_bytes = bytes;
    return ATTN_OK;
}
