/* operator_handlers.h - the routes for operators: metrics, statistics, the log. See ad_handler in
 * routes.h. */
#ifndef AD_HTTP_OPERATOR_HANDLERS_H
#define AD_HTTP_OPERATOR_HANDLERS_H

#include "http/routes.h"

ad_handler ad_handle_metrics;
ad_handler ad_handle_stats;
ad_handler ad_handle_logging;

#endif
