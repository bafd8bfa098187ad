/* shared.h - tensors of a request that are in shared memory: see sched/regions.h. */
#ifndef AD_CODEC_SHARED_H
#define AD_CODEC_SHARED_H

#include "base/error.h"
#include "codec/input.h"
#include "codec/parameters.h"
#include "sched/request.h"

#include <stddef.h>

/* Copy the elements of an input whose place is input->shared into the arena. AD_INVALID: no such region,
 * or the place is not there; AD_TOO_LARGE: with what was read before, more than a body may have;
 * AD_UNAVAILABLE: more than all that wait may take. */
enum ad_status ad_shared_read(struct ad_request *request, const struct ad_input *input,
                              const void **elements,
                              struct ad_error *error) AD_MUST_CHECK;

/* Take hold of the region that an output is to go to, and see that the place is there. */
enum ad_status ad_shared_reserve(struct ad_request *request,
                                 const struct ad_shared *place,
                                 struct ad_wanted_output *wanted,
                                 struct ad_error *error) AD_MUST_CHECK;

/* With the shapes of the outputs known: is there room for each, and do no two of them meet? */
enum ad_status ad_shared_check(const struct ad_request *request,
                               struct ad_error *error) AD_MUST_CHECK;

/* Write the outputs there that belong there; outputs[i] is that of wanted[i]. */
enum ad_status ad_shared_write(const struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               struct ad_error *error) AD_MUST_CHECK;

#endif
