/* sequences.h - calls of sequences, for the tests of kept keys and values. */
#ifndef TESTS_UNIT_LIB_SEQUENCES_H
#define TESTS_UNIT_LIB_SEQUENCES_H

#include "kept.h"
#include "unit/lib/many_calls.h"
#include "unit/lib/random_call.h"

static inline attn_cache *cache_make(const attn_layer *layer)
{
    struct attn_error error = {0};
    attn_cache *cache = NULL;
    ck_assert_msg(!attn_cache_create(layer, &cache, &error), "%s", error.message);
    return cache;
}

static inline attn_cache *cache_fork(const attn_cache *cache)
{
    struct attn_error error = {0};
    attn_cache *fork = NULL;
    ck_assert(!attn_cache_fork(cache, &fork, &error));
    return fork;
}

/* Plan a call that must be possible, with every output. */
static inline attn_plan *cache_plan(attn_cache *cache,
                                    const struct attn_named_tensor *inputs, size_t n)
{
    const struct attn_spec *spec = attn_layer_spec(cache->layer);
    const char *const names[] = {spec->output, spec->attention};
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_cache_plan(cache, inputs, n, names, spec->attention[0] ? 2 : 1,
                                   &plan, &error),
                  "%s", error.message);
    return plan;
}

/* The same without a sequence. */
static inline attn_plan *whole_plan(const attn_layer *layer,
                                    const struct attn_named_tensor *inputs, size_t n)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const char *const names[] = {spec->output, spec->attention};
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_plan_create(layer, NULL, inputs, n, names,
                                    spec->attention[0] ? 2 : 1, &plan, &error),
                  "%s", error.message);
    return plan;
}

/* Run a plan that must succeed. */
static inline struct outputs *run_one(attn_plan *plan)
{
    struct attn_error error = {0};
    struct outputs *outputs = run_alone(&plan, 1, &error);
    ck_assert_msg(!error.status, "%s", error.message);
    return outputs;
}

/* Numbers [batch, length, width] of a sequence, and positions [first, first + n) of them. */
struct tokens {
    size_t batch, length, width;
    float *all, *some;
};

static inline struct tokens tokens_make(struct dice *dice, size_t batch, size_t length,
                                        size_t width)
{
    struct tokens tokens = {batch, length, width, NULL, NULL};
    size_t n = batch * length * width;
    tokens.all = need_memory(n * sizeof(float));
    tokens.some = need_memory(n * sizeof(float));
    dice_fill(dice, tokens.all, n, 1);
    return tokens;
}

static inline void tokens_free(struct tokens *tokens)
{
    free(tokens->all);
    free(tokens->some);
}

static inline struct attn_named_tensor tokens_at(const struct tokens *tokens,
                                                 size_t first, size_t n)
{
    size_t sample = tokens->length * tokens->width;
    for (size_t b = 0; b < tokens->batch; b++) {
        memcpy(tokens->some + b * n * tokens->width,
               tokens->all + b * sample + first * tokens->width,
               n * tokens->width * sizeof(float));
    }
    return (struct attn_named_tensor){
        "input", {ATTN_F32, 3, {tokens->batch, n, tokens->width}, tokens->some}};
}

/* Add positions [first, first + n) to a sequence. */
static inline struct outputs *grow(attn_cache *cache, const struct tokens *tokens,
                                   size_t first, size_t n)
{
    const struct attn_named_tensor input = tokens_at(tokens, first, n);
    attn_plan *plan = cache_plan(cache, &input, 1);
    ck_assert_uint_eq(attn_cache_length(cache), first);
    struct outputs *outputs = run_one(plan);
    ck_assert_uint_eq(attn_cache_length(cache), first + n);
    attn_plan_free(plan);
    return outputs;
}

static inline bool is_of_keys(const struct attn_spec *spec, const char *name)
{
    return strcmp(name, spec->query) != 0 &&
           (strcmp(name, spec->key) == 0 || strcmp(name, spec->value) == 0);
}

/* The inputs of a call without keys and values. */
static inline size_t without_keys(const struct attn_spec *spec, const struct call *call,
                                  struct attn_named_tensor inputs[ATTN_MAX_PORTS])
{
    size_t n = 0;
    for (size_t i = 0; i < call->n; i++) {
        if (!is_of_keys(spec, call->inputs[i].name)) {
            inputs[n++] = call->inputs[i];
        }
    }
    return n;
}

#endif
