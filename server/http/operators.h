/* operators.h - what operators read and set: metrics, statistics, the log. */
#ifndef AD_HTTP_OPERATORS_H
#define AD_HTTP_OPERATORS_H

#include "base/log_control.h"
#include "base/trace.h"
#include "http/counts.h"
#include "http/request_id.h"

#include <stdbool.h>
#include <stdint.h>

/* What the scheduler holds at one moment. */
struct ad_gauges {
    uint64_t n_connections;  /* open */
    uint64_t n_in_flight;    /* requests taken and not yet answered */
    uint64_t queue_length;   /* of them, those that wait */
    uint64_t queue_capacity; /* how many may */
    uint64_t queue_bytes;    /* bodies of those that wait */
    uint64_t n_sequences;
    uint64_t sequence_bytes; /* their kept keys and values */
    bool draining;           /* it stops, and sends clients elsewhere */
};

/* Owner: the server; one for all requests. Begins as zeros. */
struct ad_operators {
    struct ad_counts counts;
    struct ad_request_ids ids;
    struct ad_log_control *log_control; /* immutable, as are the next three */
    struct ad_tracer *tracer;           /* NULL: nothing is traced */
    void (*read_gauges)(void *scheduler, struct ad_gauges *gauges); /* any thread */
    void *scheduler;                                                /* for read_gauges */
};

#endif
