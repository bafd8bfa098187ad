/* mode.h - what a request does beyond inference, and the inputs and outputs that it then has. */
#ifndef AD_CODEC_MODE_H
#define AD_CODEC_MODE_H

#include "base/error.h"
#include "codec/text.h"
#include "sched/request.h"

#include <stdbool.h>

/* With the request's parameters read: see that they agree, choose a seed where training needs one
 * and none was given, and set the request's ports. AD_INVALID names the parameter; AD_INTERNAL: no
 * memory, or no random bytes. */
enum ad_status ad_mode_settle(struct ad_request *request,
                              struct ad_error *error) AD_MUST_CHECK;

/* The only input that the request must have; NULL: it must have several, or none. names: receives the
 * names of all that it must have. */
const struct attn_port *ad_mode_required(const struct ad_request *request,
                                         struct ad_text *names);

/* Where an input or output that the request does not have would be known, for a message: ", which
 * is for /gradient". "" when nowhere. Static. */
const char *ad_mode_hint(const struct ad_request *request, bool is_input,
                         const char *name);

#endif
