/* manifest_show.c - what GET .../config shows of a config.json, in the protocol's own terms. No
 * state; runs on the thread that loads. */
#include "model/manifest.h"

#include <jansson.h>
#include <string.h>

/* Every builder below takes its parts over and passes a NULL on: out of memory. */
static json_t *policy_of(const struct ad_version_policy *policy)
{
    json_t *list = NULL;
    switch (policy->kind) {
    case AD_POLICY_ALL:
        return json_pack("{s:{}}", "all");
    case AD_POLICY_LATEST:
        return json_pack("{s:{s:I}}", "latest", "num_versions",
                         (json_int_t)policy->n_latest);
    case AD_POLICY_SPECIFIC:
        list = json_array();
        for (size_t i = 0; i < policy->n_versions; i++) {
            if (json_array_append_new(list,
                                      json_integer((json_int_t)policy->versions[i]))) {
                json_decref(list);
                return NULL;
            }
        }
        return json_pack("{s:{s:o}}", "specific", "versions", list);
    }
    return NULL;
}

static const char *data_type(const char *name, const struct attn_port *ports,
                             size_t n_ports)
{
    for (size_t i = 0; i < n_ports; i++) {
        if (strcmp(ports[i].name, name) == 0) {
            return ports[i].dtype == ATTN_BOOL  ? "TYPE_BOOL"
                   : ports[i].dtype == ATTN_I64 ? "TYPE_INT64"
                                                : "TYPE_FP32";
        }
    }
    return "TYPE_INVALID";
}

static json_t *input_of(const struct ad_warmup_input *input, const char *type)
{
    json_t *dims = json_array();
    for (size_t i = 0; i < input->rank; i++) {
        if (json_array_append_new(dims, json_integer((json_int_t)input->shape[i]))) {
            json_decref(dims);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:b}", "data_type", type, "dims", dims,
                     input->random ? "random_data" : "zero_data", 1);
}

static json_t *warmup_of(const struct ad_warmup *warmup, const struct attn_port *ports,
                         size_t n_ports)
{
    json_t *inputs = json_object();
    for (size_t i = 0; i < warmup->n_inputs; i++) {
        const struct ad_warmup_input *input = &warmup->inputs[i];
        if (json_object_set_new(
                inputs, input->name,
                input_of(input, data_type(input->name, ports, n_ports)))) {
            json_decref(inputs);
            return NULL;
        }
    }
    return json_pack("{s:s, s:i, s:I, s:o}", "name", warmup->name, "batch_size", 0,
                     "count", (json_int_t)warmup->count, "inputs", inputs);
}

static bool add_warmups(json_t *shown, const struct ad_manifest *manifest,
                        const struct attn_port *inputs, size_t n_inputs)
{
    if (manifest->n_warmups == 0) {
        return true;
    }
    json_t *list = json_array();
    bool done = json_object_set_new(shown, "model_warmup", list) == 0;
    for (size_t i = 0; i < manifest->n_warmups && done; i++) {
        done = json_array_append_new(
                   list, warmup_of(&manifest->warmups[i], inputs, n_inputs)) == 0;
    }
    return done;
}

char *ad_manifest_show(const struct ad_manifest *manifest, const struct attn_port *inputs,
                       size_t n_inputs)
{
    json_t *shown = json_object();
    char *text = NULL;
    if (json_object_set_new(shown, "version_policy", policy_of(&manifest->policy)) == 0 &&
        add_warmups(shown, manifest, inputs, n_inputs)) {
        text = json_dumps(shown, JSON_COMPACT);
    }
    json_decref(shown);
    return text;
}
