/* call.c - one HTTP request from its headers to its reply. Runs on the connection's
 * I/O thread.
 *
 * The library takes a reply at two moments only: before the body, which ends the
 * connection, and after it. A client that writes its body before it reads would not
 * see a reply of the first kind. So only what is too large, or where the end of the
 * body is unclear, or whose client waits for our consent (Expect), is refused before
 * the body. The body of any other refused request is read and thrown away, as much of
 * it as a good request may have, and the connection stays in use. */
#include "http/call.h"
#include "base/large.h"
#include "http/admit.h"
#include "http/coding.h"
#include "http/control_request.h"
#include "http/edge.h"
#include "http/infer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CONTROL_BODY_LIMIT ((uint64_t)64 << 10) /* where no worker answers */
/* An announced length costs no more than this until as much has come, and that only as it comes: what is
 * larger lies in large pages, of which the first byte would take a whole one. */
#define FIRST_RESERVE ((uint64_t)1 << 20)
#define ALIGNMENT ((uint64_t)64)

struct ad_call *ad_call_create(struct ad_service *service,
                               struct MHD_Connection *connection,
                               struct ad_connection *client)
{
    struct ad_call *call = calloc(1, sizeof *call);
    if (!call) {
        return NULL;
    }
    call->service = service;
    call->connection = connection;
    call->client = client;
    call->n_discardable = service->options->http_max_input_size;
    atomic_fetch_add(&service->n_calls, 1);
    ad_buffer_init(&call->body);
    return call;
}

/* The verbs that we know, else "other": it becomes a label of a counter. */
static const char *known_verb(const char *verb)
{
    static const char *const known[] = {"GET", "HEAD",   "POST",
                                        "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(verb, known[i]) == 0) {
            return known[i];
        }
    }
    return "other";
}

/* Count the request, and write its line to the log. */
static void conclude(struct ad_call *call, struct ad_reply *reply)
{
    call->concluded = true;
    if (call->refused) {
        ad_admit_conclude(call, reply);
    } else if (call->route && call->route->infer && !call->preflight) {
        ad_infer_conclude(call, reply);
    }
    ad_counts_add(&call->service->operators.counts,
                  call->route ? call->route->pattern : NULL, call->verb,
                  ad_reply_number(reply));
}

/* What became of the work that was handed over. */
static const struct ad_error *outcome(const struct ad_call *call)
{
    return call->error.status ? &call->error
           : call->request    ? &call->request->error
           : call->command    ? &call->command->error
                              : &call->error;
}

/* A client that goes while its answer is made is seen by whoever looks first: here, as of a connection that
 * has ended, no reply can be made any more. Its request is told of all the same. */
static void conclude_unsent(struct ad_call *call)
{
    if (!call->parked || call->concluded) {
        return;
    }
    if (outcome(call)->status == AD_OK) {
        ad_fail(&call->error, AD_CANCELED,
                "the client closed the connection before its answer was sent");
    }
    struct ad_reply reply = {.status = outcome(call)->status};
    conclude(call, &reply);
}

void ad_call_free(struct ad_call *call)
{
    if (!call || ad_parking_abandon(&call->parking)) {
        return;
    }
    conclude_unsent(call);
    if (call->parked) {
        atomic_fetch_sub(&call->service->n_parked, 1);
    }
    ad_infer_end(call);
    ad_buffer_reset(&call->body);
    ad_command_free(call->command);
    ad_pass_reset(&call->pass);
    atomic_fetch_sub(&call->service->n_calls, 1);
    free(call);
}

void ad_call_outlive(struct ad_call *call)
{
    call->connection = NULL;
    call->client = NULL;
    call->headers = (struct ad_headers){0};
    ad_call_free(call);
}

/* Queue the reply, with what holds for all replies. */
static enum MHD_Result send_reply(struct ad_call *call, struct ad_reply *reply)
{
    if (call->route && reply->status == AD_METHOD) {
        reply->allow = ad_route_allow(call->route);
    }
    if (call->route && reply->status == AD_MEDIA) {
        reply->accept_encoding = call->route->infer ? AD_CODINGS : AD_NO_CODINGS;
    }
    reply->retry = reply->retry || call->retry;
    reply->close =
        reply->close || atomic_load(&call->service->draining) || ad_edge_closes(call);
    reply->request_id = call->id;
    ad_admit_mark(call, reply);
    conclude(call, reply);
    ad_infer_end(call);
    ad_buffer_reset(&call->body);
    ad_connection_await_reply(call->client, reply->body.size);
    return ad_reply_send(call->connection, reply, call->service->last_resort);
}

enum MHD_Result ad_call_refuse(struct ad_service *service,
                               struct MHD_Connection *connection, const char *verb)
{
    ad_counts_add(&service->operators.counts, NULL, known_verb(verb),
                  ad_reply_code(AD_INTERNAL));
    return ad_reply_send_last_resort(connection, service->last_resort);
}

static enum MHD_Result send_error(struct ad_call *call, bool close)
{
    struct ad_reply reply = {.close = close};
    ad_reply_set_error(&reply, &call->error);
    return send_reply(call, &reply);
}

