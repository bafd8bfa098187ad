/* layer.c - create a layer from a spec and weights: find, check, convert and copy every parameter.
 * A layer is immutable once created and shared by all threads. */
#include "layer.h"

#include "spec.h"
#include "status.h"
#include "tensor.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Floats of a cache line, on which every parameter begins. */
#define ALIGNMENT ((size_t)16)

/* Where each parameter of a layer comes from and goes to. */
struct layout {
    struct attni_parameter parameters[ATTNI_MAX_PARAMETERS];
    const struct attn_tensor
        *tensors[ATTNI_MAX_PARAMETERS];   /* NULL: optional and absent */
    size_t offsets[ATTNI_MAX_PARAMETERS]; /* in floats; multiples of 16 */
    size_t n;
    size_t n_floats;
};

/* A name in `names` that the layer does not have is a typing error that nobody else would see. */
static enum attn_status check_renamed(const struct layout *layout,
                                      const struct attn_spec *spec,
                                      const attn_weights *weights,
                                      struct attn_error *error)
{
    for (size_t i = 0; weights && i < attn_weights_n_renamed(weights); i++) {
        const char *name = attn_weights_renamed(weights, i);
        bool known = false;
        for (size_t k = 0; k < layout->n; k++) {
            known = known || strcmp(layout->parameters[k].name, name) == 0;
        }
        if (known) {
            continue;
        }
        char list[384] = "no parameters";
        size_t used = 0;
        for (size_t k = 0; k < layout->n && used < sizeof list; k++) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                     k ? ", " : "", layout->parameters[k].name);
        }
        return attni_fail(error, ATTN_UNKNOWN, name,
                          "names: '%s' is not a parameter of %s, which has %s", name,
                          spec->kind, list);
    }
    return ATTN_OK;
}

static bool same_shape(const struct attn_tensor *tensor,
                       const struct attni_parameter *parameter)
{
    return tensor->rank == parameter->rank &&
           memcmp(tensor->shape, parameter->shape, parameter->rank * sizeof(size_t)) == 0;
}

/* The tensor of one parameter, checked; *found stays NULL for an absent optional one. */
static enum attn_status find_tensor(const struct attni_parameter *parameter,
                                    const attn_weights *weights,
                                    const struct attn_tensor **found,
                                    struct attn_error *error)
{
    char file_name[2 * ATTN_NAME_SIZE];
    const char *name = parameter->name;
    struct attni_text expected = attni_shape_text(parameter->shape, parameter->rank);
    const struct attn_tensor *tensor =
        weights ? attn_weights_find(weights, name, file_name) : NULL;
    if (!tensor && parameter->optional) {
        return ATTN_OK;
    }
    if (!tensor) {
        return attni_fail(error, ATTN_MISSING, name,
                          "parameter '%s': expected tensor '%s' of shape %s, found none",
                          name, weights ? file_name : name, expected.text);
    }
    if (!same_shape(tensor, parameter)) {
        return attni_fail(error, ATTN_SHAPE, name,
                          "parameter '%s': expected tensor '%s' of shape %s, found %s",
                          name, file_name, expected.text,
                          attni_shape_text(tensor->shape, tensor->rank).text);
    }
    *found = tensor;
    return ATTN_OK;
}

/* Floats that a parameter takes in the layer's memory; false when that overflows. */
static bool count_floats(const struct attn_spec *spec,
                         const struct attni_parameter *parameter, size_t *n)
{
    const struct attn_linear_spec *linear = parameter->linear;
    return linear ? attni_linear_floats(linear->n_in, linear->n_out,
                                        spec->weights_dtype == ATTN_STORE_BF16, n)
                  : attni_count(parameter->shape, parameter->rank, n);
}

/* Find every parameter and give it a place. What is absent takes no memory, so that the sum is
 * bounded by what the file really holds. */
