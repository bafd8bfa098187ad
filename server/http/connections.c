/* connections.c - who is connected, and the thread that cuts those who take too long.
 *
 * Owner: the server. I/O threads open and close connections, each list under its shard's lock, and
 * set deadlines without one. The thread looks through the lists and shuts sockets down; since a
 * connection leaves its list before its socket is closed, no other file can be hit. The library then
 * sees the end and cleans up. */
#include "http/connections.h"
#include "base/clock.h"
#include "base/cond.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NS_PER_S INT64_C(1000000000)
#define N_SHARDS 16
#define TICK_NS (NS_PER_S / 10)          /* no two looks come closer than this */
#define EXTRA_PATIENCE_NS (2 * NS_PER_S) /* with those over the limit */
#define IDLE_GRACE_NS \
    NS_PER_S /* the library closes what is idle; we, what only seems not to be */
#define LEFT_GRACE_NS NS_PER_S /* for the library to take up what it has read */
#define NEVER INT64_MAX

struct shard {
    pthread_mutex_t lock;
    struct ad_connection *first; /* guarded by lock */
};

struct ad_connections {
    struct ad_counts *counts; /* immutable, as are the next six */
    int64_t header_ns;
    int64_t idle_ns;
    int64_t body_ns;
    uint64_t min_rate;
    size_t max;
    size_t max_per_address; /* 0: no limit */
    atomic_size_t n_open[AD_N_SIDES];
    pthread_mutex_t address_lock;
    struct ad_addresses addresses; /* guarded by address_lock */
    struct shard shards[N_SHARDS];
    pthread_t thread; /* owner: whoever starts and frees */
    pthread_mutex_t stop_lock;
    pthread_cond_t stop_cond;
    bool stopping; /* guarded by stop_lock */
};

/* ---- deadlines ------------------------------------------------------------------------------ */

static void set_deadline(struct ad_connection *connection, enum ad_cut waits_for,
                         int64_t deadline_ns)
{
    atomic_store_explicit(&connection->waits_for, (int)waits_for, memory_order_relaxed);
    atomic_store_explicit(&connection->deadline_ns, deadline_ns, memory_order_release);
}

/* How long n bytes may take. */
static int64_t time_for(const struct ad_connections *all, uint64_t n_bytes)
{
    const uint64_t longest_s = UINT64_C(1) << 32; /* as good as for ever */
    uint64_t whole_s = n_bytes / all->min_rate;
    if (whole_s >= longest_s) {
        whole_s = longest_s;
    }
    double rest_s = (double)(n_bytes % all->min_rate) / (double)all->min_rate;
    return all->body_ns + (int64_t)whole_s * NS_PER_S + (int64_t)(rest_s * 1e9);
}

void ad_connection_await_body(struct ad_connection *connection, uint64_t n_bytes)
{
    connection->body_begun_ns = ad_clock_now_ns();
    ad_connection_extend_body(connection, n_bytes);
}

void ad_connection_extend_body(struct ad_connection *connection, uint64_t n_bytes)
{
    set_deadline(connection, AD_CUT_BODY,
                 connection->body_begun_ns + time_for(connection->all, n_bytes));
}

void ad_connection_rest(struct ad_connection *connection)
{
    set_deadline(connection, AD_CUT_IDLE, NEVER);
}

void ad_connection_await_reply(struct ad_connection *connection, uint64_t n_bytes)
{
    set_deadline(connection, AD_CUT_REPLY,
                 ad_clock_now_ns() + time_for(connection->all, n_bytes));
}

