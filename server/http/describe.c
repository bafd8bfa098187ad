/* describe.c - models and server as the protocol describes them. Runs on an I/O
 * thread; reads what is immutable, or a view of its own. */
#include "http/describe.h"
#include "attention.h"

#include <stdio.h>

#define PLATFORM "attentiond"

/* The protocol's name of an element type. */
static const char *datatype(enum attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_F32:
        return "FP32";
    case ATTN_F64:
        return "FP64";
    case ATTN_F16:
        return "FP16";
    case ATTN_BF16:
        return "BF16";
    case ATTN_BOOL:
        return "BOOL";
    case ATTN_I8:
        return "INT8";
    case ATTN_I16:
        return "INT16";
    case ATTN_I32:
        return "INT32";
    case ATTN_I64:
        return "INT64";
    case ATTN_U8:
        return "UINT8";
    case ATTN_U16:
        return "UINT16";
    case ATTN_U32:
        return "UINT32";
    case ATTN_U64:
        return "UINT64";
    case ATTN_F8_E4M3:
    case ATTN_F8_E5M2:
        break; /* the protocol has no 8-bit floats, and no port is one */
    }
    return "FP32";
}

void ad_describe_server(struct ad_json *json, bool shared_memory)
{
    static const char *const extensions[] = {
        "binary_tensor_data",  "gradient",         "logging",
        "model_configuration", "model_repository", "model_repository(unload_dependents)",
        "parameters",          "schedule_policy",  "sequence",
        "sequence(string_id)", "statistics",       "training"};
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", "attentiond");
    ad_json_string_member(json, "version", attn_version());
    ad_json_key(json, "extensions");
    ad_json_open(json, '[');
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        ad_json_string(json, extensions[i]);
    }
    if (shared_memory) {
        ad_json_string(json, "system_shared_memory");
    }
    ad_json_close(json, ']');
    ad_json_close(json, '}');
}

void ad_describe_models(struct ad_json *json, const struct ad_view *view,
                        const struct ad_key *key)
{
    ad_json_open(json, '{');
    ad_json_key(json, "models");
    ad_json_open(json, '[');
    for (size_t i = 0; i < view->n_models; i++) {
        if (!key || ad_key_allows(key, view->models[i].name)) {
            ad_json_string(json, view->models[i].name);
        }
    }
    ad_json_close(json, ']');
    ad_json_close(json, '}');
}

static void write_shape(struct ad_json *json, const char *name,
                        const struct attn_port *port)
{
    ad_json_key(json, name);
    ad_json_open(json, '[');
    for (size_t i = 0; i < port->rank; i++) {
        ad_json_integer(json, port->shape[i]);
    }
    ad_json_close(json, ']');
}

static void write_optional(struct ad_json *json, const struct attn_port *port)
{
    if (port->optional) {
        ad_json_bool_member(json, "optional", true);
    }
}

static void write_metadata_ports(struct ad_json *json, const char *name,
                                 const struct attn_port *ports, size_t n_ports)
{
    ad_json_key(json, name);
    ad_json_open(json, '[');
    for (size_t i = 0; i < n_ports; i++) {
        ad_json_open(json, '{');
        ad_json_string_member(json, "name", ports[i].name);
        ad_json_string_member(json, "datatype", datatype(ports[i].dtype));
        write_shape(json, "shape", &ports[i]);
        write_optional(json, &ports[i]);
        ad_json_close(json, '}');
    }
    ad_json_close(json, ']');
}

/* Those that are ready. The model may have been unloaded since version was acquired. */
static void write_versions(struct ad_json *json, const struct ad_view *view)
{
    ad_json_key(json, "versions");
    ad_json_open(json, '[');
    for (size_t i = 0; i < view->n_models; i++) {
        const struct ad_view_model *model = &view->models[i];
        for (size_t k = 0; k < model->n_versions; k++) {
            if (model->versions[k].state == AD_VERSION_READY) {
                ad_json_string(json, model->versions[k].text);
            }
        }
    }
    ad_json_close(json, ']');
}

void ad_describe_metadata(struct ad_json *json, const struct ad_view *view,
                          const struct ad_version *version)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", version->model);
    write_versions(json, view);
    ad_json_string_member(json, "platform", PLATFORM);
    write_metadata_ports(json, "inputs", version->inputs, version->n_inputs);
    write_metadata_ports(json, "outputs", version->outputs, version->n_outputs);
    ad_json_close(json, '}');
}

static void write_config_ports(struct ad_json *json, const char *name,
                               const struct attn_port *ports, size_t n_ports)
{
    ad_json_key(json, name);
    ad_json_open(json, '[');
    for (size_t i = 0; i < n_ports; i++) {
        char type[16];
        snprintf(type, sizeof type, "TYPE_%s", datatype(ports[i].dtype));
        ad_json_open(json, '{');
        ad_json_string_member(json, "name", ports[i].name);
        ad_json_string_member(json, "data_type", type);
        write_shape(json, "dims", &ports[i]);
        write_optional(json, &ports[i]);
        ad_json_close(json, '}');
    }
    ad_json_close(json, ']');
}

