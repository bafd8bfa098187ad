/* predict.c - the envelope of KServe's first protocol, both ways.
 *
 * Runs on the worker that holds the request; keeps no state. */
#include "codec/predict.h"
#include "base/json_load.h"
#include "codec/encode.h"
#include "codec/instances.h"
#include "codec/mode.h"
#include "codec/parameters.h"
#include "codec/scan.h"

#include <assert.h>
#include <jansson.h>
#include <locale.h>
#include <stdbool.h>
#include <string.h>

/* ---- {"instances": ...} ------------------------------------------------------------------------ */

struct envelope {
    struct ad_request *request;
    struct ad_cursor cursor;
    locale_t c_locale;
    bool has_instances;
    size_t n_other; /* bytes of other members */
    struct ad_error *error;
};

/* A member that means nothing here has to be JSON all the same. */
static enum ad_status skip_member(struct envelope *e)
{
    const char *begin = e->cursor.at;
    if (!ad_cursor_skip_value(&e->cursor)) {
        return ad_cursor_fail(&e->cursor, "a value that ends", e->error);
    }
    size_t n = (size_t)(e->cursor.at - begin);
    e->n_other += n;
    if (e->n_other > AD_SCAN_MAX_ENVELOPE) {
        return ad_fail(e->error, AD_TOO_LARGE,
                       "the JSON beside instances takes more than the %zu bytes that are "
                       "accepted",
                       AD_SCAN_MAX_ENVELOPE);
    }
    json_error_t fault;
    json_t *value = ad_json_load(begin, n, JSON_DECODE_ANY, &fault);
    if (value) {
        json_decref(value);
        return AD_OK;
    }
    return ad_json_no_memory(&fault)
               ? ad_fail(e->error, AD_INTERNAL, "out of memory")
               : ad_fail(e->error, AD_INVALID, "invalid JSON at offset %zu: %s",
                         (size_t)(begin - e->cursor.begin) + (size_t)fault.position,
                         fault.text);
}

static enum ad_status read_member(struct envelope *e)
{
    struct ad_member member;
    enum ad_status status = ad_member_take(&e->cursor, &member, e->error);
    if (status) {
        return status;
    }
    if (!ad_member_is(&member, "instances")) {
        return skip_member(e);
    }
    if (e->has_instances) {
        return ad_fail(e->error, AD_INVALID, "instances is given twice");
    }
    e->has_instances = true;
    return ad_instances_read(e->request, &e->cursor, e->c_locale, e->error);
}

static enum ad_status read_envelope(struct envelope *e)
{
    if (!ad_cursor_take(&e->cursor, '{')) {
        return ad_cursor_fail(&e->cursor, "a JSON object", e->error);
    }
    enum ad_status status = AD_OK;
    bool more = !ad_cursor_is(&e->cursor, '}');
    while (!status && more) {
        status = read_member(e);
        more = !status && ad_cursor_take(&e->cursor, ',');
    }
    if (status) {
        return status;
    }
    if (!ad_cursor_take(&e->cursor, '}')) {
        return ad_cursor_fail(&e->cursor, "',' or '}'", e->error);
    }
    if (e->cursor.at != e->cursor.end) {
        return ad_cursor_fail(&e->cursor, "nothing after the JSON object", e->error);
    }
    return e->has_instances
               ? AD_OK
               : ad_fail(e->error, AD_INVALID,
                         "expected a member instances, a list with an entry for each "
                         "sample");
}

enum ad_status ad_predict_decode(struct ad_request *request, struct ad_error *error)
{
    const struct ad_buffer *body = &request->body;
    struct envelope e = {.request = request,
                         .cursor = {body->data, body->data, body->data + body->size},
                         .error = error};
    enum ad_status status = ad_parameters_none(request, error);
    if (!status) {
        status = ad_mode_settle(request, error);
    }
    if (status) {
        return status;
    }
    e.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!e.c_locale) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    status = read_envelope(&e);
    freelocale(e.c_locale);
    return status;
}

/* ---- {"predictions": ...} ---------------------------------------------------------------------- */

static bool put(struct ad_buffer *buffer, const char *text)
{
    return ad_buffer_append(buffer, text, strlen(text));
}

static enum ad_status fail_memory(struct ad_error *error)
{
    return ad_fail(error, AD_INTERNAL, "out of memory");
}

/* Elements below an axis. */
static size_t elements_below(const struct attn_tensor *tensor, size_t axis)
{
    size_t n = 1;
    for (size_t i = axis + 1; i < tensor->rank; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

/* The list along an axis whose elements are those from the first-th on. */
/* NOLINTNEXTLINE(misc-no-recursion): no deeper than a tensor has axes */
static enum ad_status put_list(struct ad_request *request,
                               const struct attn_named_tensor *output, size_t axis,
                               size_t first, struct ad_error *error)
{
    const struct attn_tensor *tensor = &output->tensor;
    struct ad_buffer *reply = &request->reply;
    if (axis >= tensor->rank) {
        return ad_encode_floats(request, output, first, 1, error);
    }
    if (!put(reply, "[")) {
        return fail_memory(error);
    }
    enum ad_status status = AD_OK;
    if (axis + 1 == tensor->rank) {
        status = ad_encode_floats(request, output, first, tensor->shape[axis], error);
    } else {
        size_t step = elements_below(tensor, axis);
        for (size_t i = 0; !status && i < tensor->shape[axis]; i++) {
            status = i == 0 || put(reply, ",")
                         ? put_list(request, output, axis + 1, first + i * step, error)
                         : fail_memory(error);
        }
    }
    return status || put(reply, "]") ? status : fail_memory(error);
}

static enum ad_status put_sample(struct ad_request *request,
                                 const struct attn_named_tensor *output, size_t index,
                                 struct ad_error *error)
{
    return put_list(request, output, 1, index * elements_below(&output->tensor, 0),
                    error);
}

/* {"out":[[1,2]],"attention":...} */
static enum ad_status put_samples(struct ad_request *request,
                                  const struct attn_named_tensor *outputs,
                                  size_t n_outputs, size_t index, struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < n_outputs; i++) {
        status = put(reply, i > 0 ? "," : "{") &&
                         ad_encode_string(reply, outputs[i].name) && put(reply, ":")
                     ? put_sample(request, &outputs[i], index, error)
                     : fail_memory(error);
    }
    return status || put(reply, "}") ? status : fail_memory(error);
}

enum ad_status ad_predict_encode(struct ad_request *request,
                                 const struct attn_named_tensor *outputs,
                                 size_t n_outputs, struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    assert(n_outputs > 0 && outputs[0].tensor.rank > 0);
    size_t n = outputs[0].tensor.shape[0];
    for (size_t i = 1; i < n_outputs; i++) {
        assert(outputs[i].tensor.rank > 0 && outputs[i].tensor.shape[0] == n);
    }
    enum ad_status status = put(reply, "{\"predictions\":[") ? AD_OK : fail_memory(error);
    for (size_t i = 0; !status && i < n; i++) {
        if (i > 0 && !put(reply, ",")) {
            return fail_memory(error);
        }
        status = n_outputs == 1 ? put_sample(request, outputs, i, error)
                                : put_samples(request, outputs, n_outputs, i, error);
    }
    if (!status && !put(reply, "]}")) {
        return fail_memory(error);
    }
    request->n_reply_json = reply->size;
    return status;
}
