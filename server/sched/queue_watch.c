/* queue_watch.c - what waits in the queue, as the watch looks after it.
 *
 * Any thread; under the queue's lock. */
#include "sched/queue_state.h"

int64_t ad_queue_expire(struct ad_queue *queue, int64_t now_ns,
                        struct ad_requests *expired)
{
    int64_t earliest = INT64_MAX;
    struct ad_lane *next = NULL;
    pthread_mutex_lock(&queue->lock);
    for (struct ad_lane *lane = queue->lanes.first; lane; lane = next) {
        next = lane->next;
        size_t n = expired->n;
        int64_t deadline_ns = ad_lane_expire(lane, now_ns, expired);
        earliest = deadline_ns < earliest ? deadline_ns : earliest;
        ad_queue_move(queue, lane, -(long)(expired->n - n), 0);
        ad_lanes_tidy(&queue->lanes, lane);
    }
    /* a batch may have waited long enough while all workers have a job: they look again */
    ad_queue_set_flag(&queue->has_work, ad_queue_length(queue) > 0);
    ad_queue_set_flag(&queue->has_small, ad_queue_length(queue) > 0);
    pthread_mutex_unlock(&queue->lock);
    return earliest;
}

/* A list of waiters under way: the first `skip` are left out. */
struct listing {
    struct ad_waiter *waiters;
    size_t n, most, skip;
};

static void list_waiters(struct listing *listing, const struct ad_requests *list,
                         int64_t before_ns)
{
    for (const struct ad_request *r = list->first; r && listing->n < listing->most;
         r = r->next) {
        if (r->fd < 0 || r->times.queued_ns >= before_ns) {
            continue;
        }
        if (listing->skip > 0) {
            listing->skip--;
        } else {
            listing->waiters[listing->n++] = (struct ad_waiter){r->number, r->fd};
        }
    }
}

size_t ad_queue_waiters(struct ad_queue *queue, int64_t before_ns, size_t *from,
                        struct ad_waiter *waiters, size_t n)
{
    struct listing listing = {.waiters = waiters, .most = n, .skip = *from};
    pthread_mutex_lock(&queue->lock);
    for (const struct ad_lane *lane = queue->lanes.first; lane; lane = lane->next) {
        list_waiters(&listing, &lane->raw, before_ns);
        list_waiters(&listing, &lane->ready, before_ns);
    }
    pthread_mutex_unlock(&queue->lock);
    *from = listing.n < n ? 0 : *from + n;
    return listing.n;
}

static void remove_locked(struct ad_queue *queue, struct ad_lane *lane,
                          struct ad_requests *list, const struct ad_waiter *waiters,
                          size_t n, struct ad_requests *removed)
{
    struct ad_request *next = NULL;
    for (struct ad_request *request = list->first; request; request = next) {
        next = request->next;
        size_t i = 0;
        while (i < n && waiters[i].number != request->number) {
            i++;
        }
        if (i < n) {
            ad_queue_take_out(queue, lane, list, request, removed);
        }
    }
}

void ad_queue_remove(struct ad_queue *queue, const struct ad_waiter *waiters, size_t n,
                     struct ad_requests *removed)
{
    struct ad_lane *next = NULL;
    pthread_mutex_lock(&queue->lock);
    for (struct ad_lane *lane = queue->lanes.first; lane; lane = next) {
        next = lane->next;
        remove_locked(queue, lane, &lane->raw, waiters, n, removed);
        remove_locked(queue, lane, &lane->ready, waiters, n, removed);
        ad_lanes_tidy(&queue->lanes, lane);
    }
    pthread_mutex_unlock(&queue->lock);
}

bool ad_queue_rest(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->resting = !queue->lanes.first;
    bool rests = queue->resting;
    pthread_mutex_unlock(&queue->lock);
    return rests;
}
