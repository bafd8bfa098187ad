/* serve.h - what a worker does with requests; see struct ad_stages in sched/workers.h. */
#ifndef AD_CODEC_SERVE_H
#define AD_CODEC_SERVE_H

#include "sched/request.h"
#include "sched/sequences.h"
#include "sched/workers.h"

/* What serving needs beside the request and the worker. */
struct ad_serving {
    struct ad_sequences *sequences;
};

/* Move a sequence, if that is what is asked; else read the body, take the sequence in hand and lay the call out: request->plan and what follows it, or
 * request->error, which is what the result says too. context: a struct ad_serving. */
enum ad_status ad_serve_decode(void *context, struct ad_request *request) AD_MUST_CHECK;

/* Run decoded requests of one version in one pass, encode the replies and put the sequences back. What is
 * wrong with one request is in its error and touches no other. context: not used. */
void ad_serve_run(void *context, const struct ad_requests *batch,
                  struct ad_worker *worker);

#endif
