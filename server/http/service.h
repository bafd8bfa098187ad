/* service.h - what all requests share.
 *
 * Owner: the server. Everything that the pointers refer to outlives it. */
#ifndef AD_HTTP_SERVICE_H
#define AD_HTTP_SERVICE_H

#include "base/log.h"
#include "base/options.h"
#include "http/operators.h"
#include "http/parking.h"
#include "http/tls.h"
#include "model/loader.h"
#include "model/repository.h"
#include "sched/budget.h"
#include "sched/queue.h"
#include "sched/regions.h"
#include "sched/sequences.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ad_access;
struct MHD_Response;

struct ad_service {
    const struct ad_options *options; /* immutable, as are all pointers */
    const struct ad_log *log;
    struct ad_repository *repository;
    struct ad_loader *loader;
    struct ad_queue *queue;
    struct ad_sequences *sequences;
    struct ad_tls *tls;         /* NULL: none */
    struct ad_regions *regions; /* of shared memory; NULL: it is not offered */
    struct ad_operators operators;
    struct ad_access *access;         /* owned by the server */
    struct MHD_Response *last_resort; /* the same: see ad_reply_send */
    struct ad_parking_luck luck;
    struct ad_budget budget; /* of request bodies */
    bool apart;              /* operators have a listener of their own; immutable */
    atomic_bool draining;    /* not ready, and every reply closes; set once, by drain */
    atomic_bool stopping;    /* set once, by quiesce */
    atomic_size_t n_parked;  /* requests suspended whose reply has not all been sent */
    atomic_size_t n_calls;   /* requests, from their headers to the end of their reply */
    atomic_size_t
        n_coming; /* of them, those to infer that are let in and not yet queued */
};

#endif
