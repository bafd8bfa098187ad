/* load_run.c - the connections and their event loop. One thread, epoll.
 *
 * A connection has one request under way at most. Without a rate it sends the next one as soon as it
 * has the reply. With a rate, request k of its kind is due at start + k / rate; the next connection
 * that is free sends it, and its time runs from when it was due, so a server that stalls is charged
 * for all that it kept waiting. */
#include "bench/load_run.h"
#include "bench/cases.h"
#include "bench/load_reply.h"
#include "bench/timing.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST_EVENTS 256
#define CONNECT_SECONDS 10
/* As much of a large request or reply at a time: small ones beside it are not kept waiting, and the
 * times that are reported are the server's. */
#define PIECE ((size_t)256 << 10)

/* The first good reply to a step: what those that follow must be. */
struct expected {
    char *bytes; /* the body, from `from` on */
    size_t n_body, from;
};

struct group {
    const struct load_kind *kind;
    struct load_message messages[N_PLACES];
    struct expected *expected; /* one a step */
    struct load_counts *counts;
    struct load_totals totals;
    struct connection
        *idle; /* those that wait for a request to be due; with a rate only */
    double start, interval; /* 0 without a rate */
    uint64_t n_taken;       /* requests sent, of those that the rate makes due */
};

struct connection {
    struct group *group;
    int fd;
    bool busy, wants_room; /* wants_room: it is told when more can be sent */
    double started;
    const char *left; /* of the request, to be sent */
    size_t n_left;
    struct load_message own[N_PLACES]; /* of a sequence: with its number in it */
    size_t step, n_replies;
    struct load_reply reply;
    struct connection *next_idle;
};

struct load {
    struct group *groups;
    size_t n_groups;
    struct connection *connections;
    size_t n_connections;
    struct sockaddr_storage address;
    socklen_t n_address;
    int epoll;
    bool stopping;
    uint64_t n_sequences; /* numbered so far */
};

static void *alloc_zeroed(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);
    if (!memory) {
        die("out of memory");
    }
    return memory;
}

