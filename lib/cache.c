/* cache.c - sequences as callers see them. A cache belongs to one thread at a time. */
#include "kept.h"
#include "status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- which layers may ---------------------------------------------------------------------- */

/* Why a step after the heads needs positions to come; NULL: it does not. */
static const char *why_coupled(const struct attn_spec *spec,
                               const struct attn_post_spec *post)
{
    switch (post->kind) {
    case ATTN_POST_GROUP_NORM:
        /* groups of one position have nothing to wait for */
        return post->n_groups == spec->length ? NULL
                                              : "normalises over several positions";
    case ATTN_POST_SOFTMAX:
        return post->axis == 1 ? "is a softmax over the positions" : NULL;
    case ATTN_POST_NONE:
    case ATTN_POST_DROPOUT:
    case ATTN_POST_BATCH_NORM:
    case ATTN_POST_RELU:
    case ATTN_POST_SIGMOID:
    case ATTN_POST_TANH:
        return NULL;
    }
    return NULL;
}

static enum attn_status check_grows(const struct attn_spec *spec,
                                    struct attn_error *error)
{
    const struct attn_post_spec *posts[] = {&spec->normalisation, &spec->activation};
    static const char *const names[] = {"normalisation", "activation"};
    if (!spec->causal) {
        return attni_fail(
            error, ATTN_INVALID, "sequence",
            "a sequence of %s: without a causal mask every position attends "
            "to those that follow, so it cannot grow",
            spec->kind);
    }
    for (size_t i = 0; i < 2; i++) {
        const char *why = why_coupled(spec, posts[i]);
        if (why) {
            return attni_fail(error, ATTN_INVALID, "sequence",
                              "a sequence of %s: its %s %s, so it cannot grow",
                              spec->kind, names[i], why);
        }
    }
    return ATTN_OK;
}

enum attn_status attn_cache_create(const attn_layer *layer, attn_cache **cache,
                                   struct attn_error *error)
{
    bool grows = strcmp(layer->spec.key, layer->spec.query) == 0;
    enum attn_status status = grows ? check_grows(&layer->spec, error) : ATTN_OK;
    if (status) {
        return status;
    }
    attn_cache *created = calloc(1, sizeof *created);
    if (!created) {
        return attni_fail_memory(error);
    }
    created->layer = layer;
    created->grows = grows;
    *cache = created;
    return ATTN_OK;
}

/* ---- what is kept -------------------------------------------------------------------------- */

enum attn_status attn_cache_fork(const attn_cache *cache, attn_cache **fork,
                                 struct attn_error *error)
{
    attn_cache *created = calloc(1, sizeof *created);
    if (!created) {
        return attni_fail_memory(error);
    }
    *created = *cache;
    created->plan = NULL;
    created->planned = false;
    created->pages = calloc(cache->n_pages + 1, sizeof *created->pages);
    if (!created->pages) {
        free(created);
        return attni_fail_memory(error);
    }
    for (size_t i = 0; i < cache->n_pages; i++) {
        created->pages[i] = cache->pages[i];
        attni_page_keep(created->pages[i]);
    }
    *fork = created;
    return ATTN_OK;
}

void attn_cache_free(attn_cache *cache)
{
    if (!cache) {
        return;
    }
    assert(!cache->plan);
    for (size_t i = 0; i < cache->n_pages; i++) {
        attni_page_drop(cache->pages[i]);
    }
    free(cache->pages);
    free(cache);
}

bool attn_cache_grows(const attn_cache *cache)
{
    return cache->grows;
}

size_t attn_cache_length(const attn_cache *cache)
{
    return cache->length;
}

size_t attn_cache_bytes(const attn_cache *cache)
{
    /* the pages of a call that is yet to run include those that are kept */
    bool planned = cache->plan && cache->planned;
    struct attni_page *const *pages = planned ? cache->plan->kept.pages : cache->pages;
    size_t n_pages = planned ? cache->plan->kept.n_pages : cache->n_pages;
    size_t n = sizeof *cache + n_pages * sizeof *pages;
    for (size_t i = 0; i < n_pages; i++) {
        n += attni_page_bytes(pages[i]);
    }
    return n;
}

/* ---- the next call ------------------------------------------------------------------------- */

/* A call whose queries do not fit what is kept is told so by the name of what it sent. */
static enum attn_status explain(const attn_cache *cache, const struct attn_error *found,
                                struct attn_error *error)
{
    const struct attn_spec *spec = &cache->layer->spec;
    bool of_kept =
        strcmp(found->field, spec->key) == 0 || strcmp(found->field, spec->value) == 0;
    if (!of_kept || !cache->started || cache->grows || found->status != ATTN_SHAPE) {
        return attni_fail(error, found->status, found->field, "%s", found->message);
    }
    return attni_fail(error, found->status, spec->query,
                      "input '%s': does not fit what the sequence keeps: %s", spec->query,
                      found->message);
}

enum attn_status attn_cache_plan(attn_cache *cache,
                                 const struct attn_named_tensor *inputs, size_t n_inputs,
                                 const char *const *outputs, size_t n_outputs,
                                 attn_plan **plan, struct attn_error *error)
{
    const struct attn_mode inference = {.size = sizeof inference};
    const struct attni_kept kept = {.cache = cache,
                                    .kind = cache->grows     ? ATTNI_KEPT_GROW
                                            : cache->started ? ATTNI_KEPT_READ
                                                             : ATTNI_KEPT_FILL,
                                    .first = cache->grows ? cache->length : 0};
    struct attn_error found = {.status = ATTN_OK};
    attn_plan *created = NULL;
    if (cache->plan) {
        return attni_fail(error, ATTN_INVALID, "sequence",
                          "a sequence has one call at a time, and one is under way");
    }
    enum attn_status status =
        attni_plan_create(cache->layer, &inference, &kept, inputs, n_inputs, outputs,
                          n_outputs, &created, &found);
    if (status) {
        return explain(cache, &found, error);
    }
    cache->plan = created;
    cache->planned = true;
    *plan = created;
    return ATTN_OK;
}
