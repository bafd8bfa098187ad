/* mode.c - what a request does beyond inference, and the inputs and outputs that it then has.
 *
 * The library would refuse a mode that contradicts itself too, but in its own words. Runs on the
 * worker that decodes the request; keeps no state. */
#include "codec/mode.h"
#include "base/random.h"

#include <stdint.h>
#include <string.h>

/* A seed and the draws that count on from it stay below 2^53, which every reader of JSON keeps. */
#define SEED_BITS 52

static enum ad_status check_samples(const struct attn_mode *mode, struct ad_error *error)
{
    if (mode->n_draws == 0) {
        return AD_OK;
    }
    if (mode->gradient) {
        return ad_fail(error, AD_INVALID,
                       "parameter samples: /gradient does not take it, gradients are "
                       "those of one draw");
    }
    if (!mode->training) {
        return ad_fail(error, AD_INVALID,
                       "parameter samples needs parameter training to be true: without "
                       "it all samples are the same");
    }
    return AD_OK;
}

static enum ad_status choose_seed(struct attn_mode *mode, struct ad_error *error)
{
    uint64_t bits = 0;
    if (!ad_random_fill(&bits, sizeof bits)) {
        return ad_fail(error, AD_INTERNAL, "no random bytes for a seed");
    }
    mode->seed = bits >> (64 - SEED_BITS);
    return AD_OK;
}

static enum ad_status find_ports(struct ad_request *request, struct ad_error *error)
{
    const struct ad_version *version = request->version;
    const struct attn_mode *mode = &request->mode;
    if (!mode->training && !mode->gradient) {
        request->input_ports = version->inputs;
        request->n_input_ports = version->n_inputs;
        request->output_ports = version->outputs;
        request->n_output_ports = version->n_outputs;
        return AD_OK;
    }
    struct attn_port *ports =
        ad_arena_array(&request->arena, 2 * (size_t)ATTN_MAX_PORTS, sizeof *ports);
    if (!ports) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    request->input_ports = ports;
    request->n_input_ports = attn_layer_inputs(version->layer, mode, ports);
    request->output_ports = ports + ATTN_MAX_PORTS;
    request->n_output_ports =
        attn_layer_outputs(version->layer, mode, ports + ATTN_MAX_PORTS);
    return AD_OK;
}

enum ad_status ad_mode_settle(struct ad_request *request, struct ad_error *error)
{
    enum ad_status status = check_samples(&request->mode, error);
    if (!status && request->mode.training && !request->seed_given) {
        status = choose_seed(&request->mode, error);
    }
    return status ? status : find_ports(request, error);
}

const struct attn_port *ad_mode_required(const struct ad_request *request,
                                         struct ad_text *names)
{
    const struct attn_port *port = NULL;
    size_t n = 0;
    for (size_t i = 0; i < request->n_input_ports; i++) {
        if (!request->input_ports[i].optional) {
            port = &request->input_ports[i];
            ad_text_add(names, "%s%s", n > 0 ? ", " : "", port->name);
            n++;
        }
    }
    return n == 1 ? port : NULL;
}

static bool has_port(const attn_layer *layer, const struct attn_mode *mode, bool is_input,
                     const char *name)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    size_t n = is_input ? attn_layer_inputs(layer, mode, ports)
                        : attn_layer_outputs(layer, mode, ports);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(ports[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *ad_mode_hint(const struct ad_request *request, bool is_input,
                         const char *name)
{
    static const struct {
        struct attn_mode mode;
        const char *text;
    } others[] = {
        {{.size = sizeof(struct attn_mode), .gradient = true},
         ", which is for /gradient"},
        {{.size = sizeof(struct attn_mode), .training = true},
         ", which is for training without samples"},
        {{.size = sizeof(struct attn_mode), .training = true, .n_draws = 1},
         ", which is for training with samples"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (has_port(request->version->layer, &others[i].mode, is_input, name)) {
            return others[i].text;
        }
    }
    return "";
}
