/* infer.h - an infer or gradient request as HTTP sees it: admit, hold its body, park, hand to the
 * queue, take the answer. */
#ifndef AD_HTTP_INFER_H
#define AD_HTTP_INFER_H

#include "base/error.h"
#include "http/call.h"
#include "http/reply.h"

/* With the headers at hand: find its model, look at its encoding. A failure is in call->error, which
 * is what the result says too; so below. */
enum ad_status ad_infer_begin(struct ad_call *call) AD_MUST_CHECK;

/* The body is to grow by n bytes: count them. AD_UNAVAILABLE: bodies that wait take what they may. */
enum ad_status ad_infer_hold_body(struct ad_call *call, size_t n) AD_MUST_CHECK;

/* With the body at hand: park the connection and push the request. AD_OK: the call
 * finishes when the connection has been resumed, even when the queue was full
 * (call->error then says so). */
enum ad_status ad_infer_submit(struct ad_call *call) AD_MUST_CHECK;

/* After on_done: the worker's answer. */
void ad_infer_take_reply(struct ad_call *call, struct ad_reply *reply);

/* The reply is about to go: count the request, trace it and write its line to the log. */
void ad_infer_conclude(struct ad_call *call, struct ad_reply *reply);

/* Give up what the call holds; one that was not concluded is counted as canceled. */
void ad_infer_end(struct ad_call *call);

#endif
