/* lane.h - what waits for one version of a model, and what is to be done with it next.
 *
 * Pure policy: it knows no lock, no thread and no clock (moments are told), and is tested by table.
 * The queue owns lanes and guards them by its lock.
 *
 * A request waits twice: raw, for a worker to decode it, and then ready, for a place in a batch.
 * A worker decodes while there is something to decode and the batch is not full, then runs the batch;
 * so whatever is there shares a pass, and nothing waits for what is not. */
#ifndef AD_SCHED_LANE_H
#define AD_SCHED_LANE_H

#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a worker may take up in the middle of a large request: a body that is decoded, and work that is
 * done, in a millisecond or so. */
#define AD_SMALL_BODY ((size_t)64 << 10)
#define AD_SMALL_COST 1e8

struct ad_lane {
    const struct ad_version *version; /* kept alive by the requests that wait */
    struct ad_stats *stats;        /* its own: held, since those in hand may end first */
    struct ad_requests raw, ready; /* by level, then by age */
    size_t n_taken;       /* requests that workers have in hand: the lane must stay */
    int64_t spent_ns;     /* virtual time: what workers spent on it (lanes.h) */
    struct ad_lane *next; /* lanes.h's */
};

/* Does waiting work count as small? */
bool ad_lane_is_small(const struct ad_request *request, bool ready);

enum ad_step {
    AD_STEP_NONE,   /* nothing waits */
    AD_STEP_WAIT,   /* a batch that is not full may wait for more, until a moment */
    AD_STEP_DECODE, /* take a raw one */
    AD_STEP_RUN     /* take a batch */
};

/* What is to be done at now_ns. small_only: nothing that is not small counts. *until_ns is set by
 * AD_STEP_WAIT. */
enum ad_step ad_lane_next(const struct ad_lane *lane, int64_t now_ns, bool small_only,
                          int64_t *until_ns);

/* After AD_STEP_DECODE: the request to decode. After AD_STEP_RUN: those to run together. They count
 * as taken. */
struct ad_request *ad_lane_take_raw(struct ad_lane *lane, bool small_only);
void ad_lane_take_batch(struct ad_lane *lane, bool small_only, struct ad_requests *batch);

/* Move what may not wait any longer at now_ns to expired; the earliest deadline among the rest, or
 * INT64_MAX. */
int64_t ad_lane_expire(struct ad_lane *lane, int64_t now_ns, struct ad_requests *expired);

/* Level and deadline of a request that joins now, by what it asks for and the model's settings. */
void ad_lane_admit(struct ad_request *request, int64_t now_ns);

#endif
