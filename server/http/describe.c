/* describe.c - models and server as the protocol describes them. Runs on an I/O
 * thread; reads what is immutable. */
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

void ad_describe_server(struct ad_json *json)
{
    static const char *const extensions[] = {"binary_tensor_data", "gradient",
                                             "model_configuration", "parameters",
                                             "training"};
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", "attentiond");
    ad_json_string_member(json, "version", attn_version());
    ad_json_key(json, "extensions");
    ad_json_open(json, '[');
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        ad_json_string(json, extensions[i]);
    }
    ad_json_close(json, ']');
    ad_json_close(json, '}');
}

void ad_describe_models(struct ad_json *json, const struct ad_repository *repository)
{
    ad_json_open(json, '{');
    ad_json_key(json, "models");
    ad_json_open(json, '[');
    for (size_t i = 0; i < repository->n_models; i++) {
        ad_json_string(json, repository->models[i].name);
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

void ad_describe_metadata(struct ad_json *json, const struct ad_model *model,
                          const struct ad_version *version)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", version->model);
    ad_json_key(json, "versions");
    ad_json_open(json, '[');
    for (size_t i = 0; i < model->n_versions; i++) {
        if (model->versions[i]->layer) {
            ad_json_string(json, model->versions[i]->text);
        }
    }
    ad_json_close(json, ']');
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

void ad_describe_config(struct ad_json *json, const struct ad_version *version)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", version->model);
    ad_json_string_member(json, "platform", PLATFORM);
    ad_json_string_member(json, "backend", PLATFORM);
    ad_json_key(json, "version_policy");
    ad_json_open(json, '{');
    ad_json_key(json, "all");
    ad_json_open(json, '{');
    ad_json_close(json, '}');
    ad_json_close(json, '}');
    ad_json_key(json, "max_batch_size");
    ad_json_integer(json,
                    0); /* the batch, where there is one, is an axis like the others */
    write_config_ports(json, "input", version->inputs, version->n_inputs);
    write_config_ports(json, "output", version->outputs, version->n_outputs);
    write_kind(json, version);
    ad_json_close(json, '}');
}

static void write_index_entry(struct ad_json *json, const char *name, const char *version,
                              const char *reason)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", name);
    ad_json_string_member(json, "version", version);
    ad_json_string_member(json, "state", reason ? "UNAVAILABLE" : "READY");
    ad_json_string_member(json, "reason", reason ? reason : "");
    ad_json_close(json, '}');
}

/* One entry a version; a model without any has one, which says why. */
static void write_model_index(struct ad_json *json, const struct ad_model *model,
                              bool ready_only)
{
    for (size_t i = 0; i < model->n_versions; i++) {
        const struct ad_version *version = model->versions[i];
        if (version->layer) {
            write_index_entry(json, model->name, version->text, NULL);
        } else if (!ready_only) {
            write_index_entry(json, model->name, version->text,
                              version->reason ? version->reason : "not loaded");
        }
    }
    if (model->n_versions == 0 && !ready_only) {
        write_index_entry(json, model->name, "",
                          model->reason ? model->reason : "no version");
    }
}

void ad_describe_index(struct ad_json *json, const struct ad_repository *repository,
                       bool ready_only)
{
    ad_json_open(json, '[');
    for (size_t i = 0; i < repository->n_models; i++) {
        write_model_index(json, &repository->models[i], ready_only);
    }
    ad_json_close(json, ']');
}
