/* decode.c - the body of an infer request -> its inputs and wishes.
 *
 * The scanner takes the numbers out of the JSON part, jansson reads what is left, and each input is
 * then read straight from the body. Runs on the worker that holds the request. */
#include "codec/decode.h"
#include "base/json_load.h"
#include "codec/decode_raw.h"
#include "codec/fills.h"
#include "codec/input.h"
#include "codec/mode.h"
#include "codec/parameters.h"
#include "codec/predict.h"
#include "codec/scan.h"
#include "codec/shared.h"
#include "codec/text.h"
#include "codec/unpack.h"

#include <jansson.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>

struct decoder {
    struct ad_request *request;
    locale_t c_locale;
    struct ad_envelope envelope;
    struct ad_fills fills;
    size_t binary_at; /* offset in the body of the next binary tensor */
    struct ad_error *error;
};

static enum ad_status fail_memory(struct decoder *d)
{
    return ad_fail(d->error, AD_INTERNAL, "out of memory");
}

/* ---- what is asked for ----------------------------------------------------------------- */

static enum ad_status read_id(struct decoder *d, const json_t *root)
{
    const json_t *value = json_object_get(root, "id");
    if (!value) {
        return AD_OK;
    }
    if (!json_is_string(value)) {
        return ad_fail(d->error, AD_INVALID, "id must be a string, got %s",
                       ad_json_kind(value));
    }
    size_t n = json_string_length(value);
    if (n == 0) {
        return AD_OK;
    }
    d->request->id = ad_arena_strndup(&d->request->arena, json_string_value(value), n);
    return d->request->id ? AD_OK : fail_memory(d);
}

static const struct attn_port *find_output(const struct ad_request *request,
                                           const char *name)
{
    for (size_t i = 0; i < request->n_output_ports; i++) {
        if (strcmp(request->output_ports[i].name, name) == 0) {
            return &request->output_ports[i];
        }
    }
    return NULL;
}

static enum ad_status fail_output(struct decoder *d, const char *name, size_t index)
{
    const struct ad_request *request = d->request;
    struct ad_text known = {0};
    ad_text_add_ports(&known, request->output_ports, request->n_output_ports);
    return ad_fail(d->error, AD_INVALID,
                   "outputs[%zu]: unknown output '%.128s'%s; model '%.128s' has %s",
                   index, name, ad_mode_hint(request, false, name),
                   request->version->model, known.bytes);
}

static enum ad_status read_output(struct decoder *d, json_t *object, size_t index)
{
    struct ad_request *request = d->request;
    if (!json_is_object(object)) {
        return ad_fail(d->error, AD_INVALID, "outputs[%zu] must be an object, got %s",
                       index, ad_json_kind(object));
    }
    const json_t *value = json_object_get(object, "name");
    const char *name = json_string_value(value);
    if (!name) {
        return ad_fail(d->error, AD_INVALID, "outputs[%zu].name must be a string, got %s",
                       index, ad_json_kind(value));
    }
    const struct attn_port *port = find_output(request, name);
    if (!port) {
        return fail_output(d, name, index);
    }
    for (size_t i = 0; i < request->n_wanted; i++) {
        if (request->wanted[i].name == port->name) {
            return ad_fail(d->error, AD_INVALID,
                           "outputs[%zu]: output '%s' is listed twice", index, name);
        }
    }
    struct ad_wanted_output *wanted = &request->wanted[request->n_wanted++];
    *wanted =
        (struct ad_wanted_output){.name = port->name, .binary = request->binary_default};
    struct ad_shared place = {.region = NULL};
    enum ad_status status = ad_parameters_of_output(request, object, port->name,
                                                    &wanted->binary, &place, d->error);
    return status || !place.region ? status
                                   : ad_shared_reserve(request, &place, wanted, d->error);
}

/* Absent or empty: the defaults. A name can only come once, so all fit in an array of the outputs
 * that there are; so do inputs. */
