/* peek.h - what has to be known of a request before a worker decodes it: how long it may wait, and
 * how urgent it is. */
#ifndef AD_CODEC_PEEK_H
#define AD_CODEC_PEEK_H

#include "sched/request.h"

/* Fill timeout_us and priority from the JSON part of request->body, where its parameters have them as
 * plain integers. Judges nothing: what is malformed or of another type leaves them as they are, for
 * the decoder to complain. A walk over the JSON without its numbers; any thread that holds the
 * request. */
void ad_peek_parameters(struct ad_request *request);

#endif
