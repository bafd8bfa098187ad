/* plan.c - check one call and lay it out. The plan belongs to the caller; it only reads the layer. */
#include "plan.h"

#include "kept.h"
#include "lay_out.h"
#include "mode.h"
#include "scores.h"
#include "shapes.h"
#include "status.h"
#include "tensor.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct attni_linear *attni_plan_projection(const attn_plan *plan, size_t which)
{
    const attn_layer *layer = plan->layer;
    const struct attni_linear *own[] = {&layer->query, &layer->key, &layer->value};
    return layer->fused.weight ? &layer->fused : own[which];
}

/* ---- inputs by name ------------------------------------------------------------------------ */

/* The output that is such a result, as an index; n_outputs: it is not asked for. */
static size_t find_result(const attn_plan *plan, enum attni_result_kind kind,
                          size_t index)
{
    size_t i = 0;
    while (i < plan->n_outputs &&
           (plan->results[i].kind != kind || plan->results[i].index != index)) {
        i++;
    }
    return i;
}

bool attni_plan_wants(const attn_plan *plan, enum attni_result_kind kind, size_t index)
{
    return find_result(plan, kind, index) < plan->n_outputs;
}

float *attni_plan_memory(const attn_plan *plan, enum attni_result_kind kind, size_t index,
                         float *const *outputs)
{
    size_t i = find_result(plan, kind, index), n = 0;
    if (i == plan->n_outputs || attn_tensor_count(&plan->outputs[i].tensor, &n) ||
        n == 0) {
        return NULL;
    }
    return outputs[i];
}

bool attni_plan_has_posts(const attn_plan *plan)
{
    bool any = false;
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        any = any || plan->layer->posts[i].spec.kind != ATTN_POST_NONE;
    }
    return any;
}

/* The parameter of that kind and owner, as an index among the spec's; ATTNI_MAX_PARAMETERS: there is
 * none. */
static size_t find_parameter(const attn_plan *plan, enum attni_parameter_kind kind,
                             size_t owner)
{
    const struct attni_parameter *parameters = plan->layer->learned;
    for (size_t i = 0; i < plan->layer->n_learned; i++) {
        if (parameters[i].kind == kind && parameters[i].owner == owner) {
            return i;
        }
    }
    return ATTNI_MAX_PARAMETERS;
}

float *attni_plan_statistic(const attn_plan *plan, enum attni_post_owner owner,
                            enum attni_parameter_kind kind, float *const *outputs)
{
    return attni_plan_memory(plan, ATTNI_STATE, find_parameter(plan, kind, owner),
                             outputs);
}

float *attni_plan_gradient(const attn_plan *plan, enum attni_parameter_kind kind,
                           size_t owner, float *const *outputs)
{
    return attni_plan_memory(plan, ATTNI_GRAD_PARAMETER,
                             find_parameter(plan, kind, owner), outputs);
}

enum attni_role attni_plan_source(const attn_plan *plan, size_t which)
{
    const struct attn_spec *spec = &plan->layer->spec;
    if (plan->given[which]) {
        return (enum attni_role)which;
    }
    bool as_key = which == ATTNI_VALUE && strcmp(spec->value, spec->key) == 0;
    return as_key && plan->given[ATTNI_KEY] ? ATTNI_KEY : ATTNI_QUERY;
}

