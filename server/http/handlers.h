/* handlers.h - the control routes: health, metadata, config, index. See ad_handler in
 * routes.h. */
#ifndef AD_HTTP_HANDLERS_H
#define AD_HTTP_HANDLERS_H

#include "http/routes.h"

ad_handler ad_handle_server;
ad_handler ad_handle_live;
ad_handler ad_handle_ready;
ad_handler ad_handle_models;
ad_handler ad_handle_model;
ad_handler ad_handle_model_ready;
ad_handler ad_handle_model_config;
ad_handler ad_handle_index;

/* The model version that a target means, with a reference. AD_NOT_FOUND,
 * AD_UNAVAILABLE. */
enum ad_status ad_target_acquire(const struct ad_service *service,
                                 const struct ad_target *target,
                                 struct ad_version **version,
                                 struct ad_error *error) AD_MUST_CHECK;

#endif
