/* server.c - the HTTP side: the library's daemon, and how its callbacks reach a call.
 *
 * Owner: main, which starts, quiesces and frees it. The library's I/O threads run the
 * callbacks. */
#include "http/server.h"
#include "base/clock.h"
#include "http/call.h"
#include "http/listen.h"
#include "http/service.h"

#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Headers of up to 32 KiB fit, and a body comes in pieces of about this size. */
#define CONNECTION_MEMORY (64 << 10)
#define SEND_PATIENCE_NS \
    (5 * INT64_C(1000000000)) /* at a stop, for replies on their way */

struct ad_server {
    struct ad_service service;
    struct MHD_Daemon *daemon; /* owns the listening socket */
    uint16_t port;
};

/* One request: its first call has the headers, the next ones the body, the last one
 * neither. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *url, const char *verb, const char *version,
                                  const char *bytes, size_t *n_bytes, void **state)
{
    struct ad_call *call = *state;
    if (!call) {
        call = ad_call_create(context, connection);
        *state = call;
        return call ? ad_call_begin(call, url, verb, version) : MHD_NO;
    }
    if (*n_bytes > 0) {
        size_t n = *n_bytes;
        *n_bytes = 0;
        return ad_call_receive(call, bytes, n);
    }
    return ad_call_finish(call);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    ad_call_free(*state);
    *state = NULL;
}

/* The router decodes: a path must be split before its escapes are. */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

/* The library speaks mostly of clients that went away or sent nonsense. */
__attribute__((format(printf, 2, 0))) static void
on_library_message(void *context, const char *format, va_list arguments)
{
    const struct ad_service *service = context;
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\r\n")] = '\0';
    const struct ad_log_field field = ad_log_text("text", text);
    ad_log_write(service->log, AD_LOG_DEBUG, "http library", &field, 1);
}

static intptr_t clamp(uint64_t value, uint64_t low)
{
    value = value < low ? low : value;
    return (intptr_t)(value > INT_MAX ? INT_MAX : value);
}

static struct MHD_Daemon *start_daemon(struct ad_service *service, int fd)
{
    const struct ad_options *options = service->options;
    uint64_t n_threads = options->http_thread_count > 1 ? options->http_thread_count : 1;
    struct MHD_OptionItem items[] = {
        /* The logger has to be known before anything is logged. */
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_library_message, service},
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, clamp(options->http_max_connections, n_threads),
         NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, clamp(options->http_idle_timeout, 0), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, service},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {n_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
         clamp(n_threads, 1), NULL},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, on_request, service, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

static void log_listening(const struct ad_server *server)
{
    const struct ad_log_field fields[] = {
        ad_log_text("address", server->service.options->http_address),
        ad_log_number("port", server->port),
    };
    ad_log_write(server->service.log, AD_LOG_INFO, "listening", fields,
                 sizeof fields / sizeof fields[0]);
}

static void read_gauges(void *scheduler, struct ad_gauges *gauges)
{
    struct ad_service *service = scheduler;
    struct ad_sequences_count sequences = ad_sequences_count(service->sequences);
    *gauges = (struct ad_gauges){
        .n_in_flight = atomic_load_explicit(&service->n_parked, memory_order_relaxed),
        .queue_length = ad_queue_length(service->queue),
        .queue_capacity = service->options->queue_size,
        .queue_bytes = atomic_load_explicit(&service->budget.total, memory_order_relaxed),
        .n_sequences = sequences.n,
        .sequence_bytes = sequences.n_bytes};
}

enum ad_status ad_server_start(const struct ad_server_config *config,
                               struct ad_server **server, struct ad_error *error)
{
    int fd = -1;
    *server = NULL;
    struct ad_server *created = calloc(1, sizeof *created);
    if (!created) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    created->service.options = config->options;
    created->service.log = config->log;
    created->service.repository = config->repository;
    created->service.loader = config->loader;
    created->service.queue = config->queue;
    created->service.sequences = config->sequences;
    created->service.operators.log_control = config->log_control;
    created->service.operators.tracer = config->tracer;
    created->service.operators.read_gauges = read_gauges;
    created->service.operators.scheduler = &created->service;
    ad_request_ids_init(&created->service.operators.ids);
    created->service.budget.limit = (size_t)config->options->queue_memory;
    enum ad_status status =
        ad_listen_open(config->options->http_address,
                       (uint16_t)config->options->http_port, &fd, &created->port, error);
    if (status) {
        free(created);
        return status;
    }
    created->daemon = start_daemon(&created->service, fd);
    if (!created->daemon) { /* the library has closed fd */
        free(created);
        return ad_fail(error, AD_INTERNAL, "the HTTP threads cannot be started");
    }
    log_listening(created);
    *server = created;
    return AD_OK;
}

uint16_t ad_server_port(const struct ad_server *server)
{
    return server->port;
}

void ad_server_quiesce(struct ad_server *server)
{
    atomic_store(&server->service.stopping, true);
}

/* Replies that were handed over a moment ago still have to be written. A client that
 * does not read its own must not hold us up for long. */
static void wait_sent(struct ad_server *server)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t deadline_ns = ad_clock_now_ns() + SEND_PATIENCE_NS;
    while (atomic_load(&server->service.n_parked) > 0 &&
           ad_clock_now_ns() < deadline_ns) {
        nanosleep(&pause, NULL);
    }
}

void ad_server_free(struct ad_server *server)
{
    if (!server) {
        return;
    }
    wait_sent(server);
    MHD_stop_daemon(server->daemon);
    free(server);
}
