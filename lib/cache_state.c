/* cache_state.c - what a cache keeps, as arrays that can be taken elsewhere, and a cache from such arrays,
 * which may come from anybody. A cache belongs to one thread at a time. */
#include "kept.h"
#include "status.h"
#include "tensor.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys or values (1, 2), whose names are those of errors. */
static const char *const names[] = {"", "key", "value"};

static const struct attni_linear *projection_of(const attn_layer *layer, size_t which)
{
    return which == 1 ? &layer->key : &layer->value;
}

/* Whether keys and values are the same numbers, or there are no values. */
static bool keeps_keys_alone(const attn_layer *layer, bool grows)
{
    const struct attn_spec *spec = &layer->spec;
    bool same =
        !layer->key.weight && !layer->value.weight && strcmp(spec->key, spec->value) == 0;
    return spec->scores_only || (!grows && same);
}

/* ---- where it is --------------------------------------------------------------------------- */

static size_t width_of(const struct attn_cache *cache, size_t which)
{
    return which == 2 ? cache->value_width : cache->width;
}

static size_t batch_of(const struct attn_cache *cache, size_t which)
{
    return cache->grows ? cache->n_batch
                        : (which == 2 ? &cache->value : &cache->key)->shape[0];
}

/* Rows of a context that stays: as a projection cut by heads leaves them, or side by side. */
static struct attni_rows context_rows(const struct attn_cache *cache, size_t which)
{
    const struct attni_linear *linear = projection_of(cache->layer, which);
    size_t width = width_of(cache, which), n_heads = cache->layer->spec.n_heads;
    const float *data = attni_page_floats(cache->pages[0]);
    struct attni_rows rows = {.data = which == 2 ? data + cache->values_at : data};
    if (linear->weight && attni_linear_cuts(linear, width)) {
        rows.row = width;
        rows.batch = cache->length * width;
        rows.head = batch_of(cache, which) * rows.batch;
    } else {
        rows.row = n_heads * width;
        rows.batch = cache->length * rows.row;
        rows.head = width;
    }
    return rows;
}

static struct attni_rows rows_of(const struct attn_cache *cache, size_t which)
{
    size_t width = width_of(cache, which);
    if (!cache->grows) {
        return context_rows(cache, which);
    }
    return (struct attni_rows){.pages = cache->pages,
                               .at = which == 2 ? cache->values_at : 0,
                               .batch =
                                   cache->layer->spec.n_heads * ATTNI_PAGE_ROWS * width,
                               .head = ATTNI_PAGE_ROWS * width,
                               .row = width};
}

/* Walk over what is kept in the order of the arrays: out of the cache, or into it. */
static void copy_rows(const struct attn_cache *cache, size_t which, unsigned char *out,
                      const unsigned char *in)
{
    if (width_of(cache, which) == 0) {
        return;
    }
    const struct attni_rows rows = rows_of(cache, which);
    size_t n_rows = batch_of(cache, which) * cache->layer->spec.n_heads, at = 0;
    assert(out || in || n_rows == 0 || cache->length == 0);
    for (size_t head = 0; head < n_rows; head++) {
        size_t n = 0;
        for (size_t i = 0; i < cache->length; i += n) {
            n = rows.row == width_of(cache, which)
                    ? attni_rows_together(&rows, i, cache->length - i)
                    : 1;
            const float *place = attni_row_at(&rows, head / cache->layer->spec.n_heads,
                                              head % cache->layer->spec.n_heads, i);
            size_t n_bytes = n * width_of(cache, which) * sizeof *place;
            if (out) {
                memcpy(out + at, place, n_bytes);
            } else {
                memcpy((float *)(uintptr_t)place, in + at, n_bytes);
            }
            at += n_bytes;
        }
    }
}