static enum attn_status lay_out(const struct attn_spec *spec, const attn_weights *weights,
                                struct layout *layout, struct attn_error *error)
{
    memset(layout, 0, sizeof *layout);
    layout->n = attni_spec_parameters(spec, layout->parameters);
    enum attn_status renamed = check_renamed(layout, spec, weights, error);
    if (renamed) {
        return renamed;
    }
    for (size_t i = 0; i < layout->n; i++) {
        const struct attni_parameter *parameter = &layout->parameters[i];
        enum attn_status status =
            find_tensor(parameter, weights, &layout->tensors[i], error);
        if (status) {
            return status;
        }
        size_t count, bytes;
        layout->offsets[i] = layout->n_floats;
        if (!layout->tensors[i]) {
            continue;
        }
        if (!count_floats(spec, parameter, &count) ||
            !attni_add(count, ALIGNMENT - 1, &count) ||
            !attni_add(layout->n_floats, count / ALIGNMENT * ALIGNMENT,
                       &layout->n_floats) ||
            !attni_multiply(layout->n_floats, sizeof(float), &bytes)) {
            return attni_fail(error, ATTN_TOO_LARGE, parameter->name,
                              "parameter '%s': %s is too large", parameter->name,
                              attni_shape_text(parameter->shape, parameter->rank).text);
        }
    }
    return ATTN_OK;
}

static enum attn_status convert(const struct attni_parameter *parameter,
                                const struct attn_tensor *tensor, float *out,
                                struct attn_error *error)
{
    const char *name = parameter->name;
    size_t count = 0, bad = 0;
    enum attn_status status = attn_tensor_count(tensor, &count);
    if (status == ATTN_OK) {
        status = attn_convert_to_f32(tensor->dtype, tensor->data, count, out, &bad);
    }
    if (status == ATTN_DTYPE) {
        return attni_fail(
            error, status, name,
            "parameter '%s': expected a tensor of type F32, F64, F16 or BF16, "
            "found %s",
            name, attn_dtype_name(tensor->dtype));
    }
    if (status) {
        return attni_fail(error, status, name,
                          "parameter '%s': element %zu is beyond the range of F32", name,
                          bad);
    }
    return ATTN_OK;
}

/* A projection, but for where its parameters are. */
static struct attni_linear linear_of(const struct attn_spec *spec,
                                     const struct attn_linear_spec *linear)
{
    return (struct attni_linear){.n_in = linear->n_in,
                                 .n_out = linear->n_out,
                                 .in_out = linear->in_out,
                                 .bf16 = spec->weights_dtype == ATTN_STORE_BF16};
}

/* Convert a parameter into the layer's memory; a projection's weight is laid out for the kernels. */
static enum attn_status load(const struct attn_spec *spec,
                             const struct attni_parameter *parameter,
                             const struct attn_tensor *tensor, float *out,
                             struct attn_error *error)
{
    if (!parameter->linear) {
        return convert(parameter, tensor, out, error);
    }
    struct attni_linear linear = linear_of(spec, parameter->linear);
    if (tensor->dtype == ATTN_F32 && (uintptr_t)tensor->data % sizeof(float) == 0) {
        attni_linear_store(&linear, tensor->data, out);
        return ATTN_OK;
    }
    float *plain = calloc(linear.n_in * linear.n_out, sizeof *plain);
    if (!plain) {
        return attni_fail_memory(error);
    }
    enum attn_status status = convert(parameter, tensor, plain, error);
    if (status == ATTN_OK) {
        attni_linear_store(&linear, plain, out);
    }
    free(plain);
    return status;
}

/* The loaded parameter of that name, or NULL where the spec or the file has none. */
static const float *loaded(const attn_layer *layer, const struct layout *layout,
                           const char *prefix, const char *suffix)
{
    char name[ATTN_NAME_SIZE + 16];
    snprintf(name, sizeof name, "%s%s", prefix, suffix);
    for (size_t i = 0; name[0] && i < layout->n; i++) {
        if (layout->tensors[i] && strcmp(layout->parameters[i].name, name) == 0) {
            return layer->parameters + layout->offsets[i];
        }
    }
    return NULL;
}

