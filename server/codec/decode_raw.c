/* decode_raw.c - a body that is the bytes of the only input.
 *
 * Runs on the worker that decodes the request; keeps no state. */
#include "codec/decode_raw.h"
#include "codec/input.h"
#include "codec/mode.h"
#include "codec/parameters.h"
#include "codec/text.h"

#include <stdint.h>
#include <string.h>

/* As the protocol calls the types that inputs have. */
static const char *datatype_of(enum attn_dtype dtype)
{
    return dtype == ATTN_F32 ? "FP32" : dtype == ATTN_BOOL ? "BOOL" : "INT64";
}

static enum ad_status find_input(const struct ad_request *request, struct ad_input *input,
                                 struct ad_error *error)
{
    struct ad_text names = {0};
    input->port = ad_mode_required(request, &names);
    if (!input->port) {
        return ad_fail(
            error, AD_INVALID,
            "a raw binary request (Inference-Header-Content-Length 0) is for a "
            "model with one required input; model '%.128s' requires %s",
            request->version->model, names.n > 0 ? names.bytes : "none");
    }
    input->wire = input->dtype = input->port->dtype;
    input->datatype = datatype_of(input->dtype);
    return AD_OK;
}

/* "[1,-1,8]", as the port has it with a batch of one */
static void add_port_shape(const struct attn_port *port, struct ad_text *text)
{
    for (size_t i = 0; i < port->rank; i++) {
        ad_text_add(text, "%s%lld", i > 0 ? "," : "[",
                    i == 0 && port->shape[0] < 0 ? 1LL : (long long)port->shape[i]);
    }
    ad_text_add(text, "%s", port->rank > 0 ? "]" : "[]");
}

/* Everything but the axis that is open: its index, or the rank where none is. */
static enum ad_status read_port_shape(struct ad_input *input, size_t *open,
                                      struct ad_error *error)
{
    const struct attn_port *port = input->port;
    input->rank = *open = port->rank;
    for (size_t i = 0; i < port->rank; i++) {
        input->shape[i] = port->shape[i] < 0 ? 1 : (size_t)port->shape[i];
        if (port->shape[i] >= 0 || i == 0) {
            continue;
        }
        if (*open < port->rank) {
            struct ad_text shape = {0};
            add_port_shape(port, &shape);
            return ad_fail(
                error, AD_INVALID,
                "input '%s' of shape %s leaves several axes open, so that a raw "
                "binary request cannot say what it means; send JSON first",
                port->name, shape.bytes);
        }
        *open = i;
    }
    return AD_OK;
}

/* Give the open axis the size that the bytes make up. */
static enum ad_status settle_shape(const struct ad_request *request,
                                   struct ad_input *input, struct ad_error *error)
{
    size_t open = 0, unit = 0;
    enum ad_status status = read_port_shape(input, &open, error);
    if (status) {
        return status;
    }
    struct attn_tensor tensor = {.dtype = input->dtype, .rank = input->rank};
    memcpy(tensor.shape, input->shape, sizeof input->shape);
    size_t n_bytes = request->body.size;
    bool fits = attn_tensor_bytes(&tensor, &unit) == ATTN_OK && unit > 0 &&
                (open < input->rank ? n_bytes % unit == 0 : n_bytes == unit);
    if (!fits) {
        struct ad_text shape = {0};
        add_port_shape(input->port, &shape);
        return ad_fail(error, AD_INVALID,
                       "input '%s' of shape %s (%s) takes %s%zu bytes, the body has %zu",
                       input->port->name, shape.bytes, input->datatype,
                       open < input->rank ? "a multiple of " : "", unit, n_bytes);
    }
    if (open < input->rank) {
        input->shape[open] = n_bytes / unit;
    }
    input->n_bytes = n_bytes;
    input->n = n_bytes / attn_dtype_size(input->dtype);
    return AD_OK;
}

enum ad_status ad_decode_raw(struct ad_request *request, struct ad_error *error)
{
    struct ad_input input = {.is_binary = true};
    enum ad_status status = ad_parameters_none(request, error);
    if (!status) {
        status = ad_mode_settle(request, error);
    }
    if (!status) {
        status = find_input(request, &input, error);
    }
    if (!status) {
        status = settle_shape(request, &input, error);
    }
    if (status) {
        return status;
    }
    struct attn_named_tensor *named =
        ad_arena_array(&request->arena, 1, sizeof *request->inputs);
    if (!named) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    *named = (struct attn_named_tensor){
        .name = input.port->name, .tensor = {.dtype = input.dtype, .rank = input.rank}};
    memcpy(named->tensor.shape, input.shape, sizeof input.shape);
    request->inputs = named;
    request->n_inputs = 1;
    request->binary_default = true;
    return ad_input_read_binary(&input, request->body.data, &request->arena,
                                &named->tensor.data, error);
}
