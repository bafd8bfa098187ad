/* handle_sequences.h - the sequences of a model: which there are, and how one leaves, comes or goes. */
#ifndef AD_HTTP_HANDLE_SEQUENCES_H
#define AD_HTTP_HANDLE_SEQUENCES_H

#include "http/call.h"
#include "http/reply.h"
#include "http/routes.h"

/* Those that are kept for a version: a route for operators. See ad_handler. */
ad_handler ad_handle_sequences;

/* The call moves a sequence: tell its request which, and how. A failure is in call->error. */
enum ad_status ad_move_begin(struct ad_call *call) AD_MUST_CHECK;

/* What a good reply to a move has beside its body. */
void ad_move_mark(enum ad_move move, struct ad_reply *reply);

/* What the log calls it. Static. */
const char *ad_move_text(enum ad_move move);

#endif
