/* presets.c - the known layers as specs: their options, parameter names and shapes. Nothing else in
 * the library knows them. Pure functions, any thread. */
#include "modules.h"
#include "options.h"
#include "spec.h"
#include "status.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define MOST ATTNI_MAX_DIMENSION

typedef void fill(struct attn_spec *spec, struct attni_options *options);

struct preset {
    const char *name;
    fill *fill;
};

static void set_name(char name[ATTN_NAME_SIZE], const char *text)
{
    snprintf(name, ATTN_NAME_SIZE, "%s", text);
}

static struct attn_linear_spec linear(const char *layer, bool bias, size_t n_in,
                                      size_t n_out)
{
    struct attn_linear_spec result = {.n_in = n_in, .n_out = n_out};
    snprintf(result.weight, sizeof result.weight, "%s.weight", layer);
    if (bias) {
        snprintf(result.bias, sizeof result.bias, "%s.bias", layer);
    }
    return result;
}

static void set_mask(struct attn_mask_spec *mask, const char *name, bool true_keeps,
                     const char *const axes[5])
{
    set_name(mask->name, name);
    mask->true_keeps = true_keeps;
    for (size_t rank = 0; rank < 5; rank++) {
        snprintf(mask->axes[rank], sizeof mask->axes[rank], "%s", axes[rank]);
    }
}

/* The width of one head when `width` is cut into n_heads; records a failure when it does not cut. */
static size_t head_of(struct attni_options *options, const char *name, size_t width,
                      size_t n_heads)
{
    if (width % n_heads != 0 && !options->status) {
        attni_options_fail(options, ATTN_INVALID, name,
                           "expected a multiple of the number of heads (%zu), got %zu",
                           n_heads, width);
    }
    return width / n_heads;
}

/* ---- routing: AttentionScore, MultiHeadAttention, MultiHeadAttentionProj -------------------- */

static const char *const routing_mask[5] = {"", "K", "QK", "BQK", "HBQK"};

static void routing_common(struct attn_spec *spec, struct attni_options *options)
{
    spec->clip = attni_options_bool(options, "use_tanh", false);
    spec->clip_value =
        attni_options_real(options, "C", -FLT_MAX, FLT_MAX, ATTNI_CLOSED, 10);
    spec->scale = ATTN_SCALE_HEAD;
    spec->batch_broadcast = true;
    set_mask(&spec->mask, "mask", false, routing_mask);
}

static void routing_score(struct attn_spec *spec, struct attni_options *options)
{
    routing_common(spec, options);
    spec->scores_only = true;
    spec->layout = ATTN_LAYOUT_FREE;
    spec->n_heads = 1;
    set_name(spec->query, "query");
    set_name(spec->key, "key");
    set_name(spec->output, "logits");
}

/* What the two layers with heads share; the output projection goes by `output_layer`. */
static size_t routing_heads(struct attn_spec *spec, struct attni_options *options,
                            const char *output_layer)
{
    size_t width = attni_options_need_size(options, "embedding_dim", 1, MOST);
    spec->n_heads = attni_options_size(options, "n_heads", 1, MOST, 8);
    routing_common(spec, options);
    spec->value_head_width = head_of(options, "embedding_dim", width, spec->n_heads);
    spec->output_projection = linear(output_layer, false, width, width);
    set_name(spec->output, "out");
    set_name(spec->attention, "attention");
    return width;
}

static void routing_mha(struct attn_spec *spec, struct attni_options *options)
{
    routing_heads(spec, options, "project_out");
    set_name(spec->query, "query");
    set_name(spec->key, "key");
    set_name(spec->value, "value");
}

static void routing_mha_proj(struct attn_spec *spec, struct attni_options *options)
{
    size_t width = routing_heads(spec, options, "MHA.project_out");
    spec->head_width = spec->value_head_width;
    spec->query_projection = linear("queryEncoder", false, width, width);
    spec->key_projection = linear("keyEncoder", false, width, width);
    spec->value_projection = linear("valueEncoder", false, width, width);
    spec->key_optional = true;
    set_name(spec->query, "q");
    set_name(spec->key, "h");
    set_name(spec->value, "h");
}

/* ---- speech: MultiHeadedAttention ----------------------------------------------------------- */