static size_t steps_of(const struct group *group)
{
    return group->kind->n_steps > 0 ? group->kind->n_steps : 1;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- connecting ------------------------------------------------------------------------ */

static void open_connection(struct load *load, struct connection *connection)
{
    const struct timeval patience = {.tv_sec = CONNECT_SECONDS};
    const int on = 1;
    int fd = socket(load->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        die("cannot open a socket: %s", strerror(errno));
    }
    if (connect(fd, (const struct sockaddr *)&load->address, load->n_address) != 0) {
        die("cannot connect: %s", strerror(errno));
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("cannot watch a socket: %s", strerror(errno));
    }
    connection->fd = fd;
    connection->wants_room = false;
}

static void reopen(struct load *load, struct connection *connection)
{
    close(connection->fd);
    load_reply_clear(&connection->reply);
    connection->n_left = 0;
    open_connection(load, connection);
}

/* ---- sending --------------------------------------------------------------------------- */

static void watch(struct load *load, struct connection *connection)
{
    bool wants_room = connection->n_left > 0;
    struct epoll_event event = {.events = wants_room ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.ptr = connection};
    if (wants_room != connection->wants_room &&
        epoll_ctl(load->epoll, EPOLL_CTL_MOD, connection->fd, &event) != 0) {
        die("cannot watch a socket: %s", strerror(errno));
    }
    connection->wants_room = wants_room;
}

/* The next piece of the request. That the server has gone shows when the reply is read. */
static void send_piece(struct load *load, struct connection *connection)
{
    size_t n = connection->n_left < PIECE ? connection->n_left : PIECE;
    ssize_t sent = n > 0 ? send(connection->fd, connection->left, n, MSG_NOSIGNAL) : 0;
    if (sent >= 0) {
        connection->left += sent;
        connection->n_left -= (size_t)sent;
    } else if (errno != EINTR && errno != EAGAIN) {
        connection->n_left = 0;
    }
    watch(load, connection);
}

static void give_number(struct load *load, struct connection *connection)
{
    uint64_t sequence = ++load->n_sequences;
    for (size_t i = 0; i < N_PLACES; i++) {
        if (connection->own[i].bytes) {
            load_message_number(&connection->own[i], sequence);
        }
    }
}

static void start_request(struct load *load, struct connection *connection,
                          double started)
{
    struct group *group = connection->group;
    if (group->kind->n_steps > 0 && connection->step == 0) {
        give_number(load, connection);
    }
    enum load_place place = load_place_of(connection->step, group->kind->n_steps);
    const struct load_message *message =
        connection->own[place].bytes ? &connection->own[place] : &group->messages[place];
    connection->left = message->bytes;
    connection->n_left = message->n;
    connection->busy = true;
    connection->started = started;
    group->totals.n_sent++;
    send_piece(load, connection);
}

static double due_at(const struct group *group)
{
    return group->start + (double)group->n_taken * group->interval;
}

/* The connection is free: send the next request, or wait until one is due. */
static void go_on(struct load *load, struct connection *connection, double now)
{
    struct group *group = connection->group;
    if (load->stopping) {
        return;
    }
    if (group->interval <= 0) {
        start_request(load, connection, now);
    } else if (due_at(group) <= now) {
        double due = due_at(group);
        group->n_taken++;
        start_request(load, connection, due);
    } else {
        connection->next_idle = group->idle;
        group->idle = connection;
    }
}

/* Send what is due by the rates. Returns when the next request will be, at most `until`. */
static double send_due(struct load *load, double until)
{
    double next = until;
    for (size_t i = 0; i < load->n_groups; i++) {
        struct group *group = &load->groups[i];
        while (group->idle && due_at(group) <= now_seconds()) {
            struct connection *connection = group->idle;
            group->idle = connection->next_idle;
            double due = due_at(group);
            group->n_taken++;
            start_request(load, connection, due);
        }
        if (group->idle && due_at(group) < next) {
            next = due_at(group);
        }
    }
    return next;
}

/* ---- receiving ------------------------------------------------------------------------- */

/* Replies to a sequence's steps name it in their JSON, which therefore differs. */
static bool is_right(struct connection *connection)
{
    struct group *group = connection->group;
    const struct load_reply *reply = &connection->reply;
    struct expected *expected = &group->expected[connection->step];
    const char *body = reply->bytes + reply->n_head;
    if (group->kind->varied) {
        return true;
    }
    if (!expected->bytes) {
        expected->from = group->kind->n_steps > 0 ? reply->n_json : 0;
        expected->n_body = reply->n_body;
        expected->bytes = alloc_zeroed(reply->n_body - expected->from + 1, 1);
        memcpy(expected->bytes, body + expected->from, reply->n_body - expected->from);
        return true;
    }
    if (reply->n_body != expected->n_body) {
        return false;
    }
    size_t every = group->kind->check_every;
    return every == 0 || connection->n_replies % every != 0 ||
           memcmp(body + expected->from, expected->bytes,
                  expected->n_body - expected->from) == 0;
}

/* A whole reply is there. A sequence that fails at a step starts anew, with another number. */
static void take_reply(struct connection *connection, double now)
{
    struct group *group = connection->group;
    struct load_counts *counts = group->counts;
    int64_t ns = (int64_t)(1e9 * (now - connection->started));
    unsigned status = connection->reply.status;
    bool good = status == 200;
    counts->statuses[status]++;
    group->totals.n_replies++;
    connection->n_replies++;
    if (!good) {
        histogram_add(&counts->refused, ns);
    } else if (is_right(connection)) {
        histogram_add(&counts->good, ns);
        if (group->kind->n_steps > 0) {
            size_t part = connection->step * STEP_PARTS / group->kind->n_steps;
            histogram_add(&counts->steps[part], ns);
        }
    } else {
        counts->n_wrong++;
    }
    connection->step = good ? (connection->step + 1) % steps_of(group) : 0;
    connection->busy = false;
}

/* The server closed the connection: a fault only if it owed a reply. */
static void lose(struct load *load, struct connection *connection)
{
    struct group *group = connection->group;
    bool owed = connection->busy;
    reopen(load, connection);
    if (owed) {
        group->counts->n_broken++;
        connection->busy = false;
        connection->step = 0;
        go_on(load, connection, now_seconds());
    }
}

/* The next piece of what has come. */
static void receive(struct load *load, struct connection *connection)
{
    size_t room;
    char *bytes = load_reply_room(&connection->reply, &room);
    ssize_t n = recv(connection->fd, bytes, room < PIECE ? room : PIECE, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n <= 0 || !connection->busy) {
        lose(load, connection);
        return;
    }
    enum load_progress progress = load_reply_advance(&connection->reply, (size_t)n);
    if (progress == REPLY_BROKEN) {
        lose(load, connection);
    } else if (progress == REPLY_DONE) {
        double now = now_seconds();
        take_reply(connection, now);
        bool closing = connection->reply.close || connection->n_left > 0;
        load_reply_clear(&connection->reply);
        if (closing) {
            reopen(load, connection);
        }
        go_on(load, connection, now);
    }
}

static void wait_and_serve(struct load *load, double until)
{
    struct epoll_event events[MOST_EVENTS];
    double wait = until - now_seconds();
    wait = wait > 0 ? wait : 0;
    struct timespec patience = {.tv_sec = (time_t)wait,
                                .tv_nsec = (long)(1e9 * (wait - (double)(time_t)wait))};
    int n = epoll_pwait2(load->epoll, events, MOST_EVENTS, &patience, NULL);
    if (n < 0 && errno != EINTR) {
        die("cannot wait for events: %s", strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        struct connection *connection = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) {
            send_piece(load, connection);
        }
        if (events[i].events & ~(uint32_t)EPOLLOUT) {
            receive(load, connection);
        }
    }
}

/* ---- a run ----------------------------------------------------------------------------- */

static void init_group(struct group *group, const struct load_kind *kind,
                       const char *host)
{
    group->kind = kind;
    group->interval = kind->rate > 0 ? 1 / kind->rate : 0;
    group->expected = alloc_zeroed(steps_of(group), sizeof *group->expected);
    for (int i = 0; i < N_PLACES; i++) {
        if (i == PLACE_ONLY || kind->n_steps > 1) {
            group->messages[i] = load_message_create(kind, (enum load_place)i, host);
        }
    }
}

static void init_connection(struct load *load, struct connection *connection,
                            struct group *group)
{
    connection->group = group;
    for (int i = 0; i < N_PLACES; i++) {
        if (group->messages[i].id_offset > 0) {
            connection->own[i] = load_message_copy(&group->messages[i]);
        }
    }
    open_connection(load, connection);
}

struct load *load_create(const struct load_kind *kinds, size_t n_kinds,
                         const struct sockaddr *address, socklen_t n_address,
                         const char *host)
{
    struct load *load = alloc_zeroed(1, sizeof *load);
    memcpy(&load->address, address, n_address);
    load->n_address = n_address;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll < 0) {
        die("no epoll: %s", strerror(errno));
    }
    /* Numbers of sequences that another run's do not meet. */
    load->n_sequences = (uint64_t)getpid() * 1000000000;
    load->n_groups = n_kinds;
    load->groups = alloc_zeroed(n_kinds, sizeof *load->groups);
    for (size_t i = 0; i < n_kinds; i++) {
        init_group(&load->groups[i], &kinds[i], host);
        load->n_connections += kinds[i].n_connections;
    }
    load->connections = alloc_zeroed(load->n_connections, sizeof *load->connections);
    struct connection *connection = load->connections;
    for (size_t i = 0; i < n_kinds; i++) {
        for (size_t k = 0; k < kinds[i].n_connections; k++) {
            init_connection(load, connection++, &load->groups[i]);
        }
    }
    return load;
}