bool attni_plan_couples(const attn_plan *plan, const struct attni_post *post)
{
    return plan->mode.training && post->spec.kind == ATTN_POST_BATCH_NORM;
}

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
            snprintf(list.text + used, sizeof list.text - used, "%s%s", i ? ", " : "",
                     ports[i].name);
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
    size_t n_ports = attni_ports_inputs(plan->layer, &plan->mode, ports, roles);
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
    bool keeps = plan->kept.kind == ATTNI_KEPT_READ;
    for (size_t i = 0; i < n_ports; i++) {
        bool kept = keeps && (roles[i] == ATTNI_KEY || roles[i] == ATTNI_VALUE);
        if (!plan->given[roles[i]] && !ports[i].optional && !kept) {
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
    for (size_t which = ATTNI_KEY; which <= ATTNI_VALUE; which++) {
        plan->inputs[which] = plan->inputs[attni_plan_source(plan, which)];
    }
}

/* ---- outputs ------------------------------------------------------------------------------- */

/* The shapes of the layer's own outputs, in the order of its ports, without an axis of draws. */
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

/* Put an axis of draws in front. */
static struct attn_tensor of_draws(const attn_plan *plan, struct attn_tensor tensor)
{
    if (plan->mode.n_draws > 0 && tensor.rank < ATTN_MAX_RANK) {
        memmove(tensor.shape + 1, tensor.shape, tensor.rank * sizeof *tensor.shape);
        tensor.shape[0] = plan->mode.n_draws;
        tensor.rank++;
    }
    return tensor;
}

static struct attn_tensor of_parameter(const attn_plan *plan, size_t index)
{
    const struct attni_parameter *parameter = &plan->layer->learned[index];
    struct attn_tensor tensor = {.dtype = ATTN_F32, .rank = parameter->rank};
    memcpy(tensor.shape, parameter->shape, sizeof parameter->shape);
    return tensor;
}

/* own: the shapes of the layer's own outputs. */
static struct attn_tensor result_shape(const attn_plan *plan,
                                       const struct attni_result *result,
                                       const struct attn_tensor own[2])
{
    struct attn_tensor tensor = own[0];
    switch (result->kind) {
    case ATTNI_MAIN:
        tensor = of_draws(plan, own[0]);
        break;
    case ATTNI_ATTENTION:
        tensor = of_draws(plan, own[1]);
        break;
    case ATTNI_MAIN_MOMENT:
        break;
    case ATTNI_ATTENTION_MOMENT:
        tensor = own[1];
        break;
    case ATTNI_GRAD_INPUT:
        tensor = plan->inputs[result->index];
        break;
    case ATTNI_GRAD_PARAMETER:
    case ATTNI_STATE:
        tensor = of_parameter(plan, result->index);
        break;
    }
    tensor.dtype = ATTN_F32;
    tensor.data = NULL;
    return tensor;
}

static enum attn_status add_output(attn_plan *plan, const struct attn_port *port,
                                   const struct attni_result *result,
                                   const struct attn_tensor own[2],
                                   struct attn_error *error)
{
    struct attn_tensor tensor = result_shape(plan, result, own);
    size_t n_bytes;
    if (attni_plan_wants(plan, result->kind, result->index)) {
        return attni_fail(error, ATTN_INVALID, port->name, "output '%s': asked for twice",
                          port->name);
    }
    if (attn_tensor_bytes(&tensor, &n_bytes) || n_bytes > PTRDIFF_MAX) {
        return attni_fail(error, ATTN_TOO_LARGE, port->name,
                          "output '%s': shape %s is too large", port->name,
                          attni_shape_text(tensor.shape, tensor.rank).text);
    }
    plan->results[plan->n_outputs] = *result;
    plan->outputs[plan->n_outputs++] = (struct attn_named_tensor){port->name, tensor};
    return ATTN_OK;
}

/* Whether the result is the gradient of an input that is not there. */
static bool lacks_input(const attn_plan *plan, const struct attni_result *result)
{
    return result->kind == ATTNI_GRAD_INPUT && !plan->given[result->index];
}

static enum attn_status add_named(attn_plan *plan, const char *name,
                                  const struct attn_tensor own[2],
                                  struct attn_error *error)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    struct attni_result results[ATTN_MAX_PORTS];
    size_t n_ports = attni_ports_outputs(plan->layer, &plan->mode, ports, results);
    size_t at = find_port(ports, n_ports, name);
    if (at == n_ports) {
        return attni_fail(error, ATTN_UNKNOWN, name,
                          "output '%s': unknown to %s, which gives %s", name,
                          plan->layer->spec.kind, port_names(ports, n_ports).text);
    }
    if (lacks_input(plan, &results[at])) {
        return attni_fail(error, ATTN_MISSING, name,
                          "output '%s': expected the input that it belongs to, which is "
                          "missing",
                          name);
    }
    return add_output(plan, &ports[at], &results[at], own, error);
}

/* What has to be computed for the outputs that were chosen. Their sizes were checked, those of own
 * outputs that are computed for others' sake alone were not. */
