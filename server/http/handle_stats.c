/* handle_stats.c - GET .../stats: of all models, of one, of one version. Runs on an I/O thread. */
#include "attention.h"
#include "http/handlers.h"
#include "http/operator_handlers.h"
#include "http/statistics.h"

static void write_version(struct ad_json *json, const struct ad_version *version)
{
    struct ad_stats_view stats;
    ad_stats_read(version->stats, &stats);
    ad_statistics_write(json, version->model, version->text,
                        attn_layer_bytes(version->layer), &stats);
}

/* All versions that serve, of a model or of all models. */
static enum ad_status write_ready(const struct ad_service *service, const char *model,
                                  struct ad_json *json, struct ad_error *error)
{
    struct ad_view view;
    enum ad_status status = ad_repository_view(service->repository, model, &view, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < view.n_models; i++) {
        for (size_t j = 0; j < view.models[i].n_versions; j++) {
            if (view.models[i].versions[j].version) {
                write_version(json, view.models[i].versions[j].version);
            }
        }
    }
    ad_view_reset(&view);
    return AD_OK;
}

/* A model or version that is named has to be there. */
static enum ad_status write_target(const struct ad_service *service,
                                   const struct ad_target *target, struct ad_json *json,
                                   struct ad_error *error)
{
    struct ad_version *version = NULL;
    enum ad_status status =
        target->model ? ad_target_acquire(service, target, &version, error) : AD_OK;
    if (version && target->version) {
        write_version(json, version);
    } else if (status == AD_OK) {
        status = write_ready(service, target->model, json, error);
    }
    ad_version_release(version);
    return status;
}

enum ad_status ad_handle_stats(const struct ad_service *service, const struct ad_ask *ask,
                               struct ad_reply *reply, struct ad_error *error)
{
    struct ad_json json = ad_json_to(&reply->body);
    ad_json_open(&json, '{');
    ad_json_key(&json, "model_stats");
    ad_json_open(&json, '[');
    enum ad_status status = write_target(service, ask->target, &json, error);
    ad_json_close(&json, ']');
    ad_json_close(&json, '}');
    if (status == AD_OK && !ad_json_ok(&json)) {
        status = ad_fail(error, AD_INTERNAL, "out of memory");
    }
    reply->n_json = reply->body.size;
    return status;
}
