/* encode.c - outputs -> the body of an infer reply: JSON, then the binary tensors.
 *
 * Numbers are written by our own writer, straight into the reply. Runs on the worker that holds the
 * request. */
#include "codec/encode.h"
#include "base/utf8.h"
#include "codec/floats.h"
#include "codec/shared.h"
#include "codec/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Floats written between two looks at the room that is left. */
#define FLOATS_AT_ONCE ((size_t)1024)

/* Floats of one task, how many tasks share a room in the reply, and floats that are worth a helper's
 * wake-up. */
#define STRETCH ((size_t)8 << 10)
#define STRETCHES_AT_ONCE ((size_t)16)
#define SHARED_FROM (4 * STRETCH)

#define ALIGNMENT ((size_t)64)

static bool put(struct ad_buffer *buffer, const char *text)
{
    return ad_buffer_append(buffer, text, strlen(text));
}

/* ---- strings --------------------------------------------------------------------------- */

/* Bytes at text that go into a JSON string as they are. */
static size_t plain_length(const char *text, size_t n)
{
    size_t length = 0;
    while (length < n) {
        unsigned char c = (unsigned char)text[length];
        size_t step = c < 0x20 || c == '"' || c == '\\'
                          ? 0
                          : ad_utf8_length(text + length, n - length);
        if (step == 0) {
            break;
        }
        length += step;
    }
    return length;
}

/* A byte that cannot stand as it is; one that is not UTF-8 becomes U+FFFD. */
static bool put_escaped(struct ad_buffer *buffer, char c)
{
    unsigned char byte = (unsigned char)c;
    if (c == '"' || c == '\\') {
        const char escaped[2] = {'\\', c};
        return ad_buffer_append(buffer, escaped, sizeof escaped);
    }
    return byte < 0x20 ? ad_buffer_printf(buffer, "\\u%04x", byte)
                       : put(buffer, "\\ufffd");
}

bool ad_encode_string(struct ad_buffer *buffer, const char *text)
{
    size_t left = strlen(text);
    bool ok = put(buffer, "\"");
    while (ok && left > 0) {
        size_t n = plain_length(text, left);
        ok = ad_buffer_append(buffer, text, n);
        if (ok && n < left) {
            ok = put_escaped(buffer, text[n]);
            n++;
        }
        text += n;
        left -= n;
    }
    return ok && put(buffer, "\"");
}

/* ---- numbers --------------------------------------------------------------------------- */

static const char *nonfinite_literal(float value)
{
    return isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

static enum ad_status fail_nonfinite(enum ad_form form,
                                     const struct attn_named_tensor *output,
                                     size_t element, float value, struct ad_error *error)
{
    const struct attn_tensor *tensor = &output->tensor;
    size_t index[ATTN_MAX_RANK];
    for (size_t axis = tensor->rank; axis-- > 0;) {
        index[axis] = element % tensor->shape[axis];
        element /= tensor->shape[axis];
    }
    struct ad_text place = {0};
    ad_text_add_shape(&place, index, tensor->rank);
    return ad_fail(error, AD_NONFINITE,
                   "output '%s' holds %s at %s, which JSON does not have; %s",
                   output->name, nonfinite_literal(value), place.bytes,
                   form == AD_FORM_PREDICT
                       ? "ask for it in binary, at /v2/models/MODEL/infer"
                       : "ask for the output in binary (binary_data), or pass the "
                         "parameter nonfinite as \"null\" or \"literal\"");
}

static size_t count_finite(const float *floats, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(floats[i])) {
        i++;
    }
    return i;
}

/* Write floats [from, to), each with a comma behind it; there is room. False: *bad is not finite and
 * the policy forbids it. */