static void start_all(struct load *load, double now)
{
    for (size_t i = 0; i < load->n_groups; i++) {
        load->groups[i].start = now;
    }
    for (size_t i = 0; i < load->n_connections; i++) {
        go_on(load, &load->connections[i], now_seconds());
    }
}

static void count_behind(struct group *group, double now)
{
    if (group->interval > 0 && now > due_at(group)) {
        group->counts->n_behind = (uint64_t)((now - due_at(group)) / group->interval) + 1;
    }
}

void load_run(struct load *load, double seconds, struct load_counts *counts)
{
    double start = now_seconds(), cpu = cpu_seconds();
    double end = start + seconds;
    for (size_t i = 0; i < load->n_groups; i++) {
        memset(&counts[i], 0, sizeof counts[i]);
        load->groups[i].counts = &counts[i];
    }
    if (load->groups[0].start <= 0) {
        start_all(load, start);
    }
    while (now_seconds() < end) {
        wait_and_serve(load, send_due(load, end));
    }
    for (size_t i = 0; i < load->n_groups; i++) {
        counts[i].seconds = now_seconds() - start;
        counts[i].cpu_seconds = cpu_seconds() - cpu;
        count_behind(&load->groups[i], end);
    }
}

static size_t count_busy(const struct load *load, const struct group *group)
{
    size_t n = 0;
    for (size_t i = 0; i < load->n_connections; i++) {
        n += load->connections[i].busy && (!group || load->connections[i].group == group);
    }
    return n;
}

void load_finish(struct load *load, double seconds, struct load_totals *totals)
{
    struct load_counts *after = alloc_zeroed(load->n_groups, sizeof *after);
    for (size_t i = 0; i < load->n_groups; i++) {
        load->groups[i].counts = &after[i];
    }
    double end = now_seconds() + seconds;
    load->stopping = true;
    while (count_busy(load, NULL) > 0 && now_seconds() < end) {
        wait_and_serve(load, end);
    }
    for (size_t i = 0; i < load->n_groups; i++) {
        totals[i] = load->groups[i].totals;
        totals[i].n_unanswered = count_busy(load, &load->groups[i]);
        load->groups[i].counts = NULL;
    }
    free(after);
}

static void free_group(struct group *group)
{
    for (size_t i = 0; i < N_PLACES; i++) {
        free(group->messages[i].bytes);
    }
    for (size_t i = 0; i < steps_of(group); i++) {
        free(group->expected[i].bytes);
    }
    free(group->expected);
}

void load_free(struct load *load)
{
    for (size_t i = 0; i < load->n_connections; i++) {
        struct connection *connection = &load->connections[i];
        close(connection->fd);
        free(connection->reply.bytes);
        for (size_t k = 0; k < N_PLACES; k++) {
            free(connection->own[k].bytes);
        }
    }
    for (size_t i = 0; i < load->n_groups; i++) {
        free_group(&load->groups[i]);
    }
    close(load->epoll);
    free(load->connections);
    free(load->groups);
    free(load);
}
