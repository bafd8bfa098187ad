/* move.h - a sequence goes out of the daemon, comes into it, or is forgotten. */
#ifndef AD_CODEC_MOVE_H
#define AD_CODEC_MOVE_H

#include "sched/request.h"
#include "sched/sequences.h"

/* Do what request->move says with the sequence request->sequence_call.id: the reply, or request->error, which is what
 * the result says too. AD_CONFLICT: the sequence is lost or busy, or the body is another layer's; see sequences.h and
 * sequence_file.h. An import that fails by its body leaves what is kept under the id as it was. Runs on a worker. */
enum ad_status ad_move_run(struct ad_sequences *sequences,
                           struct ad_request *request) AD_MUST_CHECK;

#endif
