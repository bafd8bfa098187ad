/* describe.h - models and server as the protocol describes them, in JSON. Nothing is
 * kept. */
#ifndef AD_HTTP_DESCRIBE_H
#define AD_HTTP_DESCRIBE_H

#include "http/json_writer.h"
#include "model/repository.h"

#include <stdbool.h>

void ad_describe_server(struct ad_json *json);
void ad_describe_models(struct ad_json *json, const struct ad_repository *repository);

/* version is one of model's, and loaded. */
void ad_describe_metadata(struct ad_json *json, const struct ad_model *model,
                          const struct ad_version *version);
void ad_describe_config(struct ad_json *json, const struct ad_version *version);

void ad_describe_index(struct ad_json *json, const struct ad_repository *repository,
                       bool ready_only);

#endif