static bool write_floats(struct ad_buffer *reply, const float *floats, size_t from,
                         size_t to, enum ad_nonfinite policy, size_t *bad)
{
    char *at = reply->data + reply->size;
    while (from < to) {
        size_t n_finite = count_finite(floats + from, to - from);
        at += ad_floats_write(floats + from, n_finite, at);
        from += n_finite;
        if (from == to) {
            break;
        }
        if (policy == AD_NONFINITE_ERROR) {
            *bad = from;
            return false;
        }
        const char *text =
            policy == AD_NONFINITE_NULL ? "null" : nonfinite_literal(floats[from]);
        size_t n = strlen(text);
        memcpy(at, text, n);
        at[n] = ',';
        at += n + 1;
        from++;
    }
    *at = '\0';
    reply->size = (size_t)(at - reply->data);
    return true;
}

/* ---- many numbers, on several workers ---------------------------------------------------------- */

/* A stretch of an output: written where there is room for the longest, then brought together. */
struct stretch {
    struct ad_buffer text; /* a view of the reply */
    size_t from, to;
    size_t bad;
    bool ok;
};

/* What the tasks share. */
struct writing {
    const float *floats;
    enum ad_nonfinite policy;
    struct stretch stretches[STRETCHES_AT_ONCE];
};

static void write_stretch(void *argument, size_t task, size_t worker)
{
    struct writing *writing = argument;
    struct stretch *stretch = &writing->stretches[task];
    (void)worker;
    stretch->ok = write_floats(&stretch->text, writing->floats, stretch->from,
                               stretch->to, writing->policy, &stretch->bad);
}

/* Lay stretches over floats [from, to) and the room behind the reply; their number. */
static size_t lay_stretches(struct writing *writing, const struct ad_buffer *reply,
                            size_t from, size_t to)
{
    size_t n = 0;
    char *room = reply->data + reply->size;
    for (; from < to; n++) {
        size_t end = to - from < STRETCH ? to : from + STRETCH;
        writing->stretches[n] =
            (struct stretch){.text = {.data = room}, .from = from, .to = end};
        room += AD_FLOATS_ROOM(end - from);
        from = end;
    }
    return n;
}

/* Floats [from, to), a few stretches of them. False: out of memory, or *bad is not finite. */
static enum ad_status write_together(struct ad_request *request, struct writing *writing,
                                     size_t from, size_t to, size_t *bad,
                                     struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    size_t n_most = (to - from) / STRETCH + 1;
    if (!ad_buffer_reserve(reply,
                           AD_FLOATS_ROOM(to - from) + n_most * AD_FLOATS_ROOM(0))) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    size_t n = lay_stretches(writing, reply, from, to);
    request->helpers->run(request->helpers->context, n, write_stretch, writing);
    for (size_t i = 0; i < n; i++) {
        const struct stretch *stretch = &writing->stretches[i];
        if (!stretch->ok) {
            *bad = stretch->bad;
            return AD_NONFINITE;
        }
        memmove(reply->data + reply->size, stretch->text.data, stretch->text.size);
        reply->size += stretch->text.size;
    }
    reply->data[reply->size] = '\0';
    return AD_OK;
}