void ad_connection_await_request(struct ad_connection *connection)
{
    set_deadline(connection, AD_CUT_IDLE, ad_clock_now_ns() + connection->all->idle_ns);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* What was sent and is not taken must not stay behind in the system's buffers. */
static void cut(struct ad_connection *connection)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    enum ad_cut what =
        (enum ad_cut)atomic_load_explicit(&connection->waits_for, memory_order_relaxed);
    if (what == AD_CUT_REPLY) {
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    (void)shutdown(connection->fd, SHUT_RDWR);
    ad_counts_cut(connection->all->counts, what);
}

static bool has_ended(const struct ad_connection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Has the client left, for all we still wait for it? The library overlooks an end that was there when it
 * read what came before, and would wait for as long as for a client that is silent. What has been read
 * may be a whole request, which is answered: so the wait must be the same one a while later. */
static bool has_left(struct ad_connection *connection, int64_t deadline_ns,
                     int64_t now_ns)
{
    int waits_for = atomic_load_explicit(&connection->waits_for, memory_order_relaxed);
    if (deadline_ns == NEVER || waits_for == AD_CUT_REPLY || !has_ended(connection)) {
        connection->ended_while_ns = NEVER;
        return false;
    }
    if (connection->ended_while_ns != deadline_ns) {
        connection->ended_while_ns = deadline_ns;
        connection->ended_ns = now_ns;
    }
    return now_ns - connection->ended_ns >= LEFT_GRACE_NS;
}

/* The earliest deadline that is left in a shard. */
static int64_t sweep_shard(struct shard *shard, int64_t now_ns)
{
    int64_t earliest_ns = NEVER;
    pthread_mutex_lock(&shard->lock);
    for (struct ad_connection *at = shard->first; at; at = at->next) {
        int_fast64_t deadline_ns =
            atomic_load_explicit(&at->deadline_ns, memory_order_acquire);
        if (deadline_ns > now_ns) {
            earliest_ns = deadline_ns < earliest_ns ? deadline_ns : earliest_ns;
            if (has_left(at, deadline_ns, now_ns) &&
                atomic_compare_exchange_strong(&at->deadline_ns, &deadline_ns, NEVER)) {
                (void)shutdown(at->fd, SHUT_RDWR);
            }
        } else if (atomic_compare_exchange_strong(&at->deadline_ns, &deadline_ns,
                                                  NEVER)) {
            /* else it went on just now */
            cut(at);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return earliest_ns;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When to look again. Nobody gets a deadline closer than the shortest patience, so until then only
 * those seen now can be due. */
static int64_t sweep(struct ad_connections *all, int64_t now_ns)
{
    int64_t next_ns = now_ns + smaller(smaller(all->header_ns, EXTRA_PATIENCE_NS),
                                       smaller(all->body_ns, all->idle_ns));
    for (size_t i = 0; i < N_SHARDS; i++) {
        next_ns = smaller(next_ns, sweep_shard(&all->shards[i], now_ns));
    }
    return next_ns > now_ns + TICK_NS ? next_ns : now_ns + TICK_NS;
}

static void *work(void *argument)
{
    struct ad_connections *all = argument;
    (void)pthread_setname_np(pthread_self(), "connections");
    pthread_mutex_lock(&all->stop_lock);
    while (!all->stopping) {
        pthread_mutex_unlock(&all->stop_lock);
        int64_t next_ns = sweep(all, ad_clock_now_ns());
        pthread_mutex_lock(&all->stop_lock);
        while (!all->stopping &&
               ad_cond_wait_until(&all->stop_cond, &all->stop_lock, next_ns)) {
        }
    }
    pthread_mutex_unlock(&all->stop_lock);
    return NULL;
}

/* ---- coming and going ----------------------------------------------------------------------- */

size_t ad_connections_open(const struct ad_connections *connections)
{
    size_t n = 0;
    for (size_t i = 0; i < AD_N_SIDES; i++) {
        n += atomic_load_explicit(&connections->n_open[i], memory_order_relaxed);
    }
    return n;
}

static bool counts_addresses(const struct ad_connections *all, enum ad_side side)
{
    return all->max_per_address > 0 && side == AD_SIDE_PUBLIC;
}

static bool address_has_room(struct ad_connections *all, const struct sockaddr *address)
{
    struct ad_source key = ad_source_of(address);
    pthread_mutex_lock(&all->address_lock);
    bool has_room = ad_addresses_count(&all->addresses, &key) < all->max_per_address;
    pthread_mutex_unlock(&all->address_lock);
    return has_room;
}

bool ad_connections_admit(struct ad_connections *connections, enum ad_side side,
                          const struct sockaddr *address)
{
    if (atomic_load_explicit(&connections->n_open[side], memory_order_relaxed) >=
        connections->max + AD_CONNECTIONS_EXTRA) {
        ad_counts_turn_away(connections->counts, AD_TURNED_AWAY_LIMIT);
        return false;
    }
    if (counts_addresses(connections, side) && !address_has_room(connections, address)) {
        ad_counts_turn_away(connections->counts, AD_TURNED_AWAY_ADDRESS);
        return false;
    }
    return true;
}

static struct shard *shard_of(const struct ad_connection *connection)
{
    return &connection->all->shards[(unsigned)connection->fd % N_SHARDS];
}

static void link_in(struct ad_connection *connection)
{
    struct shard *shard = shard_of(connection);
    pthread_mutex_lock(&shard->lock);
    connection->next = shard->first;
    if (shard->first) {
        shard->first->prev = connection;
    }
    shard->first = connection;
    pthread_mutex_unlock(&shard->lock);
}

static void link_out(struct ad_connection *connection)
{
    struct shard *shard = shard_of(connection);
    pthread_mutex_lock(&shard->lock);
    if (connection->prev) {
        connection->prev->next = connection->next;
    } else {
        shard->first = connection->next;
    }
    if (connection->next) {
        connection->next->prev = connection->prev;
    }
    pthread_mutex_unlock(&shard->lock);
}

/* What has no memory to be counted is not: the limit is then a little higher. */
static void count_address(struct ad_connection *connection,
                          const struct sockaddr *address)
{
    struct ad_connections *all = connection->all;
    if (!counts_addresses(all, connection->side)) {
        return;
    }
    connection->address = ad_source_of(address);
    pthread_mutex_lock(&all->address_lock);
    connection->address.known = connection->address.known &&
                                ad_addresses_add(&all->addresses, &connection->address);
    pthread_mutex_unlock(&all->address_lock);
}

struct ad_connection *ad_connection_open(struct ad_connections *connections,
                                         enum ad_side side, int fd,
                                         const struct sockaddr *address)
{
    struct ad_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    connection->all = connections;
    connection->side = side;
    connection->fd = fd;
    connection->is_extra =
        atomic_fetch_add(&connections->n_open[side], 1) >= connections->max;
    int64_t patience_ns = connection->is_extra
                              ? smaller(connections->header_ns, EXTRA_PATIENCE_NS)
                              : connections->header_ns;
    connection->ended_while_ns = NEVER;
    set_deadline(connection, AD_CUT_HEADERS, ad_clock_now_ns() + patience_ns);
    count_address(connection, address);
    link_in(connection);
    return connection;
}

void ad_connection_close(struct ad_connection *connection)
{
    if (!connection) {
        return;
    }
    struct ad_connections *all = connection->all;
    link_out(connection);
    if (connection->address.known) {
        pthread_mutex_lock(&all->address_lock);
        ad_addresses_remove(&all->addresses, &connection->address);
        pthread_mutex_unlock(&all->address_lock);
    }
    atomic_fetch_sub(&all->n_open[connection->side], 1);
    ad_tls_detach(&connection->peer);
    free(connection);
}

bool ad_connection_is_extra(struct ad_connection *connection)
{
    const struct ad_connections *all = connection->all;
    if (connection->is_extra) {
        connection->is_extra = atomic_load_explicit(&all->n_open[connection->side],
                                                    memory_order_relaxed) > all->max;
    }
    return connection->is_extra;
}

/* ---- start and stop ------------------------------------------------------------------------- */

static struct ad_connections *create(const struct ad_options *options,
                                     struct ad_counts *counts)
{
    struct ad_connections *created = calloc(1, sizeof *created);
    if (!created) {
        return NULL;
    }
    created->counts = counts;
    created->header_ns = (int64_t)options->http_header_timeout * NS_PER_S;
    created->idle_ns = (int64_t)options->http_idle_timeout * NS_PER_S + IDLE_GRACE_NS;
    created->body_ns = (int64_t)options->http_body_timeout * NS_PER_S;
    created->min_rate = options->http_min_rate;
    created->max = (size_t)options->http_max_connections;
    created->max_per_address = (size_t)options->http_max_connections_per_address;
    for (size_t i = 0; i < N_SHARDS; i++) {
        pthread_mutex_init(&created->shards[i].lock, NULL);
    }
    pthread_mutex_init(&created->address_lock, NULL);
    pthread_mutex_init(&created->stop_lock, NULL);
    if (ad_cond_init(&created->stop_cond) != 0) {
        free(created);
        return NULL;
    }
    return created;
}

static void destroy(struct ad_connections *connections)
{
    for (size_t i = 0; i < N_SHARDS; i++) {
        pthread_mutex_destroy(&connections->shards[i].lock);
    }
    ad_addresses_reset(&connections->addresses);
    pthread_mutex_destroy(&connections->address_lock);
    pthread_mutex_destroy(&connections->stop_lock);
    pthread_cond_destroy(&connections->stop_cond);
    free(connections);
}

enum ad_status ad_connections_start(const struct ad_options *options,
                                    struct ad_counts *counts,
                                    struct ad_connections **connections,
                                    struct ad_error *error)
{
    *connections = create(options, counts);
    if (!*connections) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    int code = pthread_create(&(*connections)->thread, NULL, work, *connections);
    if (code != 0) {
        destroy(*connections);
        *connections = NULL;
        return ad_fail(error, AD_INTERNAL, "cannot start the thread for slow clients: %s",
                       strerror(code));
    }
    return AD_OK;
}

void ad_connections_free(struct ad_connections *connections)
{
    if (!connections) {
        return;
    }
    pthread_mutex_lock(&connections->stop_lock);
    connections->stopping = true;
    pthread_cond_signal(&connections->stop_cond);
    pthread_mutex_unlock(&connections->stop_lock);
    pthread_join(connections->thread, NULL);
    destroy(connections);
}
