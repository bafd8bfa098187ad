/* input.c - what an input's object says: name, datatype, shape, and where its elements are.
 *
 * Runs on the worker that decodes the request; keeps no state. */
#include "codec/input.h"
#include "codec/mode.h"
#include "codec/parameters.h"
#include "codec/text.h"

#include <string.h>

/* The protocol's names; BYTES aside, each is a type of ours. */
static const struct {
    const char *name;
    enum attn_dtype dtype;
} datatypes[] = {
    {"FP32", ATTN_F32},   {"FP64", ATTN_F64}, {"FP16", ATTN_F16},   {"BF16", ATTN_BF16},
    {"BOOL", ATTN_BOOL},  {"INT8", ATTN_I8},  {"INT16", ATTN_I16},  {"INT32", ATTN_I32},
    {"INT64", ATTN_I64},  {"UINT8", ATTN_U8}, {"UINT16", ATTN_U16}, {"UINT32", ATTN_U32},
    {"UINT64", ATTN_U64},
};

static bool is_float(enum attn_dtype dtype)
{
    return dtype == ATTN_F32 || dtype == ATTN_F64 || dtype == ATTN_F16 ||
           dtype == ATTN_BF16;
}

static bool is_index(enum attn_dtype dtype)
{
    return dtype == ATTN_I32 || dtype == ATTN_I64;
}

static bool port_takes(enum attn_dtype port, enum attn_dtype wire)
{
    return port == wire || (is_float(port) && is_float(wire)) ||
           (is_index(port) && is_index(wire));
}

static const char *port_wants(enum attn_dtype port)
{
    return is_float(port)   ? "FP32, FP64, FP16 or BF16"
           : is_index(port) ? "INT64 or INT32"
                            : "BOOL";
}

static enum ad_status read_name(struct ad_input *input, const struct ad_request *request,
                                const json_t *object, size_t index,
                                struct ad_error *error)
{
    const json_t *value = json_object_get(object, "name");
    const char *name = json_string_value(value);
    if (!name) {
        return ad_fail(error, AD_INVALID, "inputs[%zu].name must be a string, got %s",
                       index, ad_json_kind(value));
    }
    for (size_t i = 0; i < request->n_input_ports; i++) {
        if (strcmp(request->input_ports[i].name, name) == 0) {
            input->port = &request->input_ports[i];
            return AD_OK;
        }
    }
    struct ad_text known = {0};
    ad_text_add_ports(&known, request->input_ports, request->n_input_ports);
    return ad_fail(error, AD_INVALID,
                   "inputs[%zu]: unknown input '%.128s'%s; model '%.128s' takes %s",
                   index, name, ad_mode_hint(request, true, name),
                   request->version->model, known.bytes);
}

static enum ad_status read_datatype(struct ad_input *input, const json_t *object,
                                    struct ad_error *error)
{
    const char *name = input->port->name;
    const char *wants = port_wants(input->port->dtype);
    const json_t *value = json_object_get(object, "datatype");
    const char *text = json_string_value(value);
    if (!text) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': datatype must be a string (%s), got %s", name, wants,
                       ad_json_kind(value));
    }
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++) {
        if (strcmp(datatypes[i].name, text) == 0 &&
            port_takes(input->port->dtype, datatypes[i].dtype)) {
            input->datatype = datatypes[i].name;
            input->wire = datatypes[i].dtype;
            input->dtype = is_float(input->wire) ? ATTN_F32 : input->wire;
            return AD_OK;
        }
        if (strcmp(datatypes[i].name, text) == 0 || strcmp(text, "BYTES") == 0) {
            return ad_fail(error, AD_INVALID,
                           "input '%s': wrong datatype: expected %s, got %s", name, wants,
                           text);
        }
    }
    return ad_fail(error, AD_INVALID, "input '%s': unknown datatype '%.64s': expected %s",
                   name, text, wants);
}

static enum ad_status read_dimension(struct ad_input *input, size_t axis,
                                     const json_t *value, struct ad_error *error)
{
    const char *name = input->port->name;
    if (json_is_real(value)) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': shape[%zu] must be an integer, got %g", name, axis,
                       json_real_value(value));
    }
    if (!json_is_integer(value)) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': shape[%zu] must be an integer, got %s", name, axis,
                       ad_json_kind(value));
    }
    json_int_t dimension = json_integer_value(value);
    if (dimension < 0) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': shape[%zu] must not be negative, got "
                       "%" JSON_INTEGER_FORMAT,
                       name, axis, dimension);
    }
    input->shape[axis] = (size_t)dimension;
    return AD_OK;
}

