/* infer.c - an infer or gradient request as HTTP sees it.
 *
 * Runs on the connection's I/O thread, but for on_done. Between the suspension and
 * on_done, the call belongs to the worker's side: nothing here may touch it then. */
#include "http/infer.h"
#include "base/clock.h"
#include "codec/peek.h"
#include "http/admit.h"
#include "http/coding.h"
#include "http/handle_sequences.h"
#include "http/handlers.h"
#include "sched/lane.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_US 1000

/* How its body is packed, and how its reply may be. */
static void fill_codings(struct ad_call *call)
{
    struct ad_request *request = call->request;
    const char *coding = call->headers.content_encoding;
    if (coding && !ad_coding_parse(coding, &request->coding)) {
        return; /* the headers are refused */
    }
    request->reply_level = (unsigned)call->service->options->http_compression_level;
    request->reply_coding = ad_coding_negotiate(call->headers.accept_encoding);
}

/* It is refused, or over, or on its way to a worker. */
static void note_arrival(struct ad_call *call)
{
    if (call->is_coming) {
        call->is_coming = false;
        atomic_fetch_sub(&call->service->n_coming, 1);
    }
}

static enum ad_status begin(struct ad_call *call)
{
    struct ad_service *service = call->service;
    struct ad_version *version = NULL;
    if (atomic_load(&service->stopping)) {
        call->retry = true;
        return ad_fail_code(&call->error, AD_UNAVAILABLE, "stopping",
                            "the server is stopping and takes no new inference requests");
    }
    if (ad_target_acquire(service, &call->target, &version, &call->error) != AD_OK) {
        return call->error.status;
    }
    call->request = ad_request_create();
    if (!call->request) {
        ad_version_release(version);
        return ad_fail(&call->error, AD_INTERNAL, "out of memory");
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    call->request->version = version;
    call->request->budget = &service->budget;
    call->request->mode.gradient = call->route->gradient;
    call->request->form = call->route->form;
    call->request->sequence_header = call->headers.sequence_id;
    call->request->fd = info ? info->connect_fd : -1;
    call->request->times.begun_ns = ad_clock_now_ns();
    fill_codings(call);
    if (call->route->moves && ad_move_begin(call) != AD_OK) {
        return call->error.status;
    }
    return ad_headers_check_infer(&call->headers, &call->error);
}

enum ad_status ad_infer_begin(struct ad_call *call)
{
    /* Counted first: whoever stops either sees it in the count or is seen here. */
    call->is_coming = true;
    atomic_fetch_add(&call->service->n_coming, 1);
    enum ad_status status = begin(call);
    if (status) {
        note_arrival(call);
    }
    return status;
}

enum ad_status ad_infer_hold_body(struct ad_call *call, size_t n)
{
    enum ad_status status = ad_request_hold(call->request, n, &call->error);
    call->retry = call->retry || status == AD_UNAVAILABLE;
    return status;
}

/* On a worker, or on main at a stop. The call may be gone as soon as the connection is
 * resumed. */
static void on_done(struct ad_request *request)
{
    struct ad_call *call = request->context;
    call->request = request;
    if (!ad_parking_end(&call->parking, call->connection)) {
        ad_call_outlive(call);
    }
}

/* Is the body JSON, then perhaps tensors? */
static bool is_inference(const struct ad_request *request)
{
    return !request->move && request->form == AD_FORM_INFER;
}

/* Move the body into the request and split it into JSON and tensors; a coded one has yet to be unpacked,
 * and is split then. */
static enum ad_status fill_request(struct ad_call *call)
{
    struct ad_request *request = call->request;
    bool coded = request->coding != AD_CODING_IDENTITY;
    uint64_t most = coded ? AD_ALL_JSON : call->body.size;
    uint64_t n_json = most;
    if (is_inference(request) && call->headers.json_length &&
        (!ad_headers_number(call->headers.json_length, &n_json) || n_json > most)) {
        return ad_fail(&call->error, AD_INVALID,
                       "inference header size should be in range (0, %zu), got: %.64s",
                       call->body.size, call->headers.json_length);
    }
    request->body = call->body;
    ad_buffer_init(&call->body);
    request->n_json = (size_t)n_json;
    if (is_inference(request) && call->headers.json_length && n_json == 0) {
        request->form = AD_FORM_RAW;
    }
    request->max_input_bytes = call->service->options->http_max_input_size;
    request->regions = call->service->regions;
    request->max_output_bytes = call->service->options->http_max_output_size;
    request->log = call->service->log;
    request->on_done = on_done;
    request->context = call;
    if (!coded && is_inference(request)) {
        ad_peek_parameters(request);
    }
    return AD_OK;
}

/* May it be answered within microseconds? What it borrows from the connection would not outlive that. */
static bool is_near(const struct ad_request *request)
{
    return ad_lane_is_small(request, false) && !request->sequence_header;
}

enum ad_status ad_infer_submit(struct ad_call *call)
{
    enum ad_status status = fill_request(call);
    if (status) {
        return status;
    }
    /* Parked first: on_done may come before the push returns. From there on only what is
     * local is touched, unless the push fails. */
    struct ad_service *service = call->service;
    struct ad_request *request = call->request;
    call->request = NULL;
    call->parked = true;
    call->is_coming = false;
    atomic_fetch_add(&service->n_parked, 1);
    ad_parking_begin(&call->parking, &service->luck, call->connection, is_near(request));
    if (ad_queue_push(service->queue, &request, &call->error) != AD_OK) {
        call->request = request;
        call->retry = true;
        ad_parking_undo(&call->parking, call->connection);
    }
    atomic_fetch_sub(&service->n_coming, 1);
    return AD_OK;
}

void ad_infer_take_reply(struct ad_call *call, struct ad_reply *reply)
{
    struct ad_request *request = call->request;
    if (request->error.status) {
        ad_reply_set_error(reply, &request->error);
        reply->retry = request->error.status == AD_UNAVAILABLE;
        return;
    }
    reply->status = AD_OK;
    reply->body = request->reply;
    reply->n_json = request->n_reply_json;
    reply->coding = ad_coding_name(request->reply_coded);
    reply->n_uncoded = reply->coding ? request->n_reply : request->reply.size;
    reply->varies = request->reply_level > 0;
    if (request->move) {
        ad_move_mark(request->move, reply);
    }
    ad_buffer_init(&request->reply);
}

/* ---- what is told about it ----------------------------------------------------------------- */

/* How serious a reply is to the operator, and what the statistics make of it. */
static const struct meaning {
    enum ad_log_level level;
    enum ad_outcome outcome;
} meanings[] = {
#define MEANING(status, level, outcome) [status] = {level, outcome}
    MEANING(AD_OK, AD_LOG_DEBUG, AD_OUTCOME_SUCCESS),
    MEANING(AD_INVALID, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_UNAUTHORIZED, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_FORBIDDEN, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_NOT_FOUND, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_METHOD, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_CONFLICT, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_TOO_LARGE, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_HEADERS_TOO_LARGE, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_RATE_LIMITED, AD_LOG_INFO, AD_OUTCOME_REJECTED),
    MEANING(AD_MEDIA, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_NONFINITE, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_UNSUPPORTED, AD_LOG_INFO, AD_OUTCOME_OTHER),
    MEANING(AD_CANCELED, AD_LOG_DEBUG, AD_OUTCOME_CANCELED),
    MEANING(AD_UNAVAILABLE, AD_LOG_WARNING, AD_OUTCOME_REJECTED),
    MEANING(AD_INTERNAL, AD_LOG_ERROR, AD_OUTCOME_BACKEND),
#undef MEANING
};

static void count(struct ad_call *call, enum ad_status status)
{
    const struct ad_request *request = call->request;
    /* what moves a sequence infers nothing: its route counts it */
    if (!request || call->counted || request->move) {
        return;
    }
    call->counted = true;
    ad_stats_add_request(request->version->stats, meanings[status].outcome,
                         request->n_items > 0 ? request->n_items : 1, &request->times);
}

/* Why a request was not taken, or not done: by the code of its error. */
static void count_rejection(struct ad_call *call)
{
    static const struct {
        const char *code;
        enum ad_rejection reason;
    } reasons[] = {{"queue_full", AD_REJECTED_QUEUE_FULL},
                   {"timeout", AD_REJECTED_TIMEOUT},
                   {"memory", AD_REJECTED_MEMORY},
                   {"stopping", AD_REJECTED_STOPPING},
                   {"canceled", AD_REJECTED_CANCELED},
                   {"sequence_lost", AD_REJECTED_SEQUENCE},
                   {"sequence_busy", AD_REJECTED_SEQUENCE},
                   {"sequence_limit", AD_REJECTED_SEQUENCE},
                   {"sequence_mismatch", AD_REJECTED_SEQUENCE},
                   {"not_loaded", AD_REJECTED_NOT_LOADED}};
    const struct ad_error *error =
        call->error.status || !call->request ? &call->error : &call->request->error;
    const char *code = error->code                                         ? error->code
                       : error->status == AD_UNAVAILABLE && !call->request ? "not_loaded"
                                                                           : "";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(code, reasons[i].code) == 0) {
            ad_counts_reject(&call->service->operators.counts, reasons[i].reason);
        }
    }
}

