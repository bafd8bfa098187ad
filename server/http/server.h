/* server.h - the HTTP side: listen, route, park, reply. */
#ifndef AD_HTTP_SERVER_H
#define AD_HTTP_SERVER_H

#include "base/error.h"
#include "base/log.h"
#include "base/log_control.h"
#include "base/options.h"
#include "base/passed.h"
#include "base/trace.h"
#include "model/repository.h"
#include "sched/queue.h"
#include "sched/regions.h"

#include <stdint.h>

struct ad_server;

/* What the server refers to; all must outlive it. */
struct ad_server_config {
    const struct ad_options *options;
    const struct ad_log *log;
    struct ad_log_control *log_control;
    struct ad_repository *repository;
    struct ad_loader *loader;
    struct ad_queue *queue;
    struct ad_sequences *sequences;
    struct ad_tracer *tracer;   /* NULL: nothing is traced */
    struct ad_regions *regions; /* NULL: shared memory is not offered */
    struct ad_passed *passed;   /* listening sockets, which the server takes */
};

/* Can the server's options be used, and the files that they name? Listens nowhere. */
enum ad_status ad_server_check(const struct ad_options *options,
                               struct ad_error *error) AD_MUST_CHECK;

/* Listen and serve from threads of its own, wherever the options want it. AD_INVALID: an option, or a
 * file that it names, is not what it should be; AD_UNAVAILABLE: an address cannot be bound. */
enum ad_status ad_server_start(const struct ad_server_config *config,
                               struct ad_server **server,
                               struct ad_error *error) AD_MUST_CHECK;

/* Read the files anew that the options name; what is bad stays as it was, and the log says why. */
void ad_server_reload(struct ad_server *server);

/* Where it listens first: an address or the path of a unix socket, and its port, 0 for the latter. */
const char *ad_server_address(const struct ad_server *server);
uint16_t ad_server_port(const struct ad_server *server);

/* Ask it for its health, as a client would, at the first of its listeners. AD_OK or AD_CANCELED: it
 * answered, or at least hung up, so it is alive. Else the message says why that is in doubt. */
enum ad_status ad_server_probe(const struct ad_server *server, int64_t deadline_ns,
                               struct ad_error *error) AD_MUST_CHECK;

/* The first step of a stop that has time: readiness is off, and every reply closes its connection, so
 * that clients and load balancers go elsewhere. All else is served as before, to new connections
 * too. */
void ad_server_drain(struct ad_server *server);

/* Stop in this order: quiesce (the same, and new requests to infer are refused with 503; waits up to two
 * seconds for the bodies of those that were let in before), then the caller drains the queue and joins
 * the workers, then free (waits a few seconds for replies on their way, then closes). Health is
 * answered until the end: the listening socket stays open, so that a load balancer sees a 503 and not
 * a lost connection. */
void ad_server_quiesce(struct ad_server *server);

/* What free does first: wait a few seconds for replies on their way. */
void ad_server_await_replies(struct ad_server *server);

/* Nothing may be parked: the workers are joined and on_done has run for what they
 * left. NULL is fine. */
void ad_server_free(struct ad_server *server);

#endif