static enum attn_status count_values(attn_plan *plan, const struct attn_tensor own[2],
                                     struct attn_error *error)
{
    for (size_t i = 0; i < plan->n_outputs; i++) {
        enum attni_result_kind kind = plan->results[i].kind;
        plan->computes[0] = plan->computes[0] || kind == ATTNI_MAIN ||
                            kind == ATTNI_MAIN_MOMENT || kind == ATTNI_STATE;
        plan->computes[1] = plan->computes[1] || kind == ATTNI_ATTENTION ||
                            kind == ATTNI_ATTENTION_MOMENT;
    }
    for (size_t i = 0; i < 2; i++) {
        if (plan->computes[i] && attn_tensor_count(&own[i], &plan->n_values[i])) {
            return attni_fail(error, ATTN_TOO_LARGE, plan->layer->spec.query,
                              "the outputs are larger than can be counted");
        }
    }
    return ATTN_OK;
}

static enum attn_status choose_outputs(attn_plan *plan, const char *const *names,
                                       size_t n_names, const struct attn_tensor own[2],
                                       struct attn_error *error)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    struct attni_result results[ATTN_MAX_PORTS];
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < n_names; i++) {
        status = add_named(plan, names[i], own, error);
    }
    size_t n_ports = attni_ports_outputs(plan->layer, &plan->mode, ports, results);
    for (size_t i = 0; n_names == 0 && status == ATTN_OK && i < n_ports; i++) {
        if (!ports[i].optional && !lacks_input(plan, &results[i])) {
            status = add_output(plan, &ports[i], &results[i], own, error);
        }
    }
    return status ? status : count_values(plan, own, error);
}

/* ---- the plan ------------------------------------------------------------------------------ */

/* The shapes of the layer's own outputs, from those of its inputs. */
static enum attn_status check_call(attn_plan *plan, struct attn_tensor own[2],
                                   struct attn_error *error)
{
    enum attn_status status;
    resolve_shared(plan);
    if (plan->layer->spec.scores_only) {
        own[0] = own[1] = (struct attn_tensor){.dtype = ATTN_F32};
        status = attni_scores_check(plan, &own[0], error);
    } else {
        status = attni_shapes_check(plan, error);
        output_shapes(plan, own);
    }
    return status ? status : attni_mode_fit(plan, own, error);
}

static enum attn_status fill_plan(attn_plan *plan, const struct attn_named_tensor *inputs,
                                  size_t n_inputs, const char *const *outputs,
                                  size_t n_outputs, struct attn_error *error)
{
    struct attn_tensor own[2];
    enum attn_status status = take_inputs(plan, inputs, n_inputs, error);
    if (status == ATTN_OK && plan->kept.cache) {
        status = attni_kept_inputs(plan, error);
    }
    if (status == ATTN_OK) {
        status = check_call(plan, own, error);
    }
    if (status == ATTN_OK) {
        status = choose_outputs(plan, outputs, n_outputs, own, error);
    }
    if (status == ATTN_OK) {
        status = plan->mode.gradient ? attni_lay_out_back(plan, error)
                                     : attni_lay_out(plan, ATTNI_ROUND_FLOATS, error);
    }
    if (status == ATTN_OK && plan->kept.cache) {
        status = attni_kept_allocate(plan, error);
    }
    return status;
}

enum attn_status attni_plan_create(const attn_layer *layer, const struct attn_mode *mode,
                                   const struct attni_kept *kept,
                                   const struct attn_named_tensor *inputs,
                                   size_t n_inputs, const char *const *outputs,
                                   size_t n_outputs, attn_plan **plan,
                                   struct attn_error *error)
{
    attn_plan *created = calloc(1, sizeof *created);
    if (!created) {
        return attni_fail_memory(error);
    }
    created->layer = layer;
    created->mode = *mode;
    created->kept = kept ? *kept : created->kept;
    enum attn_status status =
        fill_plan(created, inputs, n_inputs, outputs, n_outputs, error);
    if (status == ATTN_OK) {
        *plan = created;
        created = NULL;
    }
    attn_plan_free(created);
    return status;
}

enum attn_status attn_plan_create(const attn_layer *layer, const struct attn_mode *mode,
                                  const struct attn_named_tensor *inputs, size_t n_inputs,
                                  const char *const *outputs, size_t n_outputs,
                                  attn_plan **plan, struct attn_error *error)
{
    const struct attn_mode inference = {.size = sizeof inference};
    mode = mode ? mode : &inference;
    enum attn_status status = attni_mode_check(mode, error);
    return status ? status
                  : attni_plan_create(layer, mode, NULL, inputs, n_inputs, outputs,
                                      n_outputs, plan, error);
}

void attn_plan_free(attn_plan *plan)
{
    if (plan) {
        attni_kept_release(plan);
        free(plan);
    }
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
