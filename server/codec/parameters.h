/* parameters.h - the `parameters` objects of an infer request: its own, an input's, an output's.
 *
 * A parameter that we know must have its type. One that would change the result and is not offered
 * is AD_UNSUPPORTED. One that we don't know is ignored and named in the log at debug level. */
#ifndef AD_CODEC_PARAMETERS_H
#define AD_CODEC_PARAMETERS_H

#include "base/error.h"
#include "sched/request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* "a string", "null", …: for messages. Static; value may be NULL ("nothing"). */
const char *ad_json_kind(const json_t *value);

/* Of the request: fills binary_default, nonfinite, mode, seed_given, timeout_us, priority and
 * sequence_call. Whether those of the mode agree is for ad_mode_settle. root is the request's object. */
enum ad_status ad_parameters_of_request(struct ad_request *request, json_t *root,
                                        struct ad_error *error) AD_MUST_CHECK;

/* Of a request that has none, as its form has no place for them: whatever its headers ask for that would
 * need them is refused. */
enum ad_status ad_parameters_none(struct ad_request *request,
                                  struct ad_error *error) AD_MUST_CHECK;

/* A place in a registered region of shared memory. */
struct ad_shared {
    const char *region; /* its name, the tree's; NULL: none is meant */
    uint64_t offset, n_bytes;
};

/* Of one input; *size is its binary_data_size, -1 when it has none. */
enum ad_status ad_parameters_of_input(const struct ad_request *request, json_t *input,
                                      const char *name, int64_t *size,
                                      struct ad_shared *place,
                                      struct ad_error *error) AD_MUST_CHECK;

/* Of one output; *binary is changed when binary_data is there, and false with a place in shared memory. */
enum ad_status ad_parameters_of_output(const struct ad_request *request, json_t *output,
                                       const char *name, bool *binary,
                                       struct ad_shared *place,
                                       struct ad_error *error) AD_MUST_CHECK;

#endif