static enum MHD_Result note_header(void *context, enum MHD_ValueKind kind,
                                   const char *name, const char *value)
{
    (void)kind;
    ad_headers_note(context, name, value);
    return MHD_YES;
}

/* The values lie in the library's buffer of the connection, which is neither cleared nor given back
 * before the next request, or the end. The library itself has no use for them. */
static enum MHD_Result wipe_key(void *context, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    (void)context;
    (void)kind;
    if (value && ad_headers_brings_key(name)) {
        explicit_bzero((void *)(uintptr_t)value, strlen(value));
    }
    return MHD_YES;
}

static void forget_keys(struct ad_call *call)
{
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, wipe_key, NULL);
    call->headers.authorization = NULL;
    call->headers.api_key = NULL;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static enum ad_status fail_too_large(struct ad_call *call, const char *prefix,
                                     uint64_t n_bytes)
{
    if (call->body_limit < call->service->options->http_max_input_size) {
        return ad_fail(&call->error, AD_TOO_LARGE,
                       "request body of %s%llu bytes is over the limit of %llu bytes for "
                       "this path",
                       prefix, (unsigned long long)n_bytes,
                       (unsigned long long)call->body_limit);
    }
    return ad_fail(&call->error, AD_TOO_LARGE,
                   "request body of %s%llu bytes is over the limit of %llu bytes "
                   "(--http-max-input-size)",
                   prefix, (unsigned long long)n_bytes,
                   (unsigned long long)call->body_limit);
}

/* Find out who answers, and everything that speaks against it before the body is
 * there. */
static enum ad_status check_request(struct ad_call *call, const char *url,
                                    const char *verb, const char *version,
                                    uint64_t body_length)
{
    const struct ad_options *options = call->service->options;
    enum ad_status status = ad_edge_check_head(call, version);
    if (!status) {
        status = ad_path_parse(&call->path, url, &call->error);
    }
    if (status) {
        return status;
    }
    call->route = ad_route_find(&call->path, &call->target);
    status = ad_edge_check_route(call);
    if (status) {
        return status;
    }
    if (!call->route) {
        return ad_fail(&call->error, AD_NOT_FOUND, "Not Found: no such path: %.200s",
                       url);
    }
    status = ad_admit_check(call, verb);
    if (status) {
        return status;
    }
    call->posted = strcmp(verb, "POST") == 0;
    call->body_limit = options->http_max_input_size;
    if (call->preflight || (!call->route->infer && !call->route->command)) {
        call->body_limit = smaller(call->body_limit, CONTROL_BODY_LIMIT);
    }
    /* first whose request it is: what is refused from here on counts as the model's */
    bool is_infer = call->route->infer && !call->preflight;
    status = is_infer       ? ad_infer_begin(call)
             : call->posted ? ad_headers_check_uncoded(&call->headers, &call->error)
                            : AD_OK;
    return status || body_length <= call->body_limit
               ? status
               : fail_too_large(call, "", body_length);
}

/* May the body of a refused request be read and thrown away? */
static bool is_discardable(const struct ad_call *call, uint64_t body_length)
{
    bool waits = call->headers.expect != NULL; /* for our consent, and need not send it */
    return !waits && body_length <= call->service->options->http_max_input_size &&
           call->error.status != AD_TOO_LARGE;
}

/* What brings the tensors behind the JSON to an aligned place, so that they can stay there. */
static size_t lead_of(const struct ad_call *call)
{
    uint64_t n_json = 0;
    bool coded = call->request && call->request->coding != AD_CODING_IDENTITY;
    return !coded && call->headers.json_length &&
                   ad_headers_number(call->headers.json_length, &n_json)
               ? (size_t)(-n_json % ALIGNMENT)
               : 0;
}

enum MHD_Result ad_call_begin(struct ad_call *call, const char *url, const char *verb,
                              const char *version)
{
    uint64_t body_length = 0;
    call->client->n_requests++;
    ad_connection_rest(call->client);
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, note_header,
                              &call->headers);
    call->verb = known_verb(verb);
    ad_request_id_choose(&call->service->operators.ids, call->headers.request_id,
                         call->id);
    if (ad_headers_check_framing(&call->headers, version, &call->error) != AD_OK) {
        forget_keys(call);
        return send_error(call, true);
    }
    bool has_body = ad_headers_body(&call->headers, &body_length);
    call->body_length = body_length;
    if (has_body) {
        ad_connection_await_body(call->client, body_length);
    }
    enum ad_status status = check_request(call, url, verb, version, body_length);
    forget_keys(call);
    if (status) {
        if (has_body && !is_discardable(call, body_length)) {
            return send_error(call, true);
        }
        return MHD_YES;
    }
    /* Also makes sure that an empty body is a string. */
    if (!ad_buffer_start(&call->body, lead_of(call),
                         (size_t)(body_length < AD_LARGE_FROM - ALIGNMENT
                                      ? body_length
                                      : FIRST_RESERVE))) {
        ad_fail(&call->error, AD_INTERNAL, "out of memory");
    }
    return MHD_YES;
}

