/* handle_logging.c - GET and POST /v2/logging: the log's settings, changed or as they are. Runs on an
 * I/O thread. */
#include "http/logging_request.h"
#include "http/operator_handlers.h"

static enum ad_status change_settings(struct ad_log_control *control,
                                      const struct ad_buffer *body,
                                      struct ad_error *error)
{
    struct ad_log_change change;
    enum ad_status status =
        ad_logging_request_parse(body->data, body->size, &change, error);
    return status ? status : ad_log_control_change(control, &change, error);
}

enum ad_status ad_handle_logging(const struct ad_service *service,
                                 const struct ad_ask *ask, struct ad_reply *reply,
                                 struct ad_error *error)
{
    struct ad_log_control *control = service->operators.log_control;
    enum ad_status status =
        ask->posted ? change_settings(control, ask->body, error) : AD_OK;
    if (status) {
        return status;
    }
    struct ad_log_settings settings;
    ad_log_control_read(control, &settings);
    struct ad_json json = ad_json_to(&reply->body);
    ad_logging_write(&json, &settings);
    reply->n_json = reply->body.size;
    return ad_json_ok(&json) ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}