/* Keys or values out of the cache, or into it. */
static void copy_kept(const struct attn_cache *cache, size_t which, void *out,
                      const void *in)
{
    size_t n_bytes = 0;
    if (!cache->layer->spec.scores_only) {
        copy_rows(cache, which, out, in);
    } else if (!attn_tensor_bytes(&cache->key, &n_bytes) && n_bytes > 0) {
        float *floats = attni_page_floats(cache->pages[0]);
        assert(out || in);
        memcpy(out ? out : floats, out ? floats : in, n_bytes);
    }
}

/* ---- out ----------------------------------------------------------------------------------- */

static struct attn_tensor tensor_of(const struct attn_cache *cache, size_t which)
{
    struct attn_tensor tensor = {.dtype = ATTN_F32,
                                 .rank = 4,
                                 .shape = {batch_of(cache, which),
                                           cache->layer->spec.n_heads, cache->length,
                                           width_of(cache, which)}};
    if (cache->layer->spec.scores_only) {
        tensor = cache->key;
        tensor.data = NULL;
    }
    return tensor;
}

static enum attn_status check_size(const struct attn_cache_state *state,
                                   struct attn_error *error)
{
    return state->size == sizeof *state
               ? ATTN_OK
               : attni_fail(error, ATTN_INVALID, "size",
                            "state member 'size': expected %zu, got %zu", sizeof *state,
                            state->size);
}

enum attn_status attn_cache_describe(const attn_cache *cache,
                                     struct attn_cache_state *state,
                                     struct attn_error *error)
{
    enum attn_status status = check_size(state, error);
    if (status) {
        return status;
    }
    if (!cache->started) {
        return attni_fail(error, ATTN_INVALID, "sequence",
                          "the sequence keeps nothing yet: no call of it has succeeded");
    }
    bool alone = keeps_keys_alone(cache->layer, cache->grows);
    *state = (struct attn_cache_state){.size = sizeof *state,
                                       .grows = cache->grows,
                                       .n_tensors = alone ? 1 : 2,
                                       .key = tensor_of(cache, 1)};
    if (!alone) {
        state->value = tensor_of(cache, 2);
    }
    return ATTN_OK;
}

void attn_cache_export(const attn_cache *cache, void *key, void *value)
{
    assert(cache->started);
    copy_kept(cache, 1, key, NULL);
    if (!keeps_keys_alone(cache->layer, cache->grows)) {
        copy_kept(cache, 2, value, NULL);
    }
}

/* ---- in: what fits the layer --------------------------------------------------------------- */

static enum attn_status check_kind(const struct attn_cache *cache,
                                   const struct attn_cache_state *state,
                                   struct attn_error *error)
{
    static const char *const kinds[] = {"a context that stays", "a sequence that grows"};
    size_t n = keeps_keys_alone(cache->layer, cache->grows) ? 1 : 2;
    if (state->grows != cache->grows) {
        return attni_fail(error, ATTN_INVALID, "kind", "kind: expected %s, got %s",
                          kinds[cache->grows], kinds[state->grows]);
    }
    if (state->n_tensors != n) {
        return attni_fail(error, ATTN_INVALID, "value",
                          "value: expected %s of %s, got %zu tensors",
                          n == 2 ? "keys and values" : "keys alone",
                          cache->layer->spec.kind, state->n_tensors);
    }
    return ATTN_OK;
}

static enum attn_status refuse_shape(size_t which, const char *expected,
                                     const struct attn_tensor *tensor,
                                     struct attn_error *error)
{
    return attni_fail(error, ATTN_SHAPE, names[which], "%s: expected %s, got %s",
                      names[which], expected,
                      attni_shape_text(tensor->shape, tensor->rank).text);
}

