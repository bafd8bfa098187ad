/* workers.h - the threads that compute.
 *
 * Each worker takes a request, decodes it and gives it back to the queue, takes a batch of decoded
 * ones and runs it, with scratch memory of its own; while no request waits it helps another worker
 * with a large pass (see team.h). Scratch is kept between requests, up to AD_SCRATCH_KEPT bytes: what
 * a larger request took goes back to the system when that request is done. */
#ifndef AD_SCHED_WORKERS_H
#define AD_SCHED_WORKERS_H

#include "base/error.h"
#include "sched/queue.h"
#include "sched/team.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_SCRATCH_KEPT ((size_t)64 << 20)

/* Memory that one worker keeps between requests; {NULL, 0} is empty. What helpers need in
 * the forward of its request is in here too. */
struct ad_scratch {
    void *data; /* aligned to 64 */
    size_t size;
};

/* At least size bytes; what it held before is gone. NULL when out of memory. */
void *ad_scratch_get(struct ad_scratch *scratch, size_t size);

void ad_scratch_trim(struct ad_scratch *scratch);  /* frees when over AD_SCRATCH_KEPT */
void ad_scratch_reset(struct ad_scratch *scratch); /* frees */

/* What serving may use of the worker it runs on. Owner: that worker's thread. */
struct ad_worker {
    struct ad_scratch scratch;
    struct ad_scratch records; /* what serving notes of a pass */
    struct ad_team team;
    struct attn_parallel helpers; /* the team, where there is a queue of others */
};

/* What a worker does with requests. None of it calls on_done. */
struct ad_stages {
    void *context;
    /* Fill the decoder's fields and what is to be computed, or error; what it says is whether the
     * request may be run. One that moves a sequence is done then, and is not run. */
    enum ad_status (*decode)(void *context, struct ad_request *request);
    /* Run decoded requests together: reply or error of each is filled. */
    void (*run)(void *context, const struct ad_requests *batch, struct ad_worker *worker);
};

struct ad_workers;

/* Start n >= 1 workers. On failure none is left running and the queue is closed. */
enum ad_status ad_workers_start(size_t n, struct ad_queue *queue,
                                const struct ad_stages *stages,
                                struct ad_workers **workers,
                                struct ad_error *error) AD_MUST_CHECK;

/* Wait until the closed queue is drained and all workers have ended, or until
 * deadline_ns (of ad_clock_now_ns). False: the deadline passed and some still run;
 * they may be waited for again. */
bool ad_workers_join(struct ad_workers *workers, int64_t deadline_ns);

/* Answer requests that waited too long. Any thread that took them out of the queue. */
void ad_workers_refuse(struct ad_requests *expired);

/* After a successful join; NULL is fine. */
void ad_workers_free(struct ad_workers *workers);

#endif
