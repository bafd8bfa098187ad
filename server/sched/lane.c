/* lane.c - what waits for one version of a model, and what is to be done with it next.
 *
 * Pure; whoever holds the queue's lock. */
#include "sched/lane.h"

#include <limits.h>

#define NS_PER_US 1000

bool ad_lane_is_small(const struct ad_request *request, bool ready)
{
    /* of a body that is packed, and of what a sequence keeps, nobody knows what it will be */
    return ready ? request->cost <= AD_SMALL_COST
                 : !request->move && request->coding == AD_CODING_IDENTITY &&
                       request->body.size <= AD_SMALL_BODY;
}

static struct ad_request *first_of(const struct ad_requests *list, bool ready,
                                   bool small_only)
{
    struct ad_request *request = list->first;
    while (small_only && request && !ad_lane_is_small(request, ready)) {
        request = request->next;
    }
    return request;
}

/* ---- batches ------------------------------------------------------------------------------- */

/* A batch that grows request by request. */
struct gathering {
    const struct ad_model_settings *settings;
    bool small_only;
    size_t n, n_rows;
    double cost;
    bool full;
};

/* Whether the request is one of the batch; the first always is. Once one did not fit, the batch is
 * full: those behind it are not let past. */
static bool gather(struct gathering *batch, const struct ad_request *request)
{
    const struct ad_model_settings *settings = batch->settings;
    if (batch->n == 0) {
        batch->n = 1;
        batch->n_rows = request->n_rows;
        batch->cost = request->cost;
        batch->full = !request->joins || settings->max_batch_requests <= 1 ||
                      request->n_rows >= settings->max_batch_rows;
        return true;
    }
    if (batch->full || !request->joins) {
        return false;
    }
    if (request->n_rows > settings->max_batch_rows - batch->n_rows ||
        (batch->small_only && batch->cost + request->cost > AD_SMALL_COST)) {
        batch->full = true;
        return false;
    }
    batch->n++;
    batch->n_rows += request->n_rows;
    batch->cost += request->cost;
    batch->full = batch->n >= settings->max_batch_requests ||
                  batch->n_rows >= settings->max_batch_rows;
    return true;
}

static struct gathering start_gathering(const struct ad_lane *lane, bool small_only)
{
    return (struct gathering){.settings = &lane->version->settings,
                              .small_only = small_only};
}

/* Would a batch taken now be full, or are as many waiting as could be in one? Among these may be some
 * that do not join: they are no reason to decode ever more. */
static bool is_full(const struct ad_lane *lane, const struct ad_request *first,
                    bool small_only)
{
    struct gathering batch = start_gathering(lane, small_only);
    size_t n = 0;
    for (; first && !batch.full && n < batch.settings->max_batch_requests; n++) {
        (void)gather(&batch, first);
        first = first->next;
    }
    return batch.full || n >= batch.settings->max_batch_requests;
}

void ad_lane_take_batch(struct ad_lane *lane, bool small_only, struct ad_requests *batch)
{
    struct gathering gathering = start_gathering(lane, small_only);
    struct ad_request *request = first_of(&lane->ready, true, small_only);
    while (request && !gathering.full) {
        struct ad_request *next = request->next;
        if (gather(&gathering, request)) {
            ad_requests_remove(&lane->ready, request);
            ad_requests_append(batch, request);
        }
        request = next;
    }
    lane->n_taken += batch->n;
}

struct ad_request *ad_lane_take_raw(struct ad_lane *lane, bool small_only)
{
    struct ad_request *request = first_of(&lane->raw, false, small_only);
    ad_requests_remove(&lane->raw, request);
    lane->n_taken++;
    return request;
}

/* ---- what next ----------------------------------------------------------------------------- */

/* When a batch that is not full has waited long enough: its oldest request decides. */
static int64_t end_of_delay(const struct ad_lane *lane)
{
    int64_t oldest = INT64_MAX;
    for (const struct ad_request *r = lane->ready.first; r; r = r->next) {
        oldest = r->times.queued_ns < oldest ? r->times.queued_ns : oldest;
    }
    int64_t delay_ns = (int64_t)lane->version->settings.max_queue_delay_us * NS_PER_US;
    return oldest > INT64_MAX - delay_ns ? INT64_MAX : oldest + delay_ns;
}

enum ad_step ad_lane_next(const struct ad_lane *lane, int64_t now_ns, bool small_only,
                          int64_t *until_ns)
{
    const struct ad_request *raw = first_of(&lane->raw, false, small_only);
    const struct ad_request *ready = first_of(&lane->ready, true, small_only);
    if (!ready) {
        return raw ? AD_STEP_DECODE : AD_STEP_NONE;
    }
    if (is_full(lane, ready, small_only)) {
        /* full of what may go first? */
        return raw && raw->level < ready->level ? AD_STEP_DECODE : AD_STEP_RUN;
    }
    if (raw) {
        return AD_STEP_DECODE;
    }
    if (lane->version->settings.max_queue_delay_us > 0) {
        *until_ns = end_of_delay(lane);
        return now_ns < *until_ns ? AD_STEP_WAIT : AD_STEP_RUN;
    }
    return AD_STEP_RUN;
}

/* ---- waiting ------------------------------------------------------------------------------- */

static int64_t expire(struct ad_requests *list, int64_t now_ns,
                      struct ad_requests *expired)
{
    int64_t earliest = INT64_MAX;
    struct ad_request *next = NULL;
    for (struct ad_request *request = list->first; request; request = next) {
        next = request->next;
        if (request->deadline_ns == 0) {
            continue;
        }
        if (request->deadline_ns <= now_ns) {
            ad_requests_remove(list, request);
            ad_requests_append(expired, request);
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

int64_t ad_lane_expire(struct ad_lane *lane, int64_t now_ns, struct ad_requests *expired)
{
    int64_t raw = expire(&lane->raw, now_ns, expired);
    int64_t ready = expire(&lane->ready, now_ns, expired);
    return raw < ready ? raw : ready;
}

void ad_lane_admit(struct ad_request *request, int64_t now_ns)
{
    const struct ad_model_settings *settings = &request->version->settings;
    uint64_t timeout_us =
        request->timeout_us ? request->timeout_us : settings->default_timeout_us;
    uint64_t most = (uint64_t)(INT64_MAX - now_ns) / NS_PER_US;
    request->deadline_ns = timeout_us == 0 || timeout_us > most
                               ? 0
                               : now_ns + (int64_t)timeout_us * NS_PER_US;
    request->level = request->priority >= 1 && request->priority <= settings->n_priorities
                         ? (unsigned)request->priority
                         : settings->default_priority;
}
