/* handlers.c - the control routes. They answer on the I/O thread, from memory. */
#include "http/handlers.h"
#include "http/describe.h"
#include "http/index_request.h"
#include "http/json_writer.h"

#include <string.h>

/* A whole JSON body was written to the reply: account for it. */
static enum ad_status finish(struct ad_reply *reply, const struct ad_json *json,
                             struct ad_error *error)
{
    reply->n_json = reply->body.size;
    return ad_json_ok(json) ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

static bool is_draining(const struct ad_service *service)
{
    return atomic_load(&service->draining);
}

enum ad_status ad_target_acquire(const struct ad_service *service,
                                 const struct ad_target *target,
                                 struct ad_version **version, struct ad_error *error)
{
    return ad_repository_acquire(
        service->repository, target->model, strlen(target->model), target->version,
        target->version ? strlen(target->version) : 0, version, error);
}

enum ad_status ad_handle_server(const struct ad_service *service,
                                const struct ad_ask *ask, struct ad_reply *reply,
                                struct ad_error *error)
{
    (void)ask;
    struct ad_json json = ad_json_to(&reply->body);
    ad_describe_server(&json, service->regions != NULL);
    return finish(reply, &json, error);
}

enum ad_status ad_handle_live(const struct ad_service *service, const struct ad_ask *ask,
                              struct ad_reply *reply, struct ad_error *error)
{
    (void)service;
    (void)ask;
    struct ad_json json = ad_json_to(&reply->body);
    ad_json_open(&json, '{');
    ad_json_bool_member(&json, "live", true);
    ad_json_close(&json, '}');
    return finish(reply, &json, error);
}

/* A broken model keeps the others from being served only when --strict-readiness says
 * so. */
enum ad_status ad_handle_ready(const struct ad_service *service, const struct ad_ask *ask,
                               struct ad_reply *reply, struct ad_error *error)
{
    (void)ask;
    bool ready =
        !is_draining(service) && (!service->options->strict_readiness ||
                                  ad_repository_ready(service->repository, true));
    struct ad_json json = ad_json_to(&reply->body);
    ad_json_open(&json, '{');
    ad_json_bool_member(&json, "ready", ready);
    ad_json_close(&json, '}');
    reply->status = ready ? AD_OK : AD_UNAVAILABLE;
    return finish(reply, &json, error);
}

enum ad_status ad_handle_models(const struct ad_service *service,
                                const struct ad_ask *ask, struct ad_reply *reply,
                                struct ad_error *error)
{
    struct ad_view view;
    enum ad_status status = ad_repository_view(service->repository, NULL, &view, error);
    if (status) {
        return status;
    }
    struct ad_json json = ad_json_to(&reply->body);
    ad_describe_models(&json, &view, ask->key);
    ad_view_reset(&view);
    return finish(reply, &json, error);
}

enum ad_status ad_handle_model(const struct ad_service *service, const struct ad_ask *ask,
                               struct ad_reply *reply, struct ad_error *error)
{
    struct ad_version *version = NULL;
    enum ad_status status = ad_target_acquire(service, ask->target, &version, error);
    if (status) {
        return status;
    }
    struct ad_view view;
    status = ad_repository_view(service->repository, ask->target->model, &view, error);
    if (status) {
        ad_version_release(version);
        return status;
    }
    struct ad_json json = ad_json_to(&reply->body);
    ad_describe_metadata(&json, &view, version);
    ad_view_reset(&view);
    ad_version_release(version);
    return finish(reply, &json, error);
}

enum ad_status ad_handle_model_config(const struct ad_service *service,
                                      const struct ad_ask *ask, struct ad_reply *reply,
                                      struct ad_error *error)
{
    struct ad_version *version = NULL;
    enum ad_status status = ad_target_acquire(service, ask->target, &version, error);
    if (status) {
        return status;
    }
    struct ad_json json = ad_json_to(&reply->body);
    ad_describe_config(&json, version);
    ad_version_release(version);
    return finish(reply, &json, error);
}

/* Not ready is an answer too, with the reason beside it; an unknown model is an error. */
enum ad_status ad_handle_model_ready(const struct ad_service *service,
                                     const struct ad_ask *ask, struct ad_reply *reply,
                                     struct ad_error *error)
{
    struct ad_version *version = NULL;
    struct ad_error reason = {.status = AD_OK};
    enum ad_status status = ad_target_acquire(service, ask->target, &version, &reason);
    ad_version_release(version);
    if (status == AD_OK && is_draining(service)) {
        status = ad_fail(&reason, AD_UNAVAILABLE, "the server is stopping");
    }
    if (status != AD_OK && status != AD_UNAVAILABLE) {
        return ad_fail(error, status, "%s", reason.message);
    }
    struct ad_json json = ad_json_to(&reply->body);
    ad_json_open(&json, '{');
    ad_json_string_member(&json, "name", ask->target->model);
    ad_json_bool_member(&json, "ready", status == AD_OK);
    if (status) {
        ad_json_string_member(&json, "error", reason.message);
    }
    ad_json_close(&json, '}');
    reply->status = status;
    return finish(reply, &json, error);
}

enum ad_status ad_handle_index(const struct ad_service *service, const struct ad_ask *ask,
                               struct ad_reply *reply, struct ad_error *error)
{
    bool ready_only = false;
    enum ad_status status =
        ad_index_request_parse(ask->body->data, ask->body->size, &ready_only, error);
    if (status) {
        return status;
    }
    struct ad_view view;
    status = ad_repository_view(service->repository, NULL, &view, error);
    if (status) {
        return status;
    }
    struct ad_json json = ad_json_to(&reply->body);
    ad_describe_index(&json, &view, ready_only);
    ad_view_reset(&view);
    return finish(reply, &json, error);
}
