/* server.c - the HTTP side: the library's daemons, one a listener, and how their callbacks reach a
 * call.
 *
 * Owner: main, which starts, quiesces and frees it. The library's I/O threads run the
 * callbacks. */
#include "http/server.h"
#include "base/clock.h"
#include "http/access.h"
#include "http/call.h"
#include "http/connections.h"
#include "http/listeners.h"
#include "http/probe.h"
#include "http/service.h"
#include "http/tls.h"

#include <gnutls/abstract.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SPARE_MEMORY ((uint64_t)16 << 10) /* of a connection, beside a request's head */
#define OTHER_FILES (2UL * AD_CONNECTIONS_EXTRA) /* than connections within the limit */
#define NS_PER_S INT64_C(1000000000)
#define SEND_PATIENCE_NS (5 * NS_PER_S) /* at a stop, for replies on their way */
#define BODY_PATIENCE_NS (2 * NS_PER_S) /* for requests that were let in */
#define LAST_PATIENCE_NS NS_PER_S       /* for whatever else is asked */

/* A listener and the daemon behind it; what its callbacks get. Immutable while it serves. */
struct door {
    struct ad_server *server;
    struct MHD_Daemon *daemon;
    int fd; /* that it listens on, once it listens no more; -1: the daemon owns it */
    enum ad_side side;
    bool has_tls;
};

struct ad_server {
    struct ad_service service;
    struct ad_listeners listeners;
    struct ad_connections *connections;
    struct door *doors; /* one a listener */
    size_t n_doors;     /* of them, those that are open */
};

/* ---- callbacks ------------------------------------------------------------------------------ */

static struct ad_connection *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result on_arrival(void *context, const struct sockaddr *address,
                                  socklen_t size)
{
    const struct door *door = context;
    (void)size;
    return ad_connections_admit(door->server->connections, door->side, address) ? MHD_YES
                                                                                : MHD_NO;
}

/* NULL when it cannot be served. */
static struct ad_connection *open_connection(const struct door *door,
                                             struct MHD_Connection *connection, int fd)
{
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    struct ad_connection *client = ad_connection_open(
        door->server->connections, door->side, fd,
        address && address->client_addr ? address->client_addr : &nowhere);
    if (!client || !door->has_tls) {
        return client;
    }
    const union MHD_ConnectionInfo *session =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!session ||
        !ad_tls_attach(door->server->service.tls, session->tls_session, &client->peer)) {
        ad_connection_close(client);
        return NULL;
    }
    return client;
}

/* The end is told before the socket is closed and after the session is gone. */
static void on_connection(void *context, struct MHD_Connection *connection,
                          void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        ad_connection_close(*socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_context =
        info ? open_connection(context, connection, info->connect_fd) : NULL;
    if (info && !*socket_context) {
        (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
}

/* The target as it came. What is returned becomes the request's state: none yet. */
static void *on_target(void *context, const char *target,
                       struct MHD_Connection *connection)
{
    (void)context;
    struct ad_connection *client = client_of(connection);
    if (client) {
        client->bad_target = strchr(target, ' ') != NULL;
    }
    return NULL;
}

/* One request: its first call has the headers, the next ones the body, the last one
 * neither. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *url, const char *verb, const char *version,
                                  const char *bytes, size_t *n_bytes, void **state)
{
    struct ad_call *call = *state;
    if (!call) {
        const struct door *door = context;
        struct ad_connection *client = client_of(connection);
        struct ad_service *service = &door->server->service;
        call = client ? ad_call_create(service, connection, client) : NULL;
        *state = call;
        return call ? ad_call_begin(call, url, verb, version)
                    : ad_call_refuse(service, connection, verb);
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
    (void)code;
    if (*state) {
        ad_call_free(*state);
        ad_connection_await_request(client_of(connection));
    }
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

/* Asked for the certificate only by sessions that were not given one; there is none. */
static int find_no_certificate(gnutls_session_t session, const gnutls_datum_t *names,
                               int n_names, const gnutls_pk_algorithm_t *algorithms,
                               int n_algorithms, gnutls_pcert_st **chain,
                               unsigned *n_chain, gnutls_privkey_t *key)
{
    (void)session;
    (void)names;
    (void)n_names;
    (void)algorithms;
    (void)n_algorithms;
    *chain = NULL;
    *n_chain = 0;
    *key = NULL;
    return -1;
}

/* ---- start ---------------------------------------------------------------------------------- */

/* A request's head with a list of its headers, or a piece of a body. The library clears all of it for
 * each request, so it should not be much more. */
static uint64_t connection_memory(const struct ad_options *options)
{
    return options->http_max_header_size + options->http_max_header_size / 2 +
           SPARE_MEMORY;
}

static struct MHD_Daemon *start_daemon(struct door *door, int fd)
{
    struct ad_service *service = &door->server->service;
    const struct ad_options *options = service->options;
    bool is_admin = door->side == AD_SIDE_ADMIN;
    uint64_t n_threads = is_admin ? 1 : options->http_thread_count;
    /* Ours is the limit that counts; each thread of the library could come to have all. */
    uint64_t n_connections =
        n_threads * (options->http_max_connections + 2UL * AD_CONNECTIONS_EXTRA);
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG | (door->has_tls ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls_items[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)find_no_certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(intptr_t)ad_tls_priorities(options)},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem items[] = {
        /* The logger has to be known before anything is logged. */
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_library_message, service},
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, clamp(n_connections, n_threads), NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, clamp(options->http_idle_timeout, 0), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, clamp(connection_memory(options), 0), NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, door},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, door},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_target, door},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes, NULL},
        {n_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
         clamp(n_threads, 1), NULL},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(flags, 0, on_arrival, door, on_request, door,
                            MHD_OPTION_ARRAY, items, MHD_OPTION_ARRAY,
                            door->has_tls ? tls_items : &tls_items[2], MHD_OPTION_END);
}

