/* infer.h - an infer or gradient request as HTTP sees it: admit, park, hand to the queue,
 * take the answer. */
#ifndef AD_HTTP_INFER_H
#define AD_HTTP_INFER_H

#include "base/error.h"
#include "http/call.h"
#include "http/reply.h"

/* With the headers at hand: number the call, find its model, look at its encoding. A
 * failure is in call->error, which is what the result says too; so below. */
enum ad_status ad_infer_begin(struct ad_call *call) AD_MUST_CHECK;

/* With the body at hand: park the connection and push the request. AD_OK: the call
 * finishes when the connection has been resumed, even when the queue was full
 * (call->error then says so). */
enum ad_status ad_infer_submit(struct ad_call *call) AD_MUST_CHECK;

/* After on_done: the worker's answer. */
void ad_infer_take_reply(struct ad_call *call, struct ad_reply *reply);

/* One line about such a call, when its reply is known. */
void ad_infer_log(const struct ad_call *call, const struct ad_reply *reply);

#endif
