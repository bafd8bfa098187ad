/* pack.h - a reply -> the same, coded as its client likes it. */
#ifndef AD_CODEC_PACK_H
#define AD_CODEC_PACK_H

#include "sched/request.h"

/* A smaller reply is not worth it. */
#define AD_PACK_LEAST ((size_t)1 << 10)

/* Pack request->reply as reply_coding and reply_level say, where it gets smaller by a good part; else it
 * stays as it is, and so it does without memory. Numbers in text shrink to less than half; tensors as
 * bytes hardly ever do, which a look at a few of them tells in microseconds. Runs on a worker. */
void ad_pack_reply(struct ad_request *request);

#endif
