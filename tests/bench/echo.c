/* echo.c - the yardstick of the wire: how often the HTTP library alone answers the same bytes.
 *
 * A bare server with the library's flags that the daemon has, and one I/O thread. A body is read, and
 * the reply is as many bytes of it as the command line says, with the headers that it says. A path
 * that begins with /worker hands each request to a worker and back, in the ordinary good way: the
 * connection is suspended, a queue under a mutex wakes one of as many threads as there are
 * processors, the connection is resumed. Any other path answers on the I/O thread.
 *
 * The main thread waits for SIGTERM. A job is the I/O thread's but from the push until its connection
 * is resumed. */
#include "bench/cases.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTION_MEMORY (64 << 10) /* as the daemon's */
#define MOST_WORKERS 64
#define MOST_REPLY ((size_t)1 << 30)

/* One request. */
struct job {
    struct MHD_Connection *connection;
    char *body, *reply; /* reply: NULL until it is made */
    size_t n_body, capacity;
    bool parked; /* a worker had it */
    struct job *next;
};

struct echo {
    size_t
        n_reply; /* immutable, as are the headers: names, each with its value behind it */
    char **headers;
    size_t n_headers;
    pthread_mutex_t lock;
    pthread_cond_t pushed;
    struct job *first, *last; /* guarded by lock, as is the next */
    bool closed;
};

/* ---- the queue ------------------------------------------------------------------------- */

static void push(struct echo *echo, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&echo->lock);
    if (echo->first) {
        echo->last->next = job;
    } else {
        echo->first = job;
    }
    echo->last = job;
    pthread_mutex_unlock(&echo->lock);
    pthread_cond_signal(&echo->pushed);
}

/* NULL: the queue is closed and empty. */
static struct job *take(struct echo *echo)
{
    pthread_mutex_lock(&echo->lock);
    while (!echo->first && !echo->closed) {
        pthread_cond_wait(&echo->pushed, &echo->lock);
    }
    struct job *job = echo->first;
    if (job) {
        echo->first = job->next;
    }
    pthread_mutex_unlock(&echo->lock);
    return job;
}

static void close_queue(struct echo *echo)
{
    pthread_mutex_lock(&echo->lock);
    echo->closed = true;
    pthread_mutex_unlock(&echo->lock);
    pthread_cond_broadcast(&echo->pushed);
}

/* What is missing of the body is zeros. */
static void make_reply(const struct echo *echo, struct job *job)
{
    size_t n = job->n_body < echo->n_reply ? job->n_body : echo->n_reply;
    job->reply = malloc(echo->n_reply + 1);
    if (!job->reply) {
        die("out of memory");
    }
    if (n > 0) {
        memcpy(job->reply, job->body, n);
    }
    memset(job->reply + n, 0, echo->n_reply - n);
}

static void *work(void *argument)
{
    struct echo *echo = argument;
    for (struct job *job = take(echo); job; job = take(echo)) {
        make_reply(echo, job);
        MHD_resume_connection(job->connection);
    }
    return NULL;
}

/* ---- the library's callbacks ----------------------------------------------------------- */

static enum MHD_Result receive(struct job *job, const char *bytes, size_t n)
{
    if (job->n_body + n > job->capacity) {
        job->capacity = 2 * job->capacity + n;
        job->body = realloc(job->body, job->capacity);
        if (!job->body) {
            die("out of memory");
        }
    }
    memcpy(job->body + job->n_body, bytes, n);
    job->n_body += n;
    return MHD_YES;
}

static enum MHD_Result answer(const struct echo *echo, struct job *job)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(echo->n_reply, job->reply,
                                                               free, job->reply);
    if (!response) {
        return MHD_NO;
    }
    job->reply = NULL;
    for (size_t i = 0; i < echo->n_headers; i++) {
        if (MHD_add_response_header(response, echo->headers[2 * i],
                                    echo->headers[2 * i + 1]) != MHD_YES) {
            die("'%s' is not a header", echo->headers[2 * i]);
        }
    }
    enum MHD_Result result = MHD_queue_response(job->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *url, const char *verb, const char *version,
                                  const char *bytes, size_t *n_bytes, void **state)
{
    struct echo *echo = context;
    struct job *job = *state;
    (void)verb;
    (void)version;
    if (!job) {
        job = calloc(1, sizeof *job);
        *state = job;
        if (job) {
            job->connection = connection;
        }
        return job ? MHD_YES : MHD_NO;
    }
    if (*n_bytes > 0) {
        size_t n = *n_bytes;
        *n_bytes = 0;
        return receive(job, bytes, n);
    }
    if (!job->parked && strncmp(url, "/worker", strlen("/worker")) == 0) {
        job->parked = true;
        MHD_suspend_connection(connection);
        push(echo, job);
        return MHD_YES;
    }
    if (!job->reply) {
        make_reply(echo, job);
    }
    return answer(echo, job);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct job *job = *state;
    (void)context;
    (void)connection;
    (void)code;
    if (job) {
        free(job->body);
        free(job->reply);
        free(job);
    }
    *state = NULL;
}

/* ---- life ------------------------------------------------------------------------------ */

static size_t read_number(const char *name, const char *text, size_t most)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > most) {
        die("%s: expected a number up to %zu, got '%s'", name, most, text);
    }
    return (size_t)value;
}

/* Each "NAME: VALUE" is cut in two. */
static void read_headers(struct echo *echo, char **words, size_t n)
{
    echo->headers = calloc(2 * n + 1, sizeof *echo->headers);
    if (!echo->headers) {
        die("out of memory");
    }
    echo->n_headers = n;
    for (size_t i = 0; i < n; i++) {
        char *colon = strstr(words[i], ": ");
        if (!colon) {
            die("expected 'NAME: VALUE', got '%s'", words[i]);
        }
        *colon = '\0';
        echo->headers[2 * i] = words[i];
        echo->headers[2 * i + 1] = colon + 2;
    }
}

static struct MHD_Daemon *start_daemon(struct echo *echo, size_t port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        (uint16_t)port, NULL, NULL, on_request, echo, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
}

static size_t start_workers(struct echo *echo, pthread_t threads[MOST_WORKERS])
{
    cpu_set_t processors;
    size_t n = sched_getaffinity(0, sizeof processors, &processors) == 0
                   ? (size_t)CPU_COUNT(&processors)
                   : 1;
    n = n < MOST_WORKERS ? n : MOST_WORKERS;
    for (size_t i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, work, echo) != 0) {
            die("a worker cannot be started");
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    struct echo echo = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .pushed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[MOST_WORKERS];
    sigset_t ends;
    int signal_number;
    if (argc < 3) {
        die("usage: echo PORT REPLY-BYTES ['NAME: VALUE'...]");
    }
    size_t port = read_number("PORT", argv[1], 65535);
    echo.n_reply = read_number("REPLY-BYTES", argv[2], MOST_REPLY);
    read_headers(&echo, argv + 3, (size_t)argc - 3);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    size_t n_workers = start_workers(&echo, threads);
    struct MHD_Daemon *daemon = start_daemon(&echo, port);
    if (!daemon) {
        die("port %zu cannot be listened on", port);
    }
    sigwait(&ends, &signal_number);
    close_queue(&echo);
    for (size_t i = 0; i < n_workers; i++) {
        pthread_join(threads[i], NULL);
    }
    MHD_stop_daemon(daemon);
    free(echo.headers);
    return 0;
}
