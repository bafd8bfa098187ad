/* connections.h - who is connected, for how long they may take, and how many there may be.
 *
 * The HTTP library closes a connection on which nothing moves. One that moves a byte now and then it
 * keeps for ever. So each connection has a deadline, which its I/O thread sets as it goes on, and a
 * thread of ours cuts those that are past theirs, and those whose client has left unnoticed. */
#ifndef AD_HTTP_CONNECTIONS_H
#define AD_HTTP_CONNECTIONS_H

#include "base/error.h"
#include "base/options.h"
#include "http/addresses.h"
#include "http/counts.h"
#include "http/tls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Connections over the limit that are still taken, to be told so. */
#define AD_CONNECTIONS_EXTRA 64

/* Each side of the daemon has a limit of its own: clients cannot keep operators out. */
enum ad_side { AD_SIDE_PUBLIC, AD_SIDE_ADMIN, AD_N_SIDES };

struct ad_connections;

/* Owner: its I/O thread, but for what is said to be otherwise. */
struct ad_connection {
    struct ad_connections *all; /* immutable, as are the next three */
    enum ad_side side;          /* that its listener is on */
    int fd;                     /* open as long as this is */
    struct ad_source address;   /* counted while this is */
    struct ad_connection *prev; /* guarded by its shard's lock, as is the next */
    struct ad_connection *next;
    atomic_int_fast64_t deadline_ns; /* INT64_MAX: none, as while its request is parked */
    atomic_int waits_for;            /* enum ad_cut: what the deadline is for */
    int64_t body_begun_ns;           /* when the headers of this request were there */
    int64_t ended_ns; /* guarded as prev: when the client was first seen to have ended */
    int64_t ended_while_ns; /* guarded as prev: the deadline at that time */
    uint64_t n_requests;
    bool is_extra;   /* over the limit when it came */
    bool bad_target; /* the request's target has a space in it */
    struct ad_tls_peer peer;
};

/* Start the thread that cuts. The counts must outlive it. */
enum ad_status ad_connections_start(const struct ad_options *options,
                                    struct ad_counts *counts,
                                    struct ad_connections **connections,
                                    struct ad_error *error) AD_MUST_CHECK;

/* All must be closed. NULL is fine. */
void ad_connections_free(struct ad_connections *connections);

/* Those open now, on both sides. Any thread. */
size_t ad_connections_open(const struct ad_connections *connections);

/* May one more come from that address? Any thread; what is refused is counted. */
bool ad_connections_admit(struct ad_connections *connections, enum ad_side side,
                          const struct sockaddr *address);

/* It is there; its first headers are awaited. NULL when out of memory. */
struct ad_connection *ad_connection_open(struct ad_connections *connections,
                                         enum ad_side side, int fd,
                                         const struct sockaddr *address);

/* To be called before its fd is closed. NULL is fine. */
void ad_connection_close(struct ad_connection *connection);

/* Is it one too many, now? */
bool ad_connection_is_extra(struct ad_connection *connection);

/* The headers are there, and a body of n bytes comes; 0: of unknown length. */
void ad_connection_await_body(struct ad_connection *connection, uint64_t n_bytes);

/* So many bytes have come of a body of unknown length. */
void ad_connection_extend_body(struct ad_connection *connection, uint64_t n_bytes);

/* The client has nothing to do. */
void ad_connection_rest(struct ad_connection *connection);

/* The client has to take a reply of n bytes. */
void ad_connection_await_reply(struct ad_connection *connection, uint64_t n_bytes);

/* The reply has gone: the next request may come, all its headers within the idle time. */
void ad_connection_await_request(struct ad_connection *connection);

#endif