static void log_listening(const struct ad_server *server,
                          const struct ad_listener *listener, bool has_tls)
{
    const struct ad_service *service = &server->service;
    struct ad_log_field fields[5];
    size_t n = 0;
    fields[n++] = ad_log_text(listener->is_unix ? "path" : "address", listener->name);
    if (!listener->is_unix) {
        fields[n++] = ad_log_number("port", listener->port);
    } else if (!listener->passed) {
        fields[n++] = ad_log_text("mode", service->options->http_unix_socket_mode);
    }
    fields[n++] = ad_log_text("tls", has_tls ? "yes" : "no");
    fields[n++] = ad_log_text("serves", listener->admin  ? "admin"
                                        : service->apart ? "all but admin"
                                                         : "all");
    if (listener->passed) {
        fields[n++] = ad_log_text("opened_by", "service manager");
    }
    ad_log_write(service->log, AD_LOG_INFO, "listening", fields, n);
}

/* Serve what is listened on. A unix socket has no TLS: its file's mode says who may come. */
static enum ad_status open_doors(struct ad_server *server, struct ad_error *error)
{
    server->doors = calloc(server->listeners.n, sizeof *server->doors);
    if (!server->doors) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < server->listeners.n; i++) {
        struct ad_listener *listener = &server->listeners.items[i];
        struct door *door = &server->doors[i];
        int fd = listener->fd;
        listener->fd = -1; /* the library closes it, whatever happens */
        *door = (struct door){.server = server,
                              .fd = -1,
                              .side = listener->admin ? AD_SIDE_ADMIN : AD_SIDE_PUBLIC,
                              .has_tls = server->service.tls && !listener->is_unix};
        door->daemon = start_daemon(door, fd);
        if (!door->daemon) {
            return ad_fail(error, AD_INTERNAL, "the HTTP threads cannot be started");
        }
        server->n_doors++;
        log_listening(server, listener, door->has_tls);
    }
    return AD_OK;
}

static void read_gauges(void *scheduler, struct ad_gauges *gauges)
{
    const struct ad_server *server = scheduler;
    const struct ad_service *service = &server->service;
    struct ad_sequences_count sequences = ad_sequences_count(service->sequences);
    *gauges = (struct ad_gauges){
        .n_connections = ad_connections_open(server->connections),
        .n_in_flight = atomic_load_explicit(&service->n_parked, memory_order_relaxed),
        .queue_length = ad_queue_length(service->queue),
        .queue_capacity = service->options->queue_size,
        .queue_bytes = atomic_load_explicit(&service->budget.total, memory_order_relaxed),
        .n_sequences = sequences.n,
        .sequence_bytes = sequences.n_bytes,
        .draining = atomic_load_explicit(&service->draining, memory_order_relaxed)};
}

static void fill_service(struct ad_service *service,
                         const struct ad_server_config *config)
{
    service->options = config->options;
    service->log = config->log;
    service->repository = config->repository;
    service->loader = config->loader;
    service->queue = config->queue;
    service->sequences = config->sequences;
    service->regions = config->regions;
    service->operators.log_control = config->log_control;
    service->operators.tracer = config->tracer;
    service->operators.read_gauges = read_gauges;
    ad_request_ids_init(&service->operators.ids);
    service->budget.limit = (size_t)config->options->queue_memory;
}

/* Where the system allows fewer files than we allow connections, clients wait unanswered. */
static void check_files(const struct ad_service *service)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < service->options->http_max_connections + OTHER_FILES) {
        const struct ad_log_field fields[] = {
            ad_log_number("files", (int64_t)files.rlim_cur),
            ad_log_number("connections",
                          (int64_t)service->options->http_max_connections)};
        ad_log_write(service->log, AD_LOG_WARNING,
                     "fewer files may be open than --http-max-connections wants", fields,
                     sizeof fields / sizeof fields[0]);
    }
}

static enum ad_status start(struct ad_server *server, struct ad_passed *passed,
                            struct ad_error *error)
{
    struct ad_service *service = &server->service;
    service->last_resort = ad_reply_create_last_resort();
    enum ad_status status =
        service->last_resort
            ? ad_access_create(service->options, service->log, &service->access, error)
            : ad_fail(error, AD_INTERNAL, "out of memory");
    if (!status) {
        status = ad_tls_open(service->options, &service->tls, error);
    }
    if (!status) {
        status = ad_connections_start(service->options, &service->operators.counts,
                                      &server->connections, error);
    }
    if (!status) {
        status = ad_listeners_open(service->options, passed, &server->listeners, error);
    }
    service->apart = ad_listeners_have_admin(&server->listeners);
    if (!status && service->tls) {
        ad_tls_log(service->tls, service->log);
    }
    if (!status) {
        check_files(service);
    }
    return status ? status : open_doors(server, error);
}

