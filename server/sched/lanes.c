/* lanes.c - the lanes of all versions that have work, and whose turn it is.
 *
 * Pure; whoever holds the queue's lock. Lanes are a plain list: there are as many as versions in use. */
#include "sched/lanes.h"

#include <stdlib.h>

struct ad_lane *ad_lanes_get(struct ad_lanes *lanes, const struct ad_version *version)
{
    struct ad_lane *lane = lanes->first;
    while (lane && lane->version != version) {
        lane = lane->next;
    }
    if (lane) {
        return lane;
    }
    lane = calloc(1, sizeof *lane);
    if (lane) {
        lane->version = version;
        lane->stats = ad_stats_hold(version->stats);
        lane->spent_ns = lanes->now_ns;
        lane->next = lanes->first;
        lanes->first = lane;
    }
    return lane;
}

void ad_lanes_tidy(struct ad_lanes *lanes, struct ad_lane *lane)
{
    if (lane->raw.n > 0 || lane->ready.n > 0 || lane->n_taken > 0) {
        return;
    }
    struct ad_lane **link = &lanes->first;
    while (*link != lane) {
        link = &(*link)->next;
    }
    *link = lane->next;
    ad_stats_release(lane->stats);
    free(lane);
}

struct ad_lane *ad_lanes_choose(struct ad_lanes *lanes, int64_t now_ns, bool small_only,
                                enum ad_step *step, int64_t *until_ns)
{
    struct ad_lane *chosen = NULL;
    *until_ns = INT64_MAX;
    for (struct ad_lane *lane = lanes->first; lane; lane = lane->next) {
        int64_t until = INT64_MAX;
        enum ad_step next = ad_lane_next(lane, now_ns, small_only, &until);
        *until_ns = until < *until_ns ? until : *until_ns;
        if ((next == AD_STEP_DECODE || next == AD_STEP_RUN) &&
            (!chosen || lane->spent_ns < chosen->spent_ns)) {
            chosen = lane;
            *step = next;
        }
    }
    if (chosen && chosen->spent_ns > lanes->now_ns) {
        lanes->now_ns = chosen->spent_ns;
    }
    return chosen;
}