static enum ad_status read_outputs(struct decoder *d, const json_t *root)
{
    const json_t *outputs = json_object_get(root, "outputs");
    if (!outputs) {
        return AD_OK;
    }
    if (!json_is_array(outputs)) {
        return ad_fail(d->error, AD_INVALID, "outputs must be a list, got %s",
                       ad_json_kind(outputs));
    }
    struct ad_request *request = d->request;
    request->wanted =
        ad_arena_array(&request->arena, request->n_output_ports, sizeof *request->wanted);
    if (!request->wanted) {
        return fail_memory(d);
    }
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        enum ad_status status = read_output(d, json_array_get(outputs, i), i);
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

/* ---- inputs ---------------------------------------------------------------------------- */

static enum ad_status read_binary(struct decoder *d, const struct ad_input *input,
                                  const void **elements)
{
    const struct ad_buffer *body = &d->request->body;
    size_t left = body->size - d->binary_at;
    if (input->n_bytes > left) {
        return ad_fail(
            d->error, AD_INVALID,
            "unexpected size for input '%s', expecting %zu additional bytes for "
            "model '%.128s'",
            input->port->name, input->n_bytes - left, d->request->version->model);
    }
    const char *bytes = body->data + d->binary_at;
    d->binary_at += input->n_bytes;
    return ad_input_read_binary(input, bytes, &d->request->arena, elements, d->error);
}

/* Its numbers are read when all inputs are known. */
static enum ad_status read_json(struct decoder *d, const struct ad_input *input,
                                const void **elements)
{
    const struct ad_span *span = &d->envelope.data[input->data];
    return ad_fills_add(&d->fills, input, d->request->body.data + span->begin,
                        span->end - span->begin, &d->request->arena, elements, d->error);
}

static enum ad_status read_input(struct decoder *d, json_t *object, size_t index)
{
    struct ad_request *request = d->request;
    struct ad_input input = {0};
    enum ad_status status = ad_input_describe(&input, request, object, index, d->error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < request->n_inputs; i++) {
        if (request->inputs[i].name == input.port->name) {
            return ad_fail(d->error, AD_INVALID, "inputs[%zu]: input '%s' is given twice",
                           index, input.port->name);
        }
    }
    struct attn_named_tensor *named = &request->inputs[request->n_inputs];
    *named = (struct attn_named_tensor){
        .name = input.port->name, .tensor = {.dtype = input.dtype, .rank = input.rank}};
    memcpy(named->tensor.shape, input.shape, sizeof input.shape);
    status = input.shared.region
                 ? ad_shared_read(request, &input, &named->tensor.data, d->error)
             : input.is_binary ? read_binary(d, &input, &named->tensor.data)
                               : read_json(d, &input, &named->tensor.data);
    request->n_inputs += !status;
    return status;
}

static enum ad_status read_inputs(struct decoder *d, const json_t *root)
{
    struct ad_request *request = d->request;
    const json_t *inputs = json_object_get(root, "inputs");
    if (!json_is_array(inputs)) {
        return ad_fail(d->error, AD_INVALID, "inputs must be a list, got %s",
                       ad_json_kind(inputs));
    }
    request->inputs =
        ad_arena_array(&request->arena, request->n_input_ports, sizeof *request->inputs);
    if (!request->inputs ||
        !ad_fills_begin(&d->fills, request->n_input_ports, &request->arena)) {
        return fail_memory(d);
    }
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        enum ad_status status = read_input(d, json_array_get(inputs, i), i);
        if (status) {
            return status;
        }
    }
    if (d->binary_at < request->body.size) {
        return ad_fail(d->error, AD_INVALID,
                       "unexpected additional input data for model '%.128s': %zu bytes "
                       "behind the last tensor",
                       request->version->model, request->body.size - d->binary_at);
    }
    return ad_fills_run(&d->fills, request->helpers, d->c_locale, d->error);
}

/* ---- the whole ------------------------------------------------------------------------- */

static enum ad_status load_envelope(struct decoder *d, json_t **root)
{
    json_error_t fault;
    *root =
        ad_json_load(d->envelope.text, d->envelope.size, JSON_REJECT_DUPLICATES, &fault);
    if (*root) {
        return AD_OK;
    }
    if (json_error_code(&fault) == json_error_duplicate_key) {
        size_t offset = ad_envelope_original(&d->envelope, (size_t)fault.position);
        return ad_fail(d->error, AD_INVALID, "invalid JSON at offset %zu: %s", offset,
                       fault.text);
    }
    /* The scanner has let nothing else through that could fail. */
    return fail_memory(d);
}

static enum ad_status decode_json(struct decoder *d)
{
    struct ad_request *request = d->request;
    enum ad_status status =
        ad_scan_request(request->body.data, request->n_json, d->c_locale, &request->arena,
                        &d->envelope, d->error);
    if (status) {
        return status;
    }
    json_t *root = NULL;
    status = load_envelope(d, &root);
    if (!status) {
        status = read_id(d, root);
    }
    if (!status) {
        status = ad_parameters_of_request(request, root, d->error);
    }
    if (!status) {
        status = ad_mode_settle(request, d->error);
    }
    if (!status) {
        status = read_outputs(d, root);
    }
    if (!status) {
        status = read_inputs(d, root);
    }
    json_decref(root);
    return status;
}

static enum ad_status decode_infer(struct ad_request *request, struct ad_error *error)
{
    struct decoder decoder = {
        .request = request, .binary_at = request->n_json, .error = error};
    decoder.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!decoder.c_locale) {
        return fail_memory(&decoder);
    }
    enum ad_status status = decode_json(&decoder);
    freelocale(decoder.c_locale);
    return status;
}

enum ad_status ad_decode_infer(struct ad_request *request, struct ad_error *error)
{
    enum ad_status status = ad_unpack_body(request, error);
    if (status) {
        return status;
    }
    if (request->body.size == 0) {
        return ad_fail(error, AD_INVALID, "the body is empty: expected %s",
                       request->form == AD_FORM_RAW       ? "the bytes of an input"
                       : request->form == AD_FORM_PREDICT ? "a JSON object with instances"
                                                          : "a JSON object with inputs");
    }
    switch (request->form) {
    case AD_FORM_RAW:
        return ad_decode_raw(request, error);
    case AD_FORM_PREDICT:
        return ad_predict_decode(request, error);
    case AD_FORM_INFER:
        break;
    }
    return decode_infer(request, error);
}
