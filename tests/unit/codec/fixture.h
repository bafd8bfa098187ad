/* fixture.h - four small models and requests to them, for the tests of the codec. */
#ifndef TESTS_UNIT_CODEC_FIXTURE_H
#define TESTS_UNIT_CODEC_FIXTURE_H

#include "sched/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Something in the fixture itself is broken: nothing can be tested. */
static inline void fixture_require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fixture: %s\n", what);
        abort();
    }
}

static inline struct ad_version *fixture_version(const char *model, const char *kind,
                                                 const struct attn_option *options,
                                                 size_t n_options,
                                                 const attn_weights *weights)
{
    struct ad_version *version = calloc(1, sizeof *version);
    fixture_require(version != NULL, "memory");
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {0};
    if (attn_spec_preset(&spec, kind, options, n_options, &error) != ATTN_OK ||
        attn_layer_create(&spec, weights, &version->layer, &error) != ATTN_OK) {
        fixture_require(false, error.message);
    }
    version->model = strdup(model);
    version->number = 7;
    strcpy(version->text, "7");
    version->settings = (struct ad_model_settings){.max_batch_rows = 4096,
                                                   .max_batch_requests = 64,
                                                   .n_priorities = 1,
                                                   .default_priority = 1};
    version->stats = ad_stats_create();
    fixture_require(version->stats != NULL, "memory");
    version->n_inputs = attn_layer_inputs(version->layer, NULL, version->inputs);
    version->n_outputs = attn_layer_outputs(version->layer, NULL, version->outputs);
    atomic_init(&version->references, 1);
    return version;
}

/* relational_mha: 2 heads, keys 2 wide, values 1 wide, output 3 wide. With one key, queries of any
 * value give (v0, v1, v0 + v1). The edge biases are zero. */
static inline struct ad_version *fixture_relational(void)
{
    static const char header[] =
        "{\"_out_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]"
        "},"
        "\"_edge_attention_biases.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],"
        "\"data_offsets\":[24,56]}}";
    static const float values[14] = {1, 0, 0, 1, 1, 1};
    unsigned char file[8 + sizeof header - 1 + sizeof values] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, values, sizeof values);
    const struct attn_option options[] = {
        attn_int("num_heads", 2),           attn_int("num_edge_types", 2),
        attn_int("key_query_dimension", 2), attn_int("value_dimension", 1),
        attn_int("output_dimension", 3),    attn_real("dropout_rate", 0.1),
    };
    attn_weights *weights = NULL;
    struct attn_error error = {0};
    if (attn_weights_parse(file, sizeof file, &weights, &error) != ATTN_OK) {
        fixture_require(false, error.message);
    }
    struct ad_version *version =
        fixture_version("relations", "relational_mha", options,
                        sizeof options / sizeof *options, weights);
    attn_weights_free(weights);
    return version;
}

/* causal_mha: one head, positions 0 and 1, 2 wide, without a mask; queries, keys and values are the
 * input. BatchNorm follows, whose statistics are 0 and 1 and move half the way. */
static inline struct ad_version *fixture_causal(void)
{
    static const char header[] = "{\"input_linear.weights\":{\"dtype\":\"F32\",\"shape\":"
                                 "[2,6],\"data_offsets\":[0,48]}}";
    static const float values[12] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1};
    unsigned char file[8 + sizeof header - 1 + sizeof values] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, values, sizeof values);
    const struct attn_option patience = attn_real("patience", 0.5);
    const struct attn_option options[] = {
        {.name = "output_shape",
         .type = ATTN_OPTION_INTS,
         .n_integers = 2,
         .integers = {2, 2}},
        attn_bool("use_mask", false),
        {.name = "normalisation",
         .type = ATTN_OPTION_MODULE,
         .module = "BatchNorm",
         .options = &patience,
         .n_options = 1},
    };
    attn_weights *weights = NULL;
    struct attn_error error = {0};
    if (attn_weights_parse(file, sizeof file, &weights, &error) != ATTN_OK) {
        fixture_require(false, error.message);
    }
    struct ad_version *version = fixture_version(
        "tokens", "causal_mha", options, sizeof options / sizeof *options, weights);
    attn_weights_free(weights);
    return version;
}

/* causal_mha with its mask: one head, up to 256 positions, 2 wide; queries, keys and values are the
 * input. Its sequences grow. */
static inline struct ad_version *fixture_growing(void)
{
    static const char header[] = "{\"input_linear.weights\":{\"dtype\":\"F32\",\"shape\":"
                                 "[2,6],\"data_offsets\":[0,48]}}";
    static const float values[12] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1};
    unsigned char file[8 + sizeof header - 1 + sizeof values] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, values, sizeof values);
    const struct attn_option options[] = {
        {.name = "output_shape",
         .type = ATTN_OPTION_INTS,
         .n_integers = 2,
         .integers = {256, 2}},
        attn_bool("use_mask", true),
    };
    attn_weights *weights = NULL;
    struct attn_error error = {0};
    if (attn_weights_parse(file, sizeof file, &weights, &error) != ATTN_OK) {
        fixture_require(false, error.message);
    }
    struct ad_version *version = fixture_version(
        "words", "causal_mha", options, sizeof options / sizeof *options, weights);
    attn_weights_free(weights);
    return version;
}

/* routing_score: the scores of queries and keys of any width; -Infinity where masked. */
static inline struct ad_version *fixture_scores(void)
{
    return fixture_version("scores \"q\"", "routing_score", NULL, 0, NULL);
}

/* A request for version, of which it takes a reference of its own; the bytes are copied. */
static inline struct ad_request *fixture_request(struct ad_version *version,
                                                 const void *json, size_t n_json,
                                                 const void *binary, size_t n_binary)
{
    struct ad_request *request = ad_request_create();
    fixture_require(request != NULL, "memory");
    atomic_fetch_add(&version->references, 1);
    request->version = version;
    request->n_json = n_json;
    request->max_input_bytes = 1 << 20;
    request->max_output_bytes = 1 << 20;
    fixture_require(ad_buffer_append(&request->body, json, n_json) &&
                        ad_buffer_append(&request->body, binary, n_binary),
                    "memory");
    return request;
}

/* The same for JSON alone. */
static inline struct ad_request *fixture_json(struct ad_version *version,
                                              const char *json)
{
    return fixture_request(version, json, strlen(json), "", 0);
}

#endif