static void write_line(const struct ad_call *call, const struct ad_reply *reply)
{
    static const struct ad_request none; /* a call that was refused has no times */
    const struct ad_request *request = call->request ? call->request : &none;
    const struct ad_times *times = &request->times;
    const char *version =
        request->version ? request->version->text : call->target.version;
    const char *message =
        call->error.status ? call->error.message : request->error.message;
    char client[AD_CLIENT_SIZE];
    enum ad_log_level level = meanings[reply->status].level;
    if (!ad_log_enables(call->service->log, level)) {
        return;
    }
    if (call->connection) {
        ad_admit_client(call, client);
    }
    const struct ad_log_field fields[] = {
        ad_log_text("request", call->id),
        ad_log_text("client", call->connection ? client : NULL),
        ad_log_text("model", call->target.model),
        ad_log_text("version", version),
        ad_log_number("status", ad_reply_number(reply)),
        ad_log_number("bytes_in", (int64_t)call->n_received),
        ad_log_number("bytes_out", (int64_t)reply->body.size),
        ad_log_number("queue_us", ad_times_queue(times) / NS_PER_US),
        ad_log_number("decode_us",
                      ad_times_between(times->decoding_ns, times->decoded_ns) /
                          NS_PER_US),
        ad_log_number("compute_us",
                      ad_times_between(times->computing_ns, times->computed_ns) /
                          NS_PER_US),
        ad_log_number("encode_us",
                      ad_times_between(times->computed_ns, times->encoded_ns) /
                          NS_PER_US),
        ad_log_number("batch", (int64_t)request->n_batch),
        ad_log_text("error", message),
    };
    size_t n_fields = sizeof fields / sizeof fields[0];
    ad_log_write(call->service->log, level,
                 call->route->moves      ? ad_move_text(request->move)
                 : call->route->gradient ? "gradient"
                                         : "infer",
                 fields, reply->status == AD_OK ? n_fields - 1 : n_fields);
}

