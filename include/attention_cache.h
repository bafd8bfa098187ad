/* attention_cache.h - libattention: keys and values that a sequence keeps. A part of attention.h, whose rules
 * hold here too; include that. */
#ifndef ATTENTION_CACHE_H
#define ATTENTION_CACHE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kept keys and values -------------------------------------------------------------- */

/* The keys and values of a sequence, kept from one call to the next. A layer keeps one of two kinds:
 *   a context that stays, where keys have an input of their own: the first call brings keys and values,
 *       which are projected once (the input of queries where the keys' is optional and left out);
 *       later ones bring queries, mask and relations alone;
 *   one that grows, where the layer is causal: each call brings the next positions [batch, n >= 1,
 *       width], which attend to all before them and to themselves. What the calls give are the rows of
 *       what one call over all positions gives.
 * A cache is used by one thread at a time. Forks of it share memory, which is counted, so they may be
 * on other threads. The layer must outlive its caches. */
typedef struct attn_cache attn_cache;

/* An empty cache. ATTN_INVALID: the layer cannot keep anything, because its output at a position depends
 * on positions that follow; the message says what makes it so. */
enum attn_status attn_cache_create(const attn_layer *layer, attn_cache **cache,
                                   struct attn_error *error) ATTN_MUST_CHECK;

/* Another cache with the same contents, which are not copied: of a page that both have, one that writes
 * to it copies it first. */
enum attn_status attn_cache_fork(const attn_cache *cache, attn_cache **fork,
                                 struct attn_error *error) ATTN_MUST_CHECK;

void attn_cache_free(attn_cache *cache); /* NULL is fine; no plan of it may be left */

bool attn_cache_grows(const attn_cache *cache);
size_t attn_cache_length(const attn_cache *cache); /* positions kept; 0: it is empty */
/* Memory held, that of a plan which has not run yet included; what forks share counts for each. */
size_t attn_cache_bytes(const attn_cache *cache);

/* As attn_plan_create, for the next call of a sequence, at inference. The memory that the call will fill
 * is allocated here, so that it is only here that it can be lacking. attn_forward or attn_forward_many
 * fills it, and the cache has grown once that has succeeded; a plan that fails, or is freed unused,
 * leaves the cache as it was. One such plan at a time: it is run at most once, and freed before the
 * next is made or the cache is forked or freed.
 * Beside the errors of attn_plan_create: ATTN_INVALID: keys or values for a context that is kept
 * already; ATTN_SHAPE: another batch than the sequence has, no position, or more positions than the
 * layer serves (the message says how many are kept). */
enum attn_status attn_cache_plan(attn_cache *cache,
                                 const struct attn_named_tensor *inputs, size_t n_inputs,
                                 const char *const *outputs, size_t n_outputs,
                                 attn_plan **plan,
                                 struct attn_error *error) ATTN_MUST_CHECK;

/* ---- what is kept, elsewhere ----------------------------------------------------------- */

/* What a cache keeps: floats that depend neither on how this machine lays them out nor on its kernels.
 *
 * Keys are [batch, heads, positions, width of a head] and so are values: projected, where the layer
 * projects them, else as they came. Of a layer that is scores alone they are the keys as they came,
 * [..., positions, width]. There are no values of their own (n_tensors is 1) where a layer gives scores
 * alone, and where one input that is not projected serves as keys and values. Keys and values of a
 * context that stays may have a batch of 1 where the layer broadcasts it. Masks and relations belong to
 * calls and are not kept. Numbers that are not finite are kept as they came. */
struct attn_cache_state {
    size_t size;                   /* sizeof(struct attn_cache_state) of the caller */
    bool grows;                    /* else it is a context that stays */
    size_t n_tensors;              /* 2; 1: keys alone */
    struct attn_tensor key, value; /* F32; their data at any alignment */
};

/* The state of a cache, but for the data: those are NULL. state->size must be set. ATTN_INVALID: another
 * size, or no call of the sequence has succeeded, so that it keeps nothing. */
enum attn_status attn_cache_describe(const attn_cache *cache,
                                     struct attn_cache_state *state,
                                     struct attn_error *error) ATTN_MUST_CHECK;

/* Write what is kept, in the shapes that attn_cache_describe told: key and value have room for their
 * elements, at any alignment; value is not used where there is one tensor. */
void attn_cache_export(const attn_cache *cache, void *key, void *value);

/* A cache that keeps a copy of the state: whatever follows has the very bits that it would have had with the
 * cache that was exported, where layer and kernels are the same (attn_layer_fingerprint tells whether a
 * layer is). The state may come from anywhere: all sizes are checked. error->field is "kind", "key" or
 * "value". ATTN_INVALID: the layer keeps nothing, another kind, or another number of tensors; ATTN_DTYPE,
 * ATTN_SHAPE: a tensor is not what the layer would have kept; ATTN_TOO_LARGE. */
enum attn_status attn_cache_import(const attn_layer *layer,
                                   const struct attn_cache_state *state,
                                   attn_cache **cache,
                                   struct attn_error *error) ATTN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