static enum ad_status write_shared(struct ad_request *request,
                                   const struct attn_named_tensor *output,
                                   const float *floats, size_t first, size_t n,
                                   struct ad_error *error)
{
    struct writing writing = {.floats = floats, .policy = request->nonfinite};
    for (size_t from = 0; from < n; from += STRETCHES_AT_ONCE * STRETCH) {
        size_t left = n - from;
        size_t to =
            left < STRETCHES_AT_ONCE * STRETCH ? n : from + STRETCHES_AT_ONCE * STRETCH;
        size_t bad = 0;
        enum ad_status status = write_together(request, &writing, from, to, &bad, error);
        if (status == AD_NONFINITE) {
            return fail_nonfinite(request->form, output, first + bad, floats[bad], error);
        }
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

/* ---- numbers of an output ---------------------------------------------------------------------- */

static enum ad_status write_alone(struct ad_request *request,
                                  const struct attn_named_tensor *output,
                                  const float *floats, size_t first, size_t n,
                                  struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    for (size_t from = 0; from < n; from += FLOATS_AT_ONCE) {
        size_t to = n - from < FLOATS_AT_ONCE ? n : from + FLOATS_AT_ONCE;
        size_t bad = 0;
        if (!ad_buffer_reserve(reply, AD_FLOATS_ROOM(to - from))) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        if (!write_floats(reply, floats, from, to, request->nonfinite, &bad)) {
            return fail_nonfinite(request->form, output, first + bad, floats[bad], error);
        }
    }
    return AD_OK;
}

enum ad_status ad_encode_floats(struct ad_request *request,
                                const struct attn_named_tensor *output, size_t first,
                                size_t n, struct ad_error *error)
{
    const float *floats = output->tensor.data;
    floats = n > 0 ? floats + first : floats;
    enum ad_status status = request->helpers && n >= SHARED_FROM
                                ? write_shared(request, output, floats, first, n, error)
                                : write_alone(request, output, floats, first, n, error);
    request->reply.size -= !status && n > 0; /* the last comma */
    return status;
}

/* ---- outputs --------------------------------------------------------------------------- */

/* Where an output went that is in shared memory. */
static bool put_place(struct ad_buffer *reply, const struct ad_wanted_output *wanted,
                      size_t n_bytes)
{
    bool ok = put(reply, ",\"parameters\":{\"shared_memory_region\":") &&
              ad_encode_string(reply, wanted->region->name);
    if (ok && wanted->offset > 0) {
        ok =
            ad_buffer_printf(reply, ",\"shared_memory_offset\":%" PRIu64, wanted->offset);
    }
    return ok && ad_buffer_printf(reply, ",\"shared_memory_byte_size\":%zu}}", n_bytes);
}

static bool wants_binary(const struct ad_request *request, size_t index)
{
    return request->n_wanted > 0 ? request->wanted[index].binary
                                 : request->binary_default;
}

static bool is_shared(const struct ad_request *request, size_t index)
{
    return request->n_wanted > 0 && request->wanted[index].region;
}

/* {"name":"out","datatype":"FP32","shape":[1,2] */
static bool put_output_head(struct ad_buffer *reply,
                            const struct attn_named_tensor *output)
{
    bool ok = put(reply, "{\"name\":") && ad_encode_string(reply, output->name) &&
              put(reply, ",\"datatype\":\"FP32\",\"shape\":[");
    for (size_t i = 0; ok && i < output->tensor.rank; i++) {
        ok = ad_buffer_printf(reply, "%s%zu", i > 0 ? "," : "", output->tensor.shape[i]);
    }
    return ok && put(reply, "]");
}

/* *n_binary grows by the bytes that will follow the JSON. */
static enum ad_status put_output(struct ad_request *request,
                                 const struct attn_named_tensor *output, size_t index,
                                 size_t *n_binary, struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    bool binary = wants_binary(request, index);
    size_t n, n_bytes;
    if (attn_tensor_count(&output->tensor, &n) != ATTN_OK ||
        attn_tensor_bytes(&output->tensor, &n_bytes) != ATTN_OK ||
        __builtin_add_overflow(*n_binary, binary ? n_bytes : 0, n_binary)) {
        return ad_fail(error, AD_TOO_LARGE, "output '%s' is larger than memory",
                       output->name);
    }
    if (!put_output_head(reply, output)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    bool ok = true;
    if (is_shared(request, index)) {
        ok = put_place(reply, &request->wanted[index], n_bytes);
    } else if (binary) {
        ok = ad_buffer_printf(reply, ",\"parameters\":{\"binary_data_size\":%zu}}",
                              n_bytes);
    } else {
        ok = put(reply, ",\"data\":[");
        enum ad_status status =
            ok ? ad_encode_floats(request, output, 0, n, error) : AD_OK;
        if (status) {
            return status;
        }
        ok = ok && put(reply, "]}");
    }
    return ok ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

/* A seed that was chosen here, so that the client can have the same draws again. */
static bool put_seed(const struct ad_request *request, struct ad_buffer *reply)
{
    if (!request->mode.training || request->seed_given) {
        return true;
    }
    return ad_buffer_printf(reply, ",\"parameters\":{\"seed\":%" PRIu64 "}",
                            request->mode.seed);
}

/* Everything before the first output. */
static bool put_head(const struct ad_request *request, struct ad_buffer *reply)
{
    const struct ad_version *version = request->version;
    bool ok = put(reply, "{");
    if (ok && request->id) {
        ok = put(reply, "\"id\":") && ad_encode_string(reply, request->id) &&
             put(reply, ",");
    }
    return ok && put(reply, "\"model_name\":") &&
           ad_encode_string(reply, version->model) && put(reply, ",\"model_version\":") &&
           ad_encode_string(reply, version->text) && put_seed(request, reply) &&
           put(reply, ",\"outputs\":[");
}

/* Everything up to the binary tensors, whose bytes are *n_binary. */
static enum ad_status put_json(struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               size_t *n_binary, struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    if (!put_head(request, reply)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < n_outputs; i++) {
        if (i > 0 && !put(reply, ",")) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        enum ad_status status = put_output(request, &outputs[i], i, n_binary, error);
        if (status) {
            return status;
        }
    }
    if (!put(reply, "]}")) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    request->n_reply_json = reply->size;
    return AD_OK;
}

/* ---- a reply that is binary throughout ------------------------------------------------------- */

bool ad_encode_is_binary(const struct ad_request *request, size_t n_outputs)
{
    for (size_t i = 0; i < n_outputs; i++) {
        if (!wants_binary(request, i)) {
            return false;
        }
    }
    return n_outputs > 0;
}

enum ad_status ad_encode_binary(struct ad_request *request,
                                struct attn_named_tensor *outputs, float **floats,
                                size_t n_outputs, struct ad_error *error)
{
    struct ad_buffer *reply = &request->reply;
    size_t n_binary = 0, room;
    enum ad_status status = put_json(request, outputs, n_outputs, &n_binary, error);
    if (status) {
        return status;
    }
    if (__builtin_add_overflow(n_binary, ALIGNMENT, &room) ||
        !ad_buffer_reserve(reply, room)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    /* blanks behind the JSON are part of it, and bring the tensors to a place that suits them; the
     * same answer always has as many */
    while (n_binary > 0 && reply->size % ALIGNMENT != 0) {
        reply->data[reply->size++] = ' ';
    }
    request->n_reply_json = reply->size;
    for (size_t i = 0; i < n_outputs; i++) {
        size_t n_bytes = 0;
        floats[i] = (float *)(void *)(reply->data + reply->size);
        outputs[i].tensor.data = floats[i];
        reply->size +=
            attn_tensor_bytes(&outputs[i].tensor, &n_bytes) == ATTN_OK ? n_bytes : 0;
    }
    reply->data[reply->size] = '\0';
    return AD_OK;
}

/* ---- any other -------------------------------------------------------------------------------- */

/* The binary tensors, in order, without padding. */
static bool put_binary(struct ad_request *request,
                       const struct attn_named_tensor *outputs, size_t n_outputs,
                       size_t n_binary)
{
    if (!ad_buffer_reserve(&request->reply, n_binary)) {
        return false;
    }
    for (size_t i = 0; i < n_outputs; i++) {
        size_t n_bytes;
        if (wants_binary(request, i) &&
            (attn_tensor_bytes(&outputs[i].tensor, &n_bytes) != ATTN_OK ||
             !ad_buffer_append(&request->reply, outputs[i].tensor.data, n_bytes))) {
            return false;
        }
    }
    return true;
}

enum ad_status ad_encode_infer(struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               struct ad_error *error)
{
    size_t n_binary = 0;
    enum ad_status status = ad_shared_write(request, outputs, n_outputs, error);
    if (!status) {
        status = put_json(request, outputs, n_outputs, &n_binary, error);
    }
    if (status) {
        return status;
    }
    /* Without a byte of binary data the whole reply is JSON and needs no header to say so. */
    if (n_binary > 0 && !put_binary(request, outputs, n_outputs, n_binary)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    return AD_OK;
}
