/* infer.c - an infer or gradient request as HTTP sees it.
 *
 * Runs on the connection's I/O thread, but for on_done. Between the suspension and
 * on_done, the call belongs to the worker's side: nothing here may touch it then. */
#include "http/infer.h"
#include "base/clock.h"
#include "http/handlers.h"

enum ad_status ad_infer_begin(struct ad_call *call)
{
    struct ad_service *service = call->service;
    struct ad_version *version = NULL;
    call->number = atomic_fetch_add(&service->n_numbers, 1) + 1;
    if (atomic_load(&service->stopping)) {
        call->retry = true;
        return ad_fail(&call->error, AD_UNAVAILABLE,
                       "the server is stopping and takes no new inference requests");
    }
    if (ad_headers_check_infer(&call->headers, &call->error) ||
        ad_target_acquire(service, &call->target, &version, &call->error)) {
        return call->error.status;
    }
    call->request = ad_request_create();
    if (!call->request) {
        ad_version_release(version);
        return ad_fail(&call->error, AD_INTERNAL, "out of memory");
    }
    call->request->version = version;
    call->request->mode.gradient = call->route->gradient;
    return AD_OK;
}

/* On a worker, or on main at a stop. The call may be gone as soon as the connection is
 * resumed. */
static void on_done(struct ad_request *request)
{
    struct ad_call *call = request->context;
    call->request = request;
    MHD_resume_connection(call->connection);
}

/* Move the body into the request and split it into JSON and tensors. */
static enum ad_status fill_request(struct ad_call *call)
{
    struct ad_request *request = call->request;
    uint64_t n_json = call->body.size;
    if (call->headers.json_length &&
        (!ad_headers_number(call->headers.json_length, &n_json) ||
         n_json > call->body.size)) {
        return ad_fail(&call->error, AD_INVALID,
                       "inference header size should be in range (0, %zu), got: %.64s",
                       call->body.size, call->headers.json_length);
    }
    request->body = call->body;
    ad_buffer_init(&call->body);
    request->n_json = (size_t)n_json;
    request->max_output_bytes = call->service->options->http_max_output_size;
    request->log = call->service->log;
    request->on_done = on_done;
    request->context = call;
    request->received_ns = ad_clock_now_ns();
    return AD_OK;
}

enum ad_status ad_infer_submit(struct ad_call *call)
{
    enum ad_status status = fill_request(call);
    if (status) {
        return status;
    }
    /* Suspended first: on_done may come before the push returns. From there on only
     * what is local is touched, unless the push fails. */
    struct ad_request *request = call->request;
    call->request = NULL;
    call->parked = true;
    atomic_fetch_add(&call->service->n_parked, 1);
    MHD_suspend_connection(call->connection);
    if (ad_queue_push(call->service->queue, &request, &call->error) != AD_OK) {
        call->request = request;
        call->retry = true;
        MHD_resume_connection(call->connection);
    }
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
    ad_buffer_init(&request->reply);
}

static enum ad_log_level level_of(enum ad_status status)
{
    if (status == AD_OK) {
        return AD_LOG_DEBUG;
    }
    if (status == AD_INTERNAL) {
        return AD_LOG_ERROR;
    }
    return status == AD_UNAVAILABLE ? AD_LOG_WARNING : AD_LOG_INFO;
}

static int64_t microseconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

void ad_infer_log(const struct ad_call *call, const struct ad_reply *reply)
{
    static const struct ad_request none; /* a call that was refused has no times */
    const struct ad_request *request = call->request ? call->request : &none;
    const char *version =
        request->version ? request->version->text : call->target.version;
    const char *message =
        call->error.status ? call->error.message : request->error.message;
    const struct ad_log_field fields[] = {
        ad_log_number("number", (int64_t)call->number),
        ad_log_text("model", call->target.model),
        ad_log_text("version", version),
        ad_log_number("status", ad_reply_code(reply->status)),
        ad_log_number("bytes_in", (int64_t)call->n_received),
        ad_log_number("bytes_out", (int64_t)reply->body.size),
        ad_log_number("queue_us",
                      microseconds(request->received_ns, request->started_ns)),
        ad_log_number("compute_us",
                      microseconds(request->started_ns, request->finished_ns)),
        ad_log_text("error", message),
    };
    size_t n_fields = sizeof fields / sizeof fields[0];
    ad_log_write(call->service->log, level_of(reply->status),
                 call->route->gradient ? "gradient" : "infer", fields,
                 reply->status == AD_OK ? n_fields - 1 : n_fields);
}