/* Write its stages down, if it is one of those that are traced. */
static void trace(const struct ad_call *call, const struct ad_reply *reply)
{
    const struct ad_request *request = call->request;
    struct ad_tracer *tracer = call->service->operators.tracer;
    struct ad_trace caller;
    if (!request || !tracer) {
        return;
    }
    const struct ad_trace *parent =
        ad_trace_parse(call->headers.traceparent, &caller) ? &caller : NULL;
    if (!ad_tracer_wants(tracer, parent)) {
        return;
    }
    char route[AD_ROUTE_TEXT_SIZE];
    snprintf(route, sizeof route, "/%s", call->route->pattern);
    const struct ad_span_record record = {.parent = parent,
                                          .method = call->verb,
                                          .route = route,
                                          .model = request->version->model,
                                          .version = request->version->text,
                                          .request_id = call->id,
                                          .status = ad_reply_code(reply->status),
                                          .batch_size = request->n_batch,
                                          .times = &request->times};
    ad_tracer_write(tracer, &record);
}

void ad_infer_conclude(struct ad_call *call, struct ad_reply *reply)
{
    if (call->request) {
        call->request->times.replied_ns = ad_clock_now_ns();
    }
    if (call->request && call->headers.server_timing) {
        ad_timing_write(&call->request->times, reply->timing);
    }
    count(call, reply->status);
    count_rejection(call);
    trace(call, reply);
    write_line(call, reply);
}

void ad_infer_end(struct ad_call *call)
{
    struct ad_request *request = call->request;
    note_arrival(call);
    if (!request) {
        return;
    }
    count(call, AD_CANCELED);
    ad_request_free(request);
    call->request = NULL;
}