static enum ad_status read_shape(struct ad_input *input, const json_t *object,
                                 struct ad_error *error)
{
    const char *name = input->port->name;
    const json_t *value = json_object_get(object, "shape");
    if (!json_is_array(value)) {
        return ad_fail(error, AD_INVALID, "input '%s': shape must be a list, got %s",
                       name, ad_json_kind(value));
    }
    input->rank = json_array_size(value);
    if (input->rank > ATTN_MAX_RANK) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': shape has %zu dimensions, expected at most %d", name,
                       input->rank, ATTN_MAX_RANK);
    }
    struct attn_tensor tensor = {.dtype = input->wire, .rank = input->rank};
    for (size_t i = 0; i < input->rank; i++) {
        enum ad_status status = read_dimension(input, i, json_array_get(value, i), error);
        if (status) {
            return status;
        }
        tensor.shape[i] = input->shape[i];
    }
    size_t n_bytes;
    if (attn_tensor_count(&tensor, &input->n) != ATTN_OK ||
        attn_tensor_bytes(&tensor, &n_bytes) != ATTN_OK) {
        struct ad_text shape = {0};
        ad_text_add_shape(&shape, input->shape, input->rank);
        return ad_fail(error, AD_INVALID,
                       "input '%s': shape %s has more elements than memory can hold",
                       name, shape.bytes);
    }
    input->n_bytes = n_bytes;
    return AD_OK;
}

static enum ad_status check_size(const struct ad_input *input, const char *parameter,
                                 uint64_t size, struct ad_error *error)
{
    if (size == input->n_bytes) {
        return AD_OK;
    }
    struct ad_text shape = {0};
    ad_text_add_shape(&shape, input->shape, input->rank);
    return ad_fail(error, AD_INVALID,
                   "input '%s': %s must be %zu (%s, shape %s), got %llu",
                   input->port->name, parameter, input->n_bytes, input->datatype,
                   shape.bytes, (unsigned long long)size);
}

/* Where there is not exactly one source. */
static enum ad_status fail_source(const struct ad_input *input,
                                  const struct ad_request *request, size_t n,
                                  struct ad_error *error)
{
    return ad_fail(error, AD_INVALID,
                   "input '%s': expected %sdata%s parameter binary_data_size%s, got %s",
                   input->port->name, n == 0 ? "" : "either ",
                   request->regions ? "," : " or",
                   request->regions ? " or shared_memory_region" : "",
                   n == 0 ? request->regions ? "none" : "neither"
                   : n == 2 && !input->shared.region ? "both"
                                                     : "several");
}

/* Exactly one of `data`, binary_data_size and shared_memory_region; the size must be the shape's. */
static enum ad_status read_source(struct ad_input *input,
                                  const struct ad_request *request, json_t *object,
                                  struct ad_error *error)
{
    int64_t size;
    enum ad_status status = ad_parameters_of_input(request, object, input->port->name,
                                                   &size, &input->shared, error);
    if (status) {
        return status;
    }
    const json_t *data = json_object_get(object, "data");
    input->is_binary = size >= 0;
    size_t n = (size_t)input->is_binary + (data != NULL) + (input->shared.region != NULL);
    if (n != 1) {
        return fail_source(input, request, n, error);
    }
    if (data) {
        /* The scanner put the index there, whatever the client wrote. */
        input->data = (size_t)json_integer_value(data);
        return AD_OK;
    }
    return input->is_binary ? check_size(input, "binary_data_size", (uint64_t)size, error)
                            : check_size(input, "shared_memory_byte_size",
                                         input->shared.n_bytes, error);
}

enum ad_status ad_input_describe(struct ad_input *input, const struct ad_request *request,
                                 json_t *object, size_t index, struct ad_error *error)
{
    if (!json_is_object(object)) {
        return ad_fail(error, AD_INVALID, "inputs[%zu] must be an object, got %s", index,
                       ad_json_kind(object));
    }
    enum ad_status status = read_name(input, request, object, index, error);
    if (!status) {
        status = read_datatype(input, object, error);
    }
    if (!status) {
        status = read_shape(input, object, error);
    }
    return status ? status : read_source(input, request, object, error);
}
