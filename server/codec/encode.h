/* encode.h - outputs -> the body of an infer reply. */
#ifndef AD_CODEC_ENCODE_H
#define AD_CODEC_ENCODE_H

#include "attention.h"
#include "base/error.h"
#include "sched/request.h"

#include <stddef.h>

/* Write request->reply and n_reply_json from the n outputs (F32), in their order, binary or JSON as
 * the request wants each. AD_NONFINITE names the output and the ways out. Runs on a worker. */
enum ad_status ad_encode_infer(struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               struct ad_error *error) AD_MUST_CHECK;

#endif