/* {"kind": {"string_value": "speech_mha"}}, as the protocol spells a parameter of a
 * model. */
static void write_kind(struct ad_json *json, const struct ad_version *version)
{
    ad_json_key(json, "parameters");
    ad_json_open(json, '{');
    ad_json_key(json, "kind");
    ad_json_open(json, '{');
    ad_json_string_member(json, "string_value", attn_layer_spec(version->layer)->kind);
    ad_json_close(json, '}');
    ad_json_close(json, '}');
}

/* One layer, which all workers share. */
static void write_instances(struct ad_json *json, const struct ad_version *version)
{
    ad_json_key(json, "instance_group");
    ad_json_open(json, '[');
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", version->model);
    ad_json_string_member(json, "kind", "KIND_CPU");
    ad_json_integer_member(json, "count", 1);
    ad_json_close(json, '}');
    ad_json_close(json, ']');
}

static int64_t to_json(uint64_t number)
{
    return number <= INT64_MAX ? (int64_t)number : INT64_MAX;
}

static void write_queue_policy(struct ad_json *json,
                               const struct ad_model_settings *settings)
{
    ad_json_key(json, "default_queue_policy");
    ad_json_open(json, '{');
    ad_json_string_member(json, "timeout_action", "REJECT");
    ad_json_integer_member(json, "default_timeout_microseconds",
                           to_json(settings->default_timeout_us));
    ad_json_bool_member(json, "allow_timeout_override", true);
    ad_json_integer_member(json, "max_queue_size", to_json(settings->max_queue_size));
    ad_json_close(json, '}');
}

/* max_batch_rows and max_batch_requests are ours alone. */
static void write_batching(struct ad_json *json, const struct ad_model_settings *settings)
{
    ad_json_key(json, "dynamic_batching");
    ad_json_open(json, '{');
    ad_json_key(json, "preferred_batch_size");
    ad_json_open(json, '[');
    ad_json_close(json, ']');
    ad_json_integer_member(json, "max_queue_delay_microseconds",
                           to_json(settings->max_queue_delay_us));
    const bool levels = settings->n_priorities > 1; /* 0: there is nothing to choose */
    ad_json_integer_member(json, "priority_levels", levels ? settings->n_priorities : 0);
    ad_json_integer_member(json, "default_priority_level",
                           levels ? settings->default_priority : 0);
    write_queue_policy(json, settings);
    ad_json_integer_member(json, "max_batch_rows", to_json(settings->max_batch_rows));
    ad_json_integer_member(json, "max_batch_requests",
                           to_json(settings->max_batch_requests));
    ad_json_close(json, '}');
}

void ad_describe_config(struct ad_json *json, const struct ad_version *version)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", version->model);
    ad_json_string_member(json, "platform", PLATFORM);
    ad_json_string_member(json, "backend", PLATFORM);
    ad_json_members(json, version->config);
    /* the batch, where there is one, is an axis like the others */
    ad_json_integer_member(json, "max_batch_size", 0);
    write_config_ports(json, "input", version->inputs, version->n_inputs);
    write_config_ports(json, "output", version->outputs, version->n_outputs);
    write_instances(json, version);
    write_batching(json, &version->settings);
    write_kind(json, version);
    ad_json_close(json, '}');
}

static const char *state_name(enum ad_version_state state)
{
    switch (state) {
    case AD_VERSION_READY:
        return "READY";
    case AD_VERSION_UNAVAILABLE:
        return "UNAVAILABLE";
    case AD_VERSION_LOADING:
        return "LOADING";
    case AD_VERSION_UNLOADING:
        return "UNLOADING";
    }
    return "UNAVAILABLE";
}

static void write_index_entry(struct ad_json *json, const char *name, const char *version,
                              enum ad_version_state state, const char *reason)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", name);
    ad_json_string_member(json, "version", version);
    ad_json_string_member(json, "state", state_name(state));
    ad_json_string_member(json, "reason", reason ? reason : "");
    ad_json_close(json, '}');
}

/* A model that nobody has asked for has its name alone. */
static void write_unknown(struct ad_json *json, const char *name)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", name);
    ad_json_close(json, '}');
}

/* One entry a version; a model without any has one, which says why. */
static void write_model_index(struct ad_json *json, const struct ad_view_model *model,
                              bool ready_only)
{
    for (size_t i = 0; i < model->n_versions; i++) {
        const struct ad_view_version *version = &model->versions[i];
        if (!ready_only || version->state == AD_VERSION_READY) {
            write_index_entry(json, model->name, version->text, version->state,
                              version->reason);
        }
    }
    if (model->n_versions > 0 || ready_only) {
        return;
    }
    if (model->state == AD_VERSION_UNAVAILABLE && !model->reason) {
        write_unknown(json, model->name);
    } else {
        write_index_entry(json, model->name, "", model->state, model->reason);
    }
}

void ad_describe_index(struct ad_json *json, const struct ad_view *view, bool ready_only)
{
    ad_json_open(json, '[');
    for (size_t i = 0; i < view->n_models; i++) {
        write_model_index(json, &view->models[i], ready_only);
    }
    ad_json_close(json, ']');
}
