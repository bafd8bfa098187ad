/* counts.h - how often each route was answered with what, and why requests and connections were not
 * taken.
 *
 * Any thread may add and read, none waits. A count never falls. What a client can choose (paths,
 * verbs) makes no count of its own. */
#ifndef AD_HTTP_COUNTS_H
#define AD_HTTP_COUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_COUNTS_MAX_ROUTES 128
#define AD_COUNTS_VERBS 5  /* GET, HEAD, POST, DELETE and all others */
#define AD_COUNTS_CODES 28 /* those that we send, and all others */

/* Why a request was not taken, or given up before it was computed. */
enum ad_rejection {
    AD_REJECTED_QUEUE_FULL,
    AD_REJECTED_TIMEOUT, /* its deadline passed while it waited */
    AD_REJECTED_MEMORY,  /* what waits holds as many bytes as it may */
    AD_REJECTED_STOPPING,
    AD_REJECTED_NOT_LOADED,
    AD_REJECTED_CANCELED, /* its client went away */
    AD_REJECTED_SEQUENCE, /* the sequence is lost, busy, or one too many */
    AD_REJECTED_UNAUTHORIZED,
    AD_REJECTED_FORBIDDEN,
    AD_REJECTED_RATE, /* its key is over its rate */
    AD_N_REJECTIONS
};

/* Why a connection was closed before its client was done. */
enum ad_cut {
    AD_CUT_HEADERS, /* its first request line and headers took too long */
    AD_CUT_BODY,    /* a body came too slowly */
    AD_CUT_REPLY,   /* a reply was taken too slowly */
    AD_CUT_IDLE,    /* the headers of a later request took too long */
    AD_N_CUTS
};

/* Why a connection was not taken. */
enum ad_turned_away {
    AD_TURNED_AWAY_LIMIT,   /* as many as there may be */
    AD_TURNED_AWAY_ADDRESS, /* as many as there may be from one address */
    AD_N_TURNED_AWAY
};

struct ad_route_counts {
    _Atomic(const char *) pattern; /* NULL: unused; set once */
    atomic_uint_fast64_t counts[AD_COUNTS_VERBS][AD_COUNTS_CODES];
};

/* All zeros: nothing was counted. */
struct ad_counts {
    struct ad_route_counts routes[AD_COUNTS_MAX_ROUTES];
    atomic_uint_fast64_t rejections[AD_N_REJECTIONS];
    atomic_uint_fast64_t cuts[AD_N_CUTS];
    atomic_uint_fast64_t turned_away[AD_N_TURNED_AWAY];
};

/* A reply of that HTTP code went out. pattern is the route's, the same pointer each time; NULL: the
 * path has no route. */
void ad_counts_add(struct ad_counts *counts, const char *pattern, const char *verb,
                   unsigned code);

void ad_counts_reject(struct ad_counts *counts, enum ad_rejection reason);

/* As the metric's label names it. Static. */
const char *ad_rejection_text(enum ad_rejection reason);
uint64_t ad_counts_rejected(const struct ad_counts *counts, enum ad_rejection reason);

void ad_counts_cut(struct ad_counts *counts, enum ad_cut cut);
void ad_counts_turn_away(struct ad_counts *counts, enum ad_turned_away reason);

/* As the metrics' labels name them. Static. */
const char *ad_cut_text(enum ad_cut cut);
const char *ad_turned_away_text(enum ad_turned_away reason);

/* One count that is not 0. Strings are static. */
struct ad_count {
    const char *pattern; /* "": the paths without a route */
    const char *verb;
    const char *code;
    uint64_t n;
};

/* The count at or after *position, which moves behind it and begins as 0; false after the last. */
bool ad_counts_next(const struct ad_counts *counts, size_t *position,
                    struct ad_count *count);

#endif
