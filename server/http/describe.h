/* describe.h - models and server as the protocol describes them, in JSON. Nothing is
 * kept. */
#ifndef AD_HTTP_DESCRIBE_H
#define AD_HTTP_DESCRIBE_H

#include "http/json_writer.h"
#include "http/keys.h"
#include "model/repository.h"

#include <stdbool.h>

/* shared_memory: whether it is offered. */
void ad_describe_server(struct ad_json *json, bool shared_memory);
/* key: list only what it may use; NULL: all. */
void ad_describe_models(struct ad_json *json, const struct ad_view *view,
                        const struct ad_key *key);

/* view: of version's model alone. */
void ad_describe_metadata(struct ad_json *json, const struct ad_view *view,
                          const struct ad_version *version);

/* As Triton's ModelConfig. It has no sequence_batching, which would make tools take every request for
 * one of a sequence. */
void ad_describe_config(struct ad_json *json, const struct ad_version *version);

void ad_describe_index(struct ad_json *json, const struct ad_view *view, bool ready_only);

#endif
