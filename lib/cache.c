/* cache.c - keys and values that are kept from call to call. */
#include "plan.h"
#include "status.h"

static enum attn_status refuse(struct attn_error *error)
{
    return attni_fail(error, ATTN_INVALID, "sequence", "kept keys: not offered yet");
}

enum attn_status attn_cache_create(const attn_layer *layer, attn_cache **cache,
                                   struct attn_error *error)
{
    (void)layer;
    (void)cache;
    return refuse(error);
}

enum attn_status attn_cache_fork(const attn_cache *cache, attn_cache **fork,
                                 struct attn_error *error)
{
    (void)cache;
    (void)fork;
    return refuse(error);
}

void attn_cache_free(attn_cache *cache)
{
    (void)cache;
}

bool attn_cache_grows(const attn_cache *cache)
{
    (void)cache;
    return false;
}

size_t attn_cache_length(const attn_cache *cache)
{
    (void)cache;
    return 0;
}

size_t attn_cache_bytes(const attn_cache *cache)
{
    (void)cache;
    return 0;
}

enum attn_status attn_cache_plan(attn_cache *cache,
                                 const struct attn_named_tensor *inputs, size_t n_inputs,
                                 const char *const *outputs, size_t n_outputs,
                                 attn_plan **plan, struct attn_error *error)
{
    (void)cache;
    (void)inputs;
    (void)n_inputs;
    (void)outputs;
    (void)n_outputs;
    (void)plan;
    return refuse(error);
}
