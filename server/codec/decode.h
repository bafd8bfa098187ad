/* decode.h - the body of an infer request -> its inputs and wishes. */
#ifndef AD_CODEC_DECODE_H
#define AD_CODEC_DECODE_H

#include "base/error.h"
#include "sched/request.h"

/* Read request->body (unpacked first where it is coded; then by its form: JSON and binary tensors, say)
 * against the ports that request->version has in the
 * mode that the parameters ask for, and fill the decoder's fields. Tensors of JSON `data` are parsed
 * straight into the arena; binary ones are views of the body where alignment and type allow.
 * AD_INVALID and AD_UNSUPPORTED name the input, what was expected and what came. Runs on a worker. */
enum ad_status ad_decode_infer(struct ad_request *request,
                               struct ad_error *error) AD_MUST_CHECK;

#endif