static void speech_mha(struct attn_spec *spec, struct attni_options *options)
{
    static const char *const mask[5] = {"-", "Q", "HK", "BQK", "-"};
    spec->n_heads = attni_options_need_size(options, "num_heads", 1, MOST);
    size_t width = attni_options_need_size(options, "d_model", 1, MOST);
    spec->dropout = attni_options_real(options, "dropout", 0, 1, ATTNI_CLOSED, 0.1);
    spec->scale = attni_options_bool(options, "scale_dp_by_head", false)
                      ? ATTN_SCALE_HEAD
                      : ATTN_SCALE_MODEL;
    spec->head_width = head_of(options, "d_model", width, spec->n_heads);
    spec->value_head_width = spec->head_width;
    spec->single_row = true;
    spec->key_projection = linear("k_layer", true, width, width);
    spec->value_projection = linear("v_layer", true, width, width);
    spec->query_projection = linear("q_layer", true, width, width);
    spec->output_projection = linear("output_layer", true, width, width);
    set_mask(&spec->mask, "mask", true, mask);
    set_name(spec->key, "k");
    set_name(spec->value, "v");
    set_name(spec->query, "q");
    set_name(spec->output, "output");
    set_name(spec->attention, "attention");
}

/* ---- causal: MultiHeadAttention over a fused, [in, out] stored projection -------------------- */

/* Read output_shape, (length, width) or (length,), and check input_shape against it. */
static void causal_shape(struct attn_spec *spec, struct attni_options *options,
                         size_t *width)
{
    *width = 1;
    if (!attni_options_given(options, "output_shape")) {
        attni_options_fail(options, ATTN_MISSING, "output_shape",
                           "causal_mha needs it, and it is missing");
    }
    const struct attn_option *output =
        attni_options_find(options, "output_shape", ATTN_OPTION_INTS);
    const struct attn_option *input =
        attni_options_find(options, "input_shape", ATTN_OPTION_INTS);
    bool good = output && (output->n_integers == 1 || output->n_integers == 2);
    for (size_t i = 0; good && i < output->n_integers; i++) {
        good = output->integers[i] >= 1 && output->integers[i] <= (int64_t)MOST;
    }
    if (!good) {
        attni_options_fail(options, ATTN_INVALID, "output_shape",
                           "expected [length, width] or [length], each from 1 to 2^24");
        return;
    }
    spec->length = (size_t)output->integers[0];
    spec->squeeze_output = output->n_integers == 1;
    *width = spec->squeeze_output ? 1 : (size_t)output->integers[1];
    if (input && (input->n_integers != 2 || input->integers[0] != (int64_t)spec->length ||
                  input->integers[1] != (int64_t)*width)) {
        attni_options_fail(options, ATTN_INVALID, "input_shape",
                           "expected [%zu, %zu], which output_shape asks for",
                           spec->length, *width);
    }
}

static void causal_mha(struct attn_spec *spec, struct attni_options *options)
{
    size_t width;
    causal_shape(spec, options, &width);
    spec->n_heads = attni_options_size(options, "n_heads", 1, MOST, 1);
    spec->causal = attni_options_bool(options, "use_mask", true);
    spec->dropout = attni_options_real(options, "dropout", 0, 1, ATTNI_RIGHT_OPEN, 0);
    attni_module_read(options, "activation", true, spec->length, &spec->activation);
    attni_module_read(options, "normalisation", false, spec->length,
                      &spec->normalisation);
    if (spec->squeeze_output && attni_module_is_normalisation(&spec->normalisation)) {
        attni_options_fail(options, ATTN_INVALID, "normalisation",
                           "not possible with an output_shape of one axis");
    }
    if (spec->squeeze_output && attni_module_is_normalisation(&spec->activation)) {
        attni_options_fail(
            options, ATTN_INVALID, "activation",
            "a normalisation is not possible with an output_shape of one axis");
    }
    spec->head_width = head_of(options, "output_shape", width, spec->n_heads);
    spec->value_head_width = spec->head_width;
    spec->scale = ATTN_SCALE_MODEL;
    spec->fused = (struct attn_linear_spec){.n_in = width,
                                            .n_out = 3 * width,
                                            .in_out = true,
                                            .bias_optional = true,
                                            .bias_frozen = true};
    spec->attention_dropped = true;
    spec->gradient_mean = true;
    set_name(spec->fused.weight, "input_linear.weights");
    set_name(spec->fused.bias, "input_linear.biases");
    set_name(spec->query, "input");
    set_name(spec->key, "input");
    set_name(spec->value, "input");
    set_name(spec->output, "output");
    set_name(spec->attention, "attention");
}