static void stop(struct ad_server *server)
{
    for (size_t i = 0; i < server->n_doors; i++) {
        MHD_stop_daemon(server->doors[i].daemon);
        if (server->doors[i].fd >= 0) {
            close(server->doors[i].fd); /* its threads are gone */
        }
    }
    ad_listeners_close(&server->listeners);
    ad_connections_free(server->connections);
    ad_tls_free(server->service.tls);
    ad_access_free(server->service.access);
    if (server->service.last_resort) {
        MHD_destroy_response(server->service.last_resort);
    }
    free(server->doors);
    free(server);
}

enum ad_status ad_server_check(const struct ad_options *options, struct ad_error *error)
{
    struct ad_tls *tls = NULL;
    struct ad_access *access = NULL;
    enum ad_status status = ad_listeners_check(options, error);
    if (!status) {
        status = ad_access_create(options, NULL, &access, error);
    }
    if (!status) {
        status = ad_tls_open(options, &tls, error);
    }
    ad_access_free(access);
    ad_tls_free(tls);
    return status;
}

enum ad_status ad_server_start(const struct ad_server_config *config,
                               struct ad_server **server, struct ad_error *error)
{
    *server = NULL;
    struct ad_server *created = calloc(1, sizeof *created);
    if (!created) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    fill_service(&created->service, config);
    created->service.operators.scheduler = created;
    enum ad_status status = start(created, config->passed, error);
    if (status) {
        stop(created);
        return status;
    }
    *server = created;
    return AD_OK;
}

static void log_kept(const struct ad_service *service, const char *what,
                     const struct ad_error *error)
{
    const struct ad_log_field reason = ad_log_text("error", error->message);
    ad_log_write(service->log, AD_LOG_ERROR, what, &reason, 1);
}

void ad_server_reload(struct ad_server *server)
{
    struct ad_service *service = &server->service;
    struct ad_error error = {.status = AD_OK};
    if (ad_access_reload(service->access, &error) != AD_OK) {
        log_kept(service, "cannot reload the API keys: the ones before stay", &error);
    }
    ad_error_clear(&error);
    if (!service->tls) {
        return;
    }
    if (ad_tls_reload(service->tls, &error) == AD_OK) {
        ad_tls_log(service->tls, service->log);
    } else {
        log_kept(service, "cannot reload the certificate: the one before stays", &error);
    }
}

const char *ad_server_address(const struct ad_server *server)
{
    return server->listeners.items[0].name;
}

uint16_t ad_server_port(const struct ad_server *server)
{
    return server->listeners.items[0].port;
}

enum ad_status ad_server_probe(const struct ad_server *server, int64_t deadline_ns,
                               struct ad_error *error)
{
    const struct ad_listener *first = &server->listeners.items[0];
    const struct ad_probe probe =
        ad_probe_at(&first->address, first->size, server->doors[0].has_tls);
    unsigned code = 0;
    return ad_probe_get(&probe, "/v2/health/live", deadline_ns, &code, error);
}

/* ---- stop ----------------------------------------------------------------------------------- */

/* Wait until there are none left, or the time is up. */
static void wait_for_none(const atomic_size_t *n, int64_t patience_ns)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t deadline_ns = ad_clock_now_ns() + patience_ns;
    while (atomic_load(n) > 0 && ad_clock_now_ns() < deadline_ns) {
        nanosleep(&pause, NULL);
    }
}

void ad_server_drain(struct ad_server *server)
{
    atomic_store(&server->service.draining, true);
}

void ad_server_quiesce(struct ad_server *server)
{
    atomic_store(&server->service.draining, true);
    atomic_store(&server->service.stopping, true);
    wait_for_none(&server->service.n_coming, BODY_PATIENCE_NS);
}

/* Whoever comes from here on is turned away by the system, at once, and can go elsewhere. A socket that
 * was passed stays as it is: there the next process takes them. */
static void close_doors(struct ad_server *server)
{
    for (size_t i = 0; i < server->n_doors; i++) {
        struct door *door = &server->doors[i];
        door->fd = MHD_quiesce_daemon(door->daemon);
        if (door->fd >= 0 && !server->listeners.items[i].passed) {
            (void)shutdown(door->fd, SHUT_RDWR);
        }
    }
}

/* A client that does not read its own must not hold us up for long. */
void ad_server_await_replies(struct ad_server *server)
{
    wait_for_none(&server->service.n_parked, SEND_PATIENCE_NS);
}

void ad_server_free(struct ad_server *server)
{
    if (!server) {
        return;
    }
    ad_server_await_replies(server);
    close_doors(server);
    wait_for_none(&server->service.n_calls, LAST_PATIENCE_NS);
    stop(server);
}
