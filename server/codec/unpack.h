/* unpack.h - a coded body -> the body itself. */
#ifndef AD_CODEC_UNPACK_H
#define AD_CODEC_UNPACK_H

#include "base/error.h"
#include "sched/request.h"

/* Windows of zstd frames, which have to be kept beside what they unpack to: what RFC 9659 lets a client
 * use. */
#define AD_UNPACK_WINDOW_LOG 23

/* Unpack request->body, if it is coded, and see that n_json fits. What it takes is counted in the
 * request's budget as it grows, and is never more than max_input_bytes and a window; the coded body is
 * freed. AD_INVALID: the coding and the offset in the coded body; AD_TOO_LARGE, AD_UNAVAILABLE: as
 * ad_request_hold, or the limit. After a failure the body is what it was. Runs on a worker. */
enum ad_status ad_unpack_body(struct ad_request *request,
                              struct ad_error *error) AD_MUST_CHECK;

#endif
