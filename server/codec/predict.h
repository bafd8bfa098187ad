/* predict.h - KServe's first protocol: {"instances": [...]} -> inputs, outputs -> {"predictions": [...]}. */
#ifndef AD_CODEC_PREDICT_H
#define AD_CODEC_PREDICT_H

#include "attention.h"
#include "base/error.h"
#include "sched/request.h"

#include <stddef.h>

/* Read request->body. An instance is an object with the model's inputs by name, each a nested list of one
 * sample, or that list itself where the model requires one input alone. The samples of all instances are
 * stacked along the batch axis, which is the first of every input but those of whole numbers (edges):
 * such a list is for the batch as it stands and may come in the first instance alone. What a member beside
 * instances says is not looked at. AD_INVALID names the place, instances[1].query[3], what was expected
 * and what came. Runs on a worker. */
enum ad_status ad_predict_decode(struct ad_request *request,
                                 struct ad_error *error) AD_MUST_CHECK;

/* Write request->reply from the n outputs: a nested list for each instance, or an object of them where the
 * model has several outputs. AD_NONFINITE as in encode.h. */
enum ad_status ad_predict_encode(struct ad_request *request,
                                 const struct attn_named_tensor *outputs,
                                 size_t n_outputs, struct ad_error *error) AD_MUST_CHECK;

#endif
