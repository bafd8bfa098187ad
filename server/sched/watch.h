/* watch.h - the thread that looks after what waits: it answers requests whose deadline has passed,
 * drops those whose client has gone, and forgets sequences that were idle for too long.
 *
 * It looks every AD_WATCH_TICK_NS and at each deadline while there are requests, and sleeps while there
 * are none. A client that closed its side of the connection counts as gone: the HTTP library says
 * nothing of a suspended connection, so the descriptors of requests that have been waiting for a
 * moment are polled. */
#ifndef AD_SCHED_WATCH_H
#define AD_SCHED_WATCH_H

#include "base/error.h"
#include "sched/queue.h"
#include "sched/sequences.h"

#define AD_WATCH_TICK_NS INT64_C(10000000)

struct ad_watch;

/* Start it. Both must outlive it, and nothing may be pushed before. */
enum ad_status ad_watch_start(struct ad_queue *queue, struct ad_sequences *sequences,
                              struct ad_watch **watch,
                              struct ad_error *error) AD_MUST_CHECK;

void ad_watch_stop(struct ad_watch *watch); /* joins and frees; NULL is fine */

#endif
