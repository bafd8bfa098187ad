/* load_run.h - connections that send requests and count what comes back. */
#ifndef TESTS_BENCH_LOAD_RUN_H
#define TESTS_BENCH_LOAD_RUN_H

#include "bench/histogram.h"
#include "bench/load_request.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define MOST_STATUSES 600
#define STEP_PARTS 10

/* What happened to one kind of request during one part of a run. */
struct load_counts {
    double seconds,
        cpu_seconds; /* how long the part was; what this program itself computed */
    uint64_t statuses[MOST_STATUSES]; /* complete replies */
    uint64_t
        n_wrong; /* of those with 200: of another length, or with other bytes, than the first */
    uint64_t n_broken; /* not HTTP, or cut off */
    uint64_t n_behind; /* at the end of the part: due by the rate, and not sent */
    struct histogram good, refused;     /* 200 and right; any other status */
    struct histogram steps[STEP_PARTS]; /* of `good`, by tenths of a sequence */
};

/* Over a whole run, warm-up included. */
struct load_totals {
    uint64_t n_sent, n_replies, n_unanswered;
};

struct load;

/* Connect everything. kinds are borrowed; host is for the Host header. Ends the program when the
 * server does not take a connection. */
struct load *load_create(const struct load_kind *kinds, size_t n_kinds,
                         const struct sockaddr *address, socklen_t n_address,
                         const char *host);
void load_free(struct load *load);

/* Go on for so many seconds. counts (one a kind, at least as many as there are) are cleared first. */
void load_run(struct load *load, double seconds, struct load_counts *counts);

/* Send nothing more, and wait up to so many seconds for the replies to what was sent; totals: one a
 * kind. */
void load_finish(struct load *load, double seconds, struct load_totals *totals);

#endif
