/* encode.h - outputs -> the body of an infer reply. */
#ifndef AD_CODEC_ENCODE_H
#define AD_CODEC_ENCODE_H

#include "attention.h"
#include "base/error.h"
#include "sched/request.h"

#include <stdbool.h>
#include <stddef.h>

/* Write request->reply and n_reply_json from the n outputs (F32), in their order, binary or JSON as
 * the request wants each; those for shared memory go there. AD_NONFINITE names the output and the ways
 * out. Runs on a worker. */
enum ad_status ad_encode_infer(struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               struct ad_error *error) AD_MUST_CHECK;

/* Whether all n outputs go out as bytes. */
bool ad_encode_is_binary(const struct ad_request *request, size_t n_outputs);

/* The same reply before its tensors are known: floats[i] is where output i belongs in it, and what
 * outputs[i] then describes. */
enum ad_status ad_encode_binary(struct ad_request *request,
                                struct attn_named_tensor *outputs, float **floats,
                                size_t n_outputs, struct ad_error *error) AD_MUST_CHECK;

/* Append text as a JSON string; false: out of memory. For replies of another form, as what follows. */
bool ad_encode_string(struct ad_buffer *reply, const char *text) AD_MUST_CHECK;

/* Append n floats of an output, from the first-th on, as numbers between commas. */
enum ad_status ad_encode_floats(struct ad_request *request,
                                const struct attn_named_tensor *output, size_t first,
                                size_t n, struct ad_error *error) AD_MUST_CHECK;

#endif
