/* handle_metrics.c - GET /metrics. Runs on an I/O thread; reads counters that others move. */
#include "attention.h"
#include "http/metrics.h"
#include "http/operator_handlers.h"

#include <stdlib.h>
#include <string.h>

/* What was unloaded on purpose is gone from the page; what should serve and cannot is told. The reason
 * is what the repository's index shows. */
static bool is_broken(enum ad_version_state state, const char *reason)
{
    return state == AD_VERSION_UNAVAILABLE && reason && strcmp(reason, "unloaded") != 0;
}

static void fill_loaded(struct ad_metrics_version *to, const struct ad_version *version)
{
    to->loaded = true;
    to->n_bytes = attn_layer_bytes(version->layer);
    to->load_ns = version->load_ns;
    ad_stats_read(version->stats, &to->stats);
}

/* At most one more than the model has versions; their number. */
static size_t list_model(const struct ad_view_model *model,
                         struct ad_metrics_version *versions)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_versions; i++) {
        const struct ad_view_version *from = &model->versions[i];
        if (from->version || is_broken(from->state, from->reason)) {
            versions[n].model = model->name;
            versions[n].version = from->text;
            if (from->version) {
                fill_loaded(&versions[n], from->version);
            }
            n++;
        }
    }
    if (model->n_versions == 0 && is_broken(model->state, model->reason)) {
        versions[n].model = model->name;
        versions[n].version = "";
        n++;
    }
    return n;
}

/* All that is shown, to be freed; NULL when out of memory. */
static struct ad_metrics_version *list_versions(const struct ad_view *view, size_t *n)
{
    size_t n_most = 1;
    *n = 0;
    for (size_t i = 0; i < view->n_models; i++) {
        n_most += view->models[i].n_versions + 1;
    }
    struct ad_metrics_version *versions = calloc(n_most, sizeof *versions);
    for (size_t i = 0; versions && i < view->n_models; i++) {
        *n += list_model(&view->models[i], versions + *n);
    }
    return versions;
}

enum ad_status ad_handle_metrics(const struct ad_service *service,
                                 const struct ad_ask *ask, struct ad_reply *reply,
                                 struct ad_error *error)
{
    struct ad_view view;
    struct ad_process process;
    struct ad_gauges gauges = {0};
    const struct ad_operators *operators = &service->operators;
    enum ad_status status = ad_repository_view(service->repository, NULL, &view, error);
    if (status) {
        return status;
    }
    if (operators->read_gauges) {
        operators->read_gauges(operators->scheduler, &gauges);
    }
    ad_process_read("/proc", &process);
    struct ad_metrics metrics = {.build = attn_version(),
                                 .process = &process,
                                 .gauges = &gauges,
                                 .counts = &operators->counts,
                                 .triton = service->options->metrics_triton};
    struct ad_metrics_version *versions = list_versions(&view, &metrics.n_versions);
    metrics.versions = versions;
    enum ad_exposition_format format = ad_exposition_negotiate(ask->headers->accept);
    if (!versions || !ad_metrics_write(&reply->body, format, &metrics)) {
        status = ad_fail(error, AD_INTERNAL, "out of memory");
    }
    reply->content_type = ad_exposition_content_type(format);
    reply->n_json = reply->body.size;
    free(versions);
    ad_view_reset(&view);
    return status;
}
