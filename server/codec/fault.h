/* fault.h - a failure of the library in the daemon's terms. */
#ifndef AD_CODEC_FAULT_H
#define AD_CODEC_FAULT_H

#include "attention.h"
#include "base/error.h"

/* Record what the library says, and return its status as one of ours. */
enum ad_status ad_fail_attn(struct ad_error *error, enum attn_status status,
                            const struct attn_error *fault);

#endif
