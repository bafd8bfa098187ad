/* serve.h - a worker's whole job: decode, plan, compute, encode. */
#ifndef AD_CODEC_SERVE_H
#define AD_CODEC_SERVE_H

#include "sched/request.h"
#include "sched/workers.h"

/* Fills request->reply, or request->error. Never fails otherwise. Runs on a worker. */
void ad_serve_infer(struct ad_request *request, struct ad_worker *worker);

#endif
