/* lanes.h - the lanes of all versions that have work, and whose turn it is.
 *
 * Fair by time: each lane has a virtual clock that runs while workers work for it, and the lane whose
 * clock is furthest behind goes first. So a flood on one model takes what the others leave, and
 * no more than its share when they want theirs. A lane that starts anew starts at the present of the
 * others: having been idle is no credit.
 *
 * Pure policy like lane.h; guarded by the queue's lock. */
#ifndef AD_SCHED_LANES_H
#define AD_SCHED_LANES_H

#include "sched/lane.h"

/* {NULL, 0} is empty. */
struct ad_lanes {
    struct ad_lane *first;
    int64_t now_ns; /* the virtual present: never behind a lane that was served last */
};

/* The lane of a version, made when there is none; NULL when out of memory. */
struct ad_lane *ad_lanes_get(struct ad_lanes *lanes, const struct ad_version *version);

/* Free the lane if nothing of it waits or is in hand. */
void ad_lanes_tidy(struct ad_lanes *lanes, struct ad_lane *lane);

/* Whose turn it is, with the step that ad_lane_next gives for it: AD_STEP_DECODE or AD_STEP_RUN. NULL: nobody's before
 * *until_ns (INT64_MAX: nobody's). */
struct ad_lane *ad_lanes_choose(struct ad_lanes *lanes, int64_t now_ns, bool small_only,
                                enum ad_step *step, int64_t *until_ns);

#endif