static enum MHD_Result discard(struct ad_call *call, size_t n)
{
    ad_buffer_reset(&call->body);
    if (n > call->n_discardable) {
        return MHD_NO;
    }
    call->n_discardable -= n;
    return MHD_YES;
}

/* Who has sent a good part of an announced body is believed about the rest, which then need not be
 * moved as it grows. */
static bool reserve_rest(struct ad_call *call)
{
    if (call->body.size < FIRST_RESERVE || call->body_length <= call->body.size) {
        return true;
    }
    return ad_buffer_reserve(&call->body, (size_t)call->body_length - call->body.size);
}

enum MHD_Result ad_call_receive(struct ad_call *call, const char *bytes, size_t n)
{
    call->n_received += n;
    if (call->body_length == 0) {
        ad_connection_extend_body(call->client, call->n_received);
    }
    if (call->error.status) {
        return discard(call, n);
    }
    /* Only a chunked body can get over the limit here. */
    if (n > call->body_limit - call->body.size) {
        (void)fail_too_large(call, "at least ", call->n_received);
        return discard(call, n);
    }
    if (call->request && ad_infer_hold_body(call, n) != AD_OK) {
        return discard(call, n);
    }
    if (!reserve_rest(call) || !ad_buffer_append(&call->body, bytes, n)) {
        ad_fail(&call->error, AD_INTERNAL,
                "out of memory for a request body of %zu bytes", call->n_received);
        return discard(call, n);
    }
    return MHD_YES;
}

static enum MHD_Result answer_control(struct ad_call *call)
{
    struct ad_reply reply = {.status = AD_OK};
    assert(call->route); /* as every request that is not refused has one */
    ad_handler *handler = call->posted ? call->route->post : call->route->get;
    const struct ad_ask ask = {.target = &call->target,
                               .headers = &call->headers,
                               .body = &call->body,
                               .posted = call->posted,
                               .key = call->pass.key};
    if (handler(call->service, &ask, &reply, &call->error) != AD_OK) {
        ad_reply_reset(&reply);
        return send_error(call, false);
    }
    return send_reply(call, &reply);
}

static enum MHD_Result answer_preflight(struct ad_call *call)
{
    struct ad_reply reply = {.status = AD_OK};
    ad_admit_answer_preflight(call, &reply);
    return send_reply(call, &reply);
}

/* ---- commands to the loader ---------------------------------------------------------------- */

/* On the loader's thread, or on main at a stop. The call may be gone as soon as the connection is
 * resumed. */
static void on_command_done(struct ad_command *command)
{
    struct ad_call *call = command->context;
    call->command = command;
    if (!ad_parking_end(&call->parking, call->connection)) {
        ad_call_outlive(call);
    }
}

/* Park the connection and hand the command over; as ad_infer_submit. */
static enum ad_status submit_command(struct ad_call *call)
{
    struct ad_command *command = NULL;
    enum ad_status status =
        ad_control_request_parse(call->route->kind, call->target.model, call->body.data,
                                 call->body.size, &command, &call->error);
    if (status) {
        return status;
    }
    command->on_done = on_command_done;
    command->context = call;
    call->parked = true;
    atomic_fetch_add(&call->service->n_parked, 1);
    ad_parking_begin(&call->parking, &call->service->luck, call->connection, false);
    if (ad_loader_submit(call->service->loader, &command, &call->error) != AD_OK) {
        call->command = command;
        ad_parking_undo(&call->parking, call->connection);
    }
    return AD_OK;
}

/* Success has an empty body, as the protocol wants it. */
static enum MHD_Result answer_command(struct ad_call *call)
{
    struct ad_reply reply = {.status = AD_OK, .empty = true};
    if (call->command->error.status) {
        reply.empty = false;
        ad_reply_set_error(&reply, &call->command->error);
    }
    return send_reply(call, &reply);
}

/* ---- the end of a request ------------------------------------------------------------------ */

/* Hand over what is not answered here. AD_OK: the connection is parked. */
static enum ad_status submit(struct ad_call *call)
{
    return call->route->infer ? ad_infer_submit(call) : submit_command(call);
}

enum MHD_Result ad_call_finish(struct ad_call *call)
{
    if (call->parked && ad_parking_waits(&call->parking, call->connection)) {
        return MHD_YES;
    }
    ad_connection_rest(call->client);
    bool elsewhere =
        call->route && (call->route->infer || (call->posted && call->route->command));
    if (call->error.status == AD_OK && call->preflight) {
        return answer_preflight(call);
    }
    if (call->error.status == AD_OK && !elsewhere) {
        return answer_control(call);
    }
    if (call->error.status == AD_OK && !call->parked && submit(call) == AD_OK) {
        return MHD_YES;
    }
    if (call->error.status) {
        return send_error(call, false);
    }
    if (call->command) {
        return answer_command(call);
    }
    struct ad_reply reply = {.status = AD_OK};
    ad_infer_take_reply(call, &reply);
    return send_reply(call, &reply);
}
