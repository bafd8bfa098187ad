/* admit.h - what a call has to do with access: is it let in, what does its reply tell a browser, what
 * is written down about a refusal. On the connection's I/O thread. */
#ifndef AD_HTTP_ADMIT_H
#define AD_HTTP_ADMIT_H

#include "base/error.h"
#include "http/call.h"
#include "http/client.h"
#include "http/reply.h"

/* With the route at hand: does it take the verb, or is this a preflight (call->preflight); is the key
 * good for it? A failure is in call->error, which is what the result says too. */
enum ad_status ad_admit_check(struct ad_call *call, const char *verb) AD_MUST_CHECK;

/* Success of a preflight. */
void ad_admit_answer_preflight(const struct ad_call *call, struct ad_reply *reply);

/* What every reply carries: for the browser, and for who is over a rate. */
void ad_admit_mark(const struct ad_call *call, struct ad_reply *reply);

/* Count and log one that was refused here (call->refused). */
void ad_admit_conclude(const struct ad_call *call, const struct ad_reply *reply);

/* The client's address as text, "unix" where it has none. */
void ad_admit_client(const struct ad_call *call, char text[AD_CLIENT_SIZE]);

#endif