/* ---- relational: RelationalMultiheadAttention ------------------------------------------------ */

static void relational_mha(struct attn_spec *spec, struct attni_options *options)
{
    static const char *const mask[5] = {"-", "-", "BK", "BQK", "-"};
    spec->n_heads = attni_options_need_size(options, "num_heads", 1, MOST);
    spec->edge.n_types = attni_options_need_size(options, "num_edge_types", 0, MOST);
    spec->head_width = attni_options_need_size(options, "key_query_dimension", 1, MOST);
    spec->value_head_width = attni_options_need_size(options, "value_dimension", 1, MOST);
    size_t width = attni_options_need_size(options, "output_dimension", 1, MOST);
    if (!attni_options_given(options, "dropout_rate")) {
        attni_options_fail(options, ATTN_MISSING, "dropout_rate",
                           "relational_mha needs it, and it is missing");
    }
    spec->dropout =
        attni_options_real(options, "dropout_rate", 0, 1, ATTNI_RIGHT_OPEN, 0);
    bool values = attni_options_bool(options, "use_edge_value_biases", false);
    spec->edge.scalar =
        attni_options_bool(options, "edge_attention_bias_is_scalar", false);
    spec->layout = ATTN_LAYOUT_HEADS;
    spec->scale = ATTN_SCALE_ONE;
    spec->output_projection =
        linear("_out_proj", false, spec->n_heads * spec->value_head_width, width);
    set_mask(&spec->mask, "masked_elements", false, mask);
    set_name(spec->edge.edges, "edges");
    set_name(spec->edge.types, "edge_types");
    set_name(spec->edge.bias, "_edge_attention_biases.weight");
    set_name(spec->edge.value_bias, values ? "_edge_value_biases.weight" : "");
    set_name(spec->dense_kq, "dense_relations_kq");
    set_name(spec->dense_kv, "dense_relations_kv");
    set_name(spec->query, "queries");
    set_name(spec->key, "keys");
    set_name(spec->value, "values");
    set_name(spec->output, "output");
    set_name(spec->attention, "attention");
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct preset presets[] = {
    {"routing_score", routing_score},
    {"routing_mha", routing_mha},
    {"routing_mha_proj", routing_mha_proj},
    {"speech_mha", speech_mha},
    {"causal_mha", causal_mha},
    {"relational_mha", relational_mha},
};

const char *attn_preset_name(size_t index)
{
    return index < sizeof presets / sizeof *presets ? presets[index].name : NULL;
}

static enum attn_status fail_kind(const char *kind, struct attn_error *error)
{
    char names[256];
    size_t used = 0;
    for (size_t i = 0; attn_preset_name(i) && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 attn_preset_name(i));
    }
    return attni_fail(error, ATTN_UNKNOWN, "kind",
                      "option 'kind': expected one of %s, got '%.64s'", names, kind);
}

enum attn_status attn_spec_preset(struct attn_spec *spec, const char *kind,
                                  const struct attn_option *options, size_t n_options,
                                  struct attn_error *error)
{
    if (spec->size != sizeof *spec) {
        return attni_fail(error, ATTN_INVALID, "size",
                          "spec member 'size': expected %zu, got %zu", sizeof *spec,
                          spec->size);
    }
    const struct preset *preset = NULL;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, kind) == 0) {
            preset = &presets[i];
        }
    }
    if (!preset) {
        return fail_kind(kind, error);
    }
    *spec = (struct attn_spec){.size = sizeof *spec};
    snprintf(spec->kind, sizeof spec->kind, "%s", kind);
    struct attni_options reader;
    attni_options_start(&reader, preset->name, "", options, n_options, error);
    preset->fill(spec, &reader);
    enum attn_status status = attni_options_finish(&reader);
    return status ? status : attni_spec_check(spec, error);
}