/* Type and size of a tensor, whatever it holds. */
static enum attn_status check_tensor(size_t which, const struct attn_tensor *tensor,
                                     struct attn_error *error)
{
    size_t n_bytes = 0;
    if (tensor->dtype != ATTN_F32) {
        return attni_fail(error, ATTN_DTYPE, names[which],
                          "%s: expected type F32, got %s", names[which],
                          attn_dtype_name(tensor->dtype));
    }
    if (tensor->rank > ATTN_MAX_RANK) {
        return attni_fail(error, ATTN_SHAPE, names[which],
                          "%s: expected a rank of at most %d, got %zu", names[which],
                          ATTN_MAX_RANK, tensor->rank);
    }
    if (attn_tensor_bytes(tensor, &n_bytes) || n_bytes > PTRDIFF_MAX) {
        return attni_fail(error, ATTN_TOO_LARGE, names[which],
                          "%s: shape %s has more bytes than can be counted", names[which],
                          attni_shape_text(tensor->shape, tensor->rank).text);
    }
    return ATTN_OK;
}

/* [batch, heads, positions, width], as the layer has heads and their width. */
static enum attn_status check_heads(const struct attn_spec *spec, size_t which,
                                    const struct attn_tensor *tensor,
                                    struct attn_error *error)
{
    size_t width = which == 2 ? spec->value_head_width : spec->head_width;
    char expected[128];
    if (tensor->rank == 4 && tensor->shape[0] > 0 && tensor->shape[1] == spec->n_heads &&
        (width == 0 || tensor->shape[3] == width)) {
        return ATTN_OK;
    }
    if (width > 0) {
        snprintf(expected, sizeof expected,
                 "[batch of at least 1, heads=%zu, positions, width=%zu]", spec->n_heads,
                 width);
    } else {
        snprintf(expected, sizeof expected,
                 "[batch of at least 1, heads=%zu, positions, width]", spec->n_heads);
    }
    return refuse_shape(which, expected, tensor, error);
}

/* Positions of a sequence that grows: some, and no more than the layer serves. Without, a cache keeps
 * nothing; and of those the number of pages depends, whatever a position has. */
static enum attn_status check_positions(const struct attn_cache *cache,
                                        const struct attn_tensor *key,
                                        struct attn_error *error)
{
    size_t n = key->shape[2], most = cache->layer->spec.length;
    if (!cache->grows || (n > 0 && (most == 0 || n <= most))) {
        return ATTN_OK;
    }
    if (n == 0 || most == 0) {
        return attni_fail(error, ATTN_SHAPE, "key",
                          "key: expected at least 1 position, got 0");
    }
    return attni_fail(error, ATTN_SHAPE, "key",
                      "key: expected at most %zu positions, which the layer serves, got "
                      "%zu",
                      most, n);
}

static enum attn_status check_value(const struct attn_cache *cache,
                                    const struct attn_cache_state *state,
                                    struct attn_error *error)
{
    const struct attn_spec *spec = &cache->layer->spec;
    size_t of_key = state->key.shape[0], of_value = state->value.shape[0];
    bool own = !cache->grows && strcmp(spec->key, spec->value) != 0;
    bool broadcasts = own && spec->batch_broadcast && (of_key == 1 || of_value == 1);
    if (of_key != of_value && !broadcasts) {
        return attni_fail(error, ATTN_SHAPE, "value",
                          "value: expected a batch of %zu, as key has, got %zu", of_key,
                          of_value);
    }
    if (state->key.shape[2] != state->value.shape[2]) {
        return attni_fail(error, ATTN_SHAPE, "value",
                          "value: expected %zu positions, as key has, got %zu",
                          state->key.shape[2], state->value.shape[2]);
    }
    return ATTN_OK;
}

static enum attn_status check_scores(const struct attn_tensor *key,
                                     struct attn_error *error)
{
    return key->rank >= 2 ? ATTN_OK
                          : refuse_shape(1, "[..., positions, width]", key, error);
}

/* Numbers that are keys and values at once are as wide as values are. */
static enum attn_status check_alone(const struct attn_cache *cache,
                                    const struct attn_cache_state *state,
                                    struct attn_error *error)
{
    return state->n_tensors == 2
               ? check_value(cache, state, error)
               : check_heads(&cache->layer->spec, 2, &state->key, error);
}

