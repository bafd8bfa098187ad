/* fingerprint.c - what a layer computes, as a short text: XXH3 with 128 bits over the spec, member by
 * member, and over the parameters as their file has them. Texts come with their lengths, and numbers have
 * eight bytes, the lowest first, so that nothing depends on how a compiler lays a struct out. Pure; any
 * thread. The sole user of xxhash, which is compiled in: its work is a small part of reading the file. */
#include "fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Changes with what goes in: fingerprints of different kinds never meet. */
#define FINGERPRINT_KIND "attention layer 1"

static void add_bytes(XXH3_state_t *state, const void *bytes, size_t n)
{
    if (n > 0) {
        (void)XXH3_128bits_update(state, bytes, n);
    }
}

static void add_number(XXH3_state_t *state, uint64_t number)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(number >> 8 * i);
    }
    add_bytes(state, bytes, sizeof bytes);
}

static void add_real(XXH3_state_t *state, double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    add_number(state, bits);
}

static void add_text(XXH3_state_t *state, const char *text)
{
    size_t n = strlen(text);
    add_number(state, n);
    add_bytes(state, text, n);
}

/* ---- the spec ------------------------------------------------------------------------------ */

static void add_linear(XXH3_state_t *state, const struct attn_linear_spec *linear)
{
    add_text(state, linear->weight);
    add_text(state, linear->bias);
    add_number(state, linear->n_in);
    add_number(state, linear->n_out);
    add_number(state, linear->in_out);
    add_number(state, linear->bias_optional);
    add_number(state, linear->bias_frozen);
}

static void add_mask(XXH3_state_t *state, const struct attn_mask_spec *mask)
{
    add_text(state, mask->name);
    add_number(state, mask->true_keeps);
    for (size_t rank = 0; rank < sizeof mask->axes / sizeof mask->axes[0]; rank++) {
        add_text(state, mask->axes[rank]);
    }
}

static void add_edge(XXH3_state_t *state, const struct attn_edge_spec *edge)
{
    add_text(state, edge->edges);
    add_text(state, edge->types);
    add_number(state, edge->n_types);
    add_number(state, edge->scalar);
    add_text(state, edge->bias);
    add_text(state, edge->value_bias);
}

static void add_post(XXH3_state_t *state, const struct attn_post_spec *post)
{
    add_number(state, post->kind);
    add_text(state, post->prefix);
    add_number(state, post->n_groups);
    add_real(state, post->probability);
    add_real(state, post->patience);
    add_number(state, (uint64_t)post->axis);
}

static void add_inputs(XXH3_state_t *state, const struct attn_spec *spec)
{
    add_text(state, spec->query);
    add_text(state, spec->key);
    add_text(state, spec->value);
    add_number(state, spec->key_optional);
    add_number(state, spec->single_row);
    add_number(state, spec->batch_broadcast);
    add_mask(state, &spec->mask);
    add_edge(state, &spec->edge);
    add_text(state, spec->dense_kq);
    add_text(state, spec->dense_kv);
}

static void add_spec(XXH3_state_t *state, const struct attn_spec *spec)
{
    add_text(state, spec->kind);
    add_number(state, spec->scores_only);
    add_number(state, spec->layout);
    add_inputs(state, spec);
    add_number(state, spec->n_heads);
    add_number(state, spec->head_width);
    add_number(state, spec->value_head_width);
    add_number(state, spec->length);
    add_linear(state, &spec->fused);
    add_linear(state, &spec->query_projection);
    add_linear(state, &spec->key_projection);
    add_linear(state, &spec->value_projection);
    add_number(state, spec->scale);
    add_number(state, spec->clip);
    add_real(state, spec->clip_value);
    add_number(state, spec->causal);
    add_real(state, spec->dropout);
    add_number(state, spec->attention_dropped);
    add_number(state, spec->gradient_mean);
    add_number(state, spec->empty_rows);
    add_number(state, spec->weights_dtype);
    add_linear(state, &spec->output_projection);
    add_post(state, &spec->normalisation);
    add_post(state, &spec->activation);
    add_number(state, spec->squeeze_output);
    add_text(state, spec->output);
    add_text(state, spec->attention);
}

/* ---- the parameters ------------------------------------------------------------------------ */

static void add_parameter(XXH3_state_t *state, const struct attni_parameter *parameter,
                          const struct attn_tensor *tensor)
{
    size_t n_bytes = 0;
    add_text(state, parameter->name);
    add_number(state, tensor != NULL);
    if (!tensor || attn_tensor_bytes(tensor, &n_bytes)) {
        return;
    }
    add_text(state, attn_dtype_name(tensor->dtype));
    add_number(state, tensor->rank);
    for (size_t i = 0; i < tensor->rank; i++) {
        add_number(state, tensor->shape[i]);
    }
    add_bytes(state, tensor->data, n_bytes);
}

void attni_fingerprint(const struct attn_spec *spec,
                       const struct attni_parameter *parameters,
                       const struct attn_tensor *const *tensors, size_t n,
                       char text[ATTNI_FINGERPRINT_SIZE])
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset(&state);
    add_text(&state, FINGERPRINT_KIND);
    add_spec(&state, spec);
    for (size_t i = 0; i < n; i++) {
        add_parameter(&state, &parameters[i], tensors[i]);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    snprintf(text, ATTNI_FINGERPRINT_SIZE, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)hash.high64, (uint64_t)hash.low64);
}
