/* scores.c - masked scores of queries against keys whose leading axes broadcast as in a matrix
 * product of stacks. Any thread; a task writes rows of its own. */
#include "scores.h"

#include "kernels/kernels.h"
#include "shapes.h"
#include "status.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

/* Queries of one task. */
#define TILE ((size_t)16)

/* The leading axes of one input, right-aligned in `rank` axes: strides in elements, 0 where the
 * axis is missing or 1. inner: elements of the two last axes together. */
static void leading_strides(const struct attn_tensor *tensor, size_t n_inner_axes,
                            size_t inner, size_t rank, size_t strides[ATTN_MAX_RANK])
{
    size_t own = tensor->rank > n_inner_axes ? tensor->rank - n_inner_axes : 0;
    size_t stride = inner;
    memset(strides, 0, ATTN_MAX_RANK * sizeof *strides);
    for (size_t i = 0; i < own; i++) {
        size_t size = tensor->shape[own - 1 - i];
        strides[rank - 1 - i] = size == 1 ? 0 : stride;
        stride *= size; /* cannot overflow: the tensor's size was checked */
    }
}

/* Size of the leading axis `i` counted from the right; 1 where the tensor has none. */
static size_t leading_size(const struct attn_tensor *tensor, size_t n_inner_axes,
                           size_t i)
{
    size_t own = tensor->rank > n_inner_axes ? tensor->rank - n_inner_axes : 0;
    return i < own ? tensor->shape[own - 1 - i] : 1;
}

static enum attn_status join_leading(attn_plan *plan, size_t query_inner,
                                     struct attn_error *error)
{
    const struct attn_tensor *query = &plan->inputs[ATTNI_QUERY];
    const struct attn_tensor *key = &plan->inputs[ATTNI_KEY];
    const struct attn_spec *spec = &plan->layer->spec;
    struct attni_free *free = &plan->free;
    size_t of_query = query->rank - query_inner, of_key = key->rank - 2;
    free->rank = of_query > of_key ? of_query : of_key;
    for (size_t i = 0; i < free->rank; i++) {
        size_t a = leading_size(query, query_inner, i), b = leading_size(key, 2, i);
        if (a != b && a != 1 && b != 1) {
            return attni_fail(
                error, ATTN_SHAPE, spec->key,
                "input '%s': leading axes %s do not broadcast with those of '%s' %s",
                spec->key, attni_shape_text(key->shape, key->rank).text, spec->query,
                attni_shape_text(query->shape, query->rank).text);
        }
        free->shape[free->rank - 1 - i] = a == 1 ? b : a;
    }
    leading_strides(query, query_inner, plan->n_queries * plan->head_width, free->rank,
                    free->query);
    leading_strides(key, 2, plan->n_keys * plan->head_width, free->rank, free->key);
    return ATTN_OK;
}

/* The mask against the scores themselves: right-aligned, each axis equal or 1. */
static enum attn_status fit_mask(attn_plan *plan, const struct attn_tensor *scores,
                                 struct attn_error *error)
{
    const struct attn_tensor *mask = &plan->inputs[ATTNI_MASK];
    const char *name = plan->layer->spec.mask.name;
    struct attni_free *free = &plan->free;
    bool fits = mask->rank <= scores->rank;
    size_t stride = 1;
    for (size_t i = 0; fits && i < mask->rank; i++) {
        size_t size = mask->shape[mask->rank - 1 - i];
        fits = size == 1 || size == scores->shape[scores->rank - 1 - i];
        size_t used = size == 1 ? 0 : stride;
        if (i == 0) {
            free->mask_key = used;
        } else if (i == 1 && scores->rank == free->rank + 2) {
            free->mask_query = used;
        } else {
            /* the axis's place among the leading ones, from the right */
            size_t place = i - (scores->rank - free->rank);
            free->mask[free->rank - 1 - place] = used;
        }
        stride *= size;
    }
    if (!fits) {
        struct attni_text shape = attni_shape_text(scores->shape, scores->rank);
        size_t n_keys = plan->n_keys;
        bool by_key = mask->rank == 2 && scores->rank == 3 && mask->shape[1] == n_keys &&
                      mask->shape[0] == scores->shape[0];
        return attni_fail(
            error, ATTN_SHAPE, name,
            "input '%s': expected the scores' shape %s, right-aligned, each axis "
            "that size or 1, got %s%s",
            name, shape.text, attni_shape_text(mask->shape, mask->rank).text,
            by_key ? "; for one row of keys a sample give [batch, 1, keys]" : "");
    }
    plan->mask.data = mask->data;
    plan->mask.true_keeps = plan->layer->spec.mask.true_keeps;
    return ATTN_OK;
}