static enum attn_status check_state(const struct attn_cache *cache,
                                    const struct attn_cache_state *state,
                                    struct attn_error *error)
{
    const struct attn_tensor *tensors[] = {NULL, &state->key, &state->value};
    bool scores_only = cache->layer->spec.scores_only;
    enum attn_status status = check_kind(cache, state, error);
    for (size_t which = 1; !status && which <= state->n_tensors; which++) {
        status = check_tensor(which, tensors[which], error);
        if (!status && !scores_only) {
            status = check_heads(&cache->layer->spec, which, tensors[which], error);
        }
    }
    if (status || scores_only) {
        return status ? status : check_scores(&state->key, error);
    }
    status = check_alone(cache, state, error);
    return status ? status : check_positions(cache, &state->key, error);
}

/* ---- in: the cache ------------------------------------------------------------------------- */

/* The input that would have brought keys or values of this shape, but for the data. */
static struct attn_tensor input_of(const attn_layer *layer, size_t which,
                                   const struct attn_tensor *kept)
{
    const struct attni_linear *linear = projection_of(layer, which);
    struct attn_tensor input = *kept;
    input.data = NULL;
    if (layer->spec.scores_only) {
        return input;
    }
    input.shape[1] = kept->shape[2];
    input.shape[2] = kept->shape[1];
    if (layer->spec.layout == ATTN_LAYOUT_ROWS) {
        input.rank = 3;
        input.shape[2] = linear->weight ? linear->n_in : kept->shape[1] * kept->shape[3];
    }
    return input;
}

static void fill_cache(struct attn_cache *cache, const struct attn_cache_state *state)
{
    const struct attn_tensor *key = &state->key;
    const struct attn_tensor *value = state->n_tensors == 2 ? &state->value : key;
    bool scores_only = cache->layer->spec.scores_only;
    cache->key = input_of(cache->layer, 1, key);
    cache->value = state->n_tensors == 2 ? input_of(cache->layer, 2, value) : cache->key;
    cache->n_batch = scores_only ? 0 : key->shape[0];
    cache->length = key->shape[key->rank - 2];
    cache->width = key->shape[key->rank - 1];
    cache->value_width = scores_only ? 0 : value->shape[value->rank - 1];
}

/* Allocate as the call would have that brings all of it. */
static enum attn_status allocate(struct attn_cache *cache, struct attn_error *error)
{
    attn_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return attni_fail_memory(error);
    }
    plan->layer = cache->layer;
    plan->kept.kind = cache->grows ? ATTNI_KEPT_GROW : ATTNI_KEPT_FILL;
    plan->kept.cache = cache;
    plan->inputs[ATTNI_KEY] = cache->key;
    plan->inputs[ATTNI_VALUE] = cache->value;
    plan->n_batch = cache->n_batch;
    plan->batch[1] = cache->key.shape[0];
    plan->batch[2] = cache->value.shape[0];
    plan->n_keys = cache->length;
    plan->head_width = cache->width;
    plan->value_width = cache->value_width;
    enum attn_status status = attni_kept_allocate(plan, error);
    if (!status) {
        cache->pages = plan->kept.pages;
        cache->n_pages = plan->kept.n_pages;
        cache->values_at = plan->kept.values_at;
        cache->started = true;
        plan->kept.pages = NULL;
        plan->kept.n_pages = 0;
    }
    attn_plan_free(plan);
    return status;
}

enum attn_status attn_cache_import(const attn_layer *layer,
                                   const struct attn_cache_state *state,
                                   attn_cache **cache, struct attn_error *error)
{
    attn_cache *created = NULL;
    enum attn_status status = check_size(state, error);
    if (!status) {
        status = attn_cache_create(layer, &created, error);
    }
    if (!status) {
        status = check_state(created, state, error);
    }
    if (!status) {
        fill_cache(created, state);
        status = allocate(created, error);
    }
    if (status) {
        attn_cache_free(created);
        return status;
    }
    copy_kept(created, 1, NULL, state->key.data);
    if (state->n_tensors == 2) {
        copy_kept(created, 2, NULL, state->value.data);
    }
    *cache = created;
    return ATTN_OK;
}
