/* decode_raw.h - a body that is the bytes of the only input. */
#ifndef AD_CODEC_DECODE_RAW_H
#define AD_CODEC_DECODE_RAW_H

#include "base/error.h"
#include "sched/request.h"

/* The body is the one input that the model requires, in the type that its metadata gives, for a batch of
 * one; a second axis without a size of its own gets that which the bytes make up. Inputs that are optional
 * are not given, and all outputs go out as bytes. AD_INVALID: a model that requires several inputs, or
 * whose input leaves more than one axis open; a size that does not fit. Runs on a worker. */
enum ad_status ad_decode_raw(struct ad_request *request,
                             struct ad_error *error) AD_MUST_CHECK;

#endif
