/* handle_sequences.c - the sequences of a model: which there are, and how one leaves, comes or goes. Runs on an I/O
 * thread, where nothing is copied but ids: what a sequence keeps goes through a worker. */
#include "http/handle_sequences.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "http/handlers.h"
#include "http/json_writer.h"

#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* ---- the list ------------------------------------------------------------------------------ */

static void write_sequence(struct ad_json *json, const struct ad_sequence_view *sequence)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "id", sequence->id);
    ad_json_integer_member(json, "length", (int64_t)sequence->length);
    ad_json_integer_member(json, "bytes", (int64_t)sequence->n_bytes);
    ad_json_integer_member(json, "idle_seconds", sequence->idle_ns / NS_PER_S);
    ad_json_bool_member(json, "busy", sequence->busy);
    ad_json_close(json, '}');
}

static void write_list(struct ad_json *json, const struct ad_version *version,
                       const struct ad_sequences_view *view)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "model", version->model);
    ad_json_string_member(json, "version", version->text);
    ad_json_key(json, "sequences");
    ad_json_open(json, '[');
    for (size_t i = 0; i < view->n; i++) {
        write_sequence(json, &view->items[i]);
    }
    ad_json_close(json, ']');
    ad_json_close(json, '}');
}

enum ad_status ad_handle_sequences(const struct ad_service *service,
                                   const struct ad_ask *ask, struct ad_reply *reply,
                                   struct ad_error *error)
{
    struct ad_version *version = NULL;
    struct ad_sequences_view view;
    enum ad_status status = ad_target_acquire(service, ask->target, &version, error);
    if (status) {
        return status;
    }
    status =
        ad_sequences_view(service->sequences, version, ad_clock_now_ns(), &view, error);
    if (!status) {
        struct ad_json json = ad_json_to(&reply->body);
        write_list(&json, version, &view);
        ad_sequences_view_reset(&view);
        reply->n_json = reply->body.size;
        status = ad_json_ok(&json) ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
    }
    ad_version_release(version);
    return status;
}

/* ---- one ----------------------------------------------------------------------------------- */

static bool is_text(const char *id)
{
    size_t left = strlen(id), n = 1;
    for (; left > 0 && n > 0; left -= n, id += n) {
        n = ad_utf8_length(id, left);
    }
    return n > 0;
}

/* An id that a step may have, and the header's, where there is one. */
static enum ad_status check_id(struct ad_call *call)
{
    const char *id = call->target.id, *header = call->headers.sequence_id;
    if (!is_text(id)) {
        return ad_fail(&call->error, AD_INVALID,
                       "sequence id '%.100s' is not valid UTF-8", id);
    }
    if (strcmp(id, "0") == 0) {
        return ad_fail(&call->error, AD_INVALID,
                       "sequence id '0' means no sequence: there is none of that id");
    }
    if (header && strcmp(header, id) != 0) {
        return ad_fail(&call->error, AD_INVALID,
                       "header X-Sequence-Id is '%.100s', but the path names sequence "
                       "'%.100s': they must agree",
                       header, id);
    }
    return AD_OK;
}

enum ad_status ad_move_begin(struct ad_call *call)
{
    struct ad_request *request = call->request;
    enum ad_status status = check_id(call);
    if (status) {
        return status;
    }
    request->move = call->posted                        ? AD_MOVE_IMPORT
                    : strcmp(call->verb, "DELETE") == 0 ? AD_MOVE_FORGET
                                                        : AD_MOVE_EXPORT;
    request->sequence_call.id = call->target.id;
    return AD_OK;
}

void ad_move_mark(enum ad_move move, struct ad_reply *reply)
{
    if (move == AD_MOVE_EXPORT) {
        reply->content_type = "application/octet-stream";
        reply->disposition = "attachment; filename=\"sequence.safetensors\"";
    }
    reply->no_content = move == AD_MOVE_FORGET;
}

const char *ad_move_text(enum ad_move move)
{
    switch (move) {
    case AD_MOVE_NONE:
        break;
    case AD_MOVE_EXPORT:
        return "sequence export";
    case AD_MOVE_IMPORT:
        return "sequence import";
    case AD_MOVE_FORGET:
        return "sequence forgotten";
    }
    return "sequence";
}