enum attn_status attni_scores_check(attn_plan *plan, struct attn_tensor *output,
                                    struct attn_error *error)
{
    const struct attn_tensor *query = &plan->inputs[ATTNI_QUERY];
    const struct attn_tensor *key = &plan->inputs[ATTNI_KEY];
    const struct attn_spec *spec = &plan->layer->spec;
    if (query->rank < 1) {
        return attni_shapes_refuse(spec->query, "[..., queries, width] or [width]", query,
                                   error);
    }
    if (key->rank < 2) {
        return attni_shapes_refuse(spec->key, "[..., keys, width]", key, error);
    }
    size_t query_inner = query->rank == 1 ? 1 : 2;
    plan->head_width = query->shape[query->rank - 1];
    plan->n_queries = query_inner == 1 ? 1 : query->shape[query->rank - 2];
    plan->n_keys = key->shape[key->rank - 2];
    if (key->shape[key->rank - 1] != plan->head_width) {
        return attni_fail(error, ATTN_SHAPE, spec->key,
                          "input '%s': expected a width of %zu, as '%s' has, got %zu",
                          spec->key, plan->head_width, spec->query,
                          key->shape[key->rank - 1]);
    }
    plan->scale = (float)(1.0 / sqrt((double)plan->head_width));
    enum attn_status status = join_leading(plan, query_inner, error);
    if (status) {
        return status;
    }
    output->rank = plan->free.rank;
    memcpy(output->shape, plan->free.shape, sizeof output->shape);
    if (query_inner == 2) {
        output->shape[output->rank++] = plan->n_queries;
    }
    output->shape[output->rank++] = plan->n_keys;
    return plan->given[ATTNI_MASK] ? fit_mask(plan, output, error) : ATTN_OK;
}

static size_t n_tiles(const attn_plan *plan)
{
    return attni_parts(plan->n_queries, TILE);
}

size_t attni_scores_n_tasks(const attn_plan *plan)
{
    size_t n = n_tiles(plan);
    for (size_t i = 0; i < plan->free.rank; i++) {
        n *= plan->free.shape[i]; /* at most the output's elements, which were checked */
    }
    return n;
}

/* Offset of leading entry `index` under the given strides. */
static size_t offset_of(const struct attni_free *free, const size_t *strides,
                        size_t index)
{
    size_t offset = 0;
    for (size_t i = free->rank; i-- > 0;) {
        offset += index % free->shape[i] * strides[i];
        index /= free->shape[i];
    }
    return offset;
}

void attni_scores_run(const attn_plan *plan, float *out, size_t task)
{
    const struct attni_free *free = &plan->free;
    const struct attni_kernels *kernels = attni_kernels();
    const float *query = plan->inputs[ATTNI_QUERY].data,
                *key = plan->inputs[ATTNI_KEY].data;
    size_t entry = task / n_tiles(plan), first = task % n_tiles(plan) * TILE;
    size_t left = plan->n_queries - first, width = plan->head_width,
           n_keys = plan->n_keys;
    size_t n = left < TILE ? left : TILE;
    float *scores = out + (entry * plan->n_queries + first) * n_keys;
    const struct attni_few_scores few = {
        .n_heads = 1,
        .n_queries = n,
        .n_keys = n_keys,
        .width = width,
        .query = {query + offset_of(free, free->query, entry) + first * width, width, 0},
        .key = {key + offset_of(free, free->key, entry), width, 0},
        .scores = scores,
        .score_row = n_keys};
    kernels->scores_f32(&few);
    kernels->scale_f32(n * n_keys, plan->scale, scores);
    if (plan->layer->spec.clip) {
        kernels->clip_f32(n * n_keys, (float)plan->layer->spec.clip_value, scores);
    }
    if (plan->mask.data) {
        const unsigned char *mask = plan->mask.data + offset_of(free, free->mask, entry);
        for (size_t i = 0; i < n; i++) {
            attni_mask_apply(&plan->mask, mask + (first + i) * free->mask_query,
                             free->mask_key, scores + i * n_keys, n_keys);
        }
    }
}