static struct attni_linear bind_linear(const attn_layer *layer,
                                       const struct layout *layout,
                                       const struct attn_linear_spec *spec)
{
    struct attni_linear linear = linear_of(&layer->spec, spec);
    linear.weight = loaded(layer, layout, spec->weight, "");
    linear.bias = loaded(layer, layout, spec->bias, "");
    return linear;
}

static struct attni_post bind_post(const attn_layer *layer, const struct layout *layout,
                                   const struct attn_post_spec *spec)
{
    return (struct attni_post){
        .spec = *spec,
        .gamma = loaded(layer, layout, spec->prefix, ".gamma"),
        .beta = loaded(layer, layout, spec->prefix, ".beta"),
        .mean = loaded(layer, layout, spec->prefix, ".running_mean"),
        .variance = loaded(layer, layout, spec->prefix, ".running_var")};
}

static void bind(attn_layer *layer, const struct layout *layout)
{
    const struct attn_spec *spec = &layer->spec;
    layer->fused = bind_linear(layer, layout, &spec->fused);
    layer->query = bind_linear(layer, layout, &spec->query_projection);
    layer->key = bind_linear(layer, layout, &spec->key_projection);
    layer->value = bind_linear(layer, layout, &spec->value_projection);
    layer->output = bind_linear(layer, layout, &spec->output_projection);
    layer->edge_bias = loaded(layer, layout, spec->edge.bias, "");
    layer->edge_value_bias = loaded(layer, layout, spec->edge.value_bias, "");
    layer->posts[ATTNI_NORMALISATION] = bind_post(layer, layout, &spec->normalisation);
    layer->posts[ATTNI_ACTIVATION] = bind_post(layer, layout, &spec->activation);
}

enum attn_status attn_layer_create(const struct attn_spec *spec,
                                   const attn_weights *weights, attn_layer **layer,
                                   struct attn_error *error)
{
    struct layout layout;
    enum attn_status status = attni_spec_check(spec, error);
    if (status == ATTN_OK) {
        status = lay_out(spec, weights, &layout, error);
    }
    if (status) {
        return status;
    }
    attn_layer *created = calloc(1, sizeof *created);
    if (!created) {
        return attni_fail_memory(error);
    }
    created->spec = *spec;
    created->n_floats = layout.n_floats;
    created->parameters = attn_alloc(layout.n_floats * sizeof(float));
    if (!created->parameters) {
        status = attni_fail_memory(error);
        goto out;
    }
    /* between parameters there may be gaps, which kernels read as the ends of panels */
    memset(created->parameters, 0, layout.n_floats * sizeof(float));
    for (size_t i = 0; i < layout.n && status == ATTN_OK; i++) {
        if (layout.tensors[i]) {
            status = load(spec, &layout.parameters[i], layout.tensors[i],
                          created->parameters + layout.offsets[i], error);
        }
    }
    if (status) {
        goto out;
    }
    bind(created, &layout);
    created->n_learned = attni_spec_parameters(&created->spec, created->learned);
    attni_port_names_fill(created);
    attni_fingerprint(spec, layout.parameters, layout.tensors, layout.n,
                      created->fingerprint);
    *layer = created;
    created = NULL;
out:
    attn_layer_free(created);
    return status;
}

void attn_layer_free(attn_layer *layer)
{
    if (layer) {
        attn_free(layer->parameters);
        free(layer);
    }
}

const struct attn_spec *attn_layer_spec(const attn_layer *layer)
{
    return &layer->spec;
}

const char *attn_layer_fingerprint(const attn_layer *layer)
{
    return layer->fingerprint;
}

size_t attn_layer_bytes(const attn_layer *layer)
{
    return layer->n_floats * sizeof(float);
}
