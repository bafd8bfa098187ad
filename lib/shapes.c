/* shapes.c - check the inputs of a call against the layer and each other. Pure functions, any
 * thread; reads shapes, never data. */
#include "shapes.h"

#include "kept.h"
#include "status.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One of queries, keys and values, as sizes. */
struct rows {
    const char *name;
    size_t batch, length, width; /* width of one head */
};

enum attn_status attni_shapes_refuse(const char *name, const char *expected,
                                     const struct attn_tensor *tensor,
                                     struct attn_error *error)
{
    return attni_fail(error, ATTN_SHAPE, name, "input '%s': expected %s, got %s", name,
                      expected, attni_shape_text(tensor->shape, tensor->rank).text);
}

static enum attn_status read_by_head(const struct attn_spec *spec,
                                     const struct attn_tensor *tensor, size_t head_width,
                                     struct rows *rows, struct attn_error *error)
{
    if (tensor->rank != 4 || tensor->shape[2] != spec->n_heads ||
        (head_width && tensor->shape[3] != head_width)) {
        char expected[128];
        snprintf(expected, sizeof expected, "[batch, length, heads=%zu, width=%zu]",
                 spec->n_heads, head_width);
        return attni_shapes_refuse(rows->name, expected, tensor, error);
    }
    rows->batch = tensor->shape[0];
    rows->length = tensor->shape[1];
    rows->width = tensor->shape[3];
    return ATTN_OK;
}

/* [batch, length, width]; the width is the projection's input, or all heads together. */
static enum attn_status read_by_row(const struct attn_spec *spec,
                                    const struct attni_linear *projection,
                                    const struct attn_tensor *tensor, size_t head_width,
                                    struct rows *rows, struct attn_error *error)
{
    bool single = spec->single_row && tensor->rank == 2;
    size_t width = tensor->rank ? tensor->shape[tensor->rank - 1] : 0;
    size_t expected_width =
        projection->weight ? projection->n_in : spec->n_heads * head_width;
    bool any_width = expected_width == 0;
    if ((tensor->rank != 3 && !single) ||
        (any_width ? width % spec->n_heads != 0 : width != expected_width)) {
        char expected[128];
        snprintf(expected, sizeof expected, "[batch, length, %s%zu%s]%s",
                 any_width ? "a multiple of " : "",
                 any_width ? spec->n_heads : expected_width, any_width ? " heads" : "",
                 spec->single_row ? " or [batch, width]" : "");
        return attni_shapes_refuse(rows->name, expected, tensor, error);
    }
    rows->batch = tensor->shape[0];
    rows->length = single ? 1 : tensor->shape[1];
    rows->width = head_width ? head_width : width / spec->n_heads;
    return ATTN_OK;
}

static enum attn_status read_rows(const attn_plan *plan, size_t which, const char *name,
                                  struct rows *rows, struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    const struct attn_tensor *tensor = &plan->inputs[which];
    size_t head_width = which == ATTNI_VALUE ? spec->value_head_width : spec->head_width;
    *rows = (struct rows){.name = name};
    if (spec->layout == ATTN_LAYOUT_HEADS) {
        return read_by_head(spec, tensor, head_width, rows, error);
    }
    return read_by_row(spec, attni_plan_projection(plan, which), tensor, head_width, rows,
                       error);
}

/* The length that a layer was made for, and the shorter ones that it can serve. */
static enum attn_status check_length(const struct attn_spec *spec,
                                     const struct rows *query, struct attn_error *error)
{
    if (spec->length == 0 || query->length == spec->length) {
        return ATTN_OK;
    }
    bool exact = attni_spec_per_position(spec);
    if (!exact && query->length < spec->length) {
        return ATTN_OK;
    }
    return attni_fail(error, ATTN_SHAPE, query->name,
                      "input '%s': expected %s %zu positions%s, got %zu", query->name,
                      exact ? "exactly" : "at most", spec->length,
                      exact ? ", for each of which the normalisation has parameters" : "",
                      query->length);
}

/* Two batches that share an axis: equal, or one of them 1 where the layer broadcasts. */
static bool join_batches(const struct attn_spec *spec, size_t a, size_t b, size_t *joined)
{
    *joined = a == 1 && spec->batch_broadcast ? b : a;
    return a == b || (spec->batch_broadcast && (a == 1 || b == 1));
}

static enum attn_status refuse_batch(const struct rows *a, const struct rows *b,
                                     struct attn_error *error)
{
    return attni_fail(error, ATTN_SHAPE, b->name,
                      "input '%s': expected a batch of %zu, as '%s' has, got %zu",
                      b->name, a->batch, a->name, b->batch);
}

static enum attn_status check_against_each_other(attn_plan *plan,
                                                 const struct rows *query,
                                                 const struct rows *key,
                                                 const struct rows *value,
                                                 struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    if (key->width != query->width) {
        return attni_fail(error, ATTN_SHAPE, key->name,
                          "input '%s': expected heads of width %zu, as '%s' has, got %zu",
                          key->name, query->width, query->name, key->width);
    }
    if (value->length != key->length) {
        return attni_fail(error, ATTN_SHAPE, value->name,
                          "input '%s': expected %zu rows, one for each key, got %zu",
                          value->name, key->length, value->length);
    }
    if (!join_batches(spec, query->batch, key->batch, &plan->n_score_batch)) {
        return refuse_batch(query, key, error);
    }
    if (!join_batches(spec, plan->n_score_batch, value->batch, &plan->n_batch)) {
        return refuse_batch(query->batch == 1 ? key : query, value, error);
    }
    plan->batch[0] = query->batch;
    plan->batch[1] = key->batch;
    plan->batch[2] = value->batch;
    plan->n_queries = query->length;
    if (!attni_add(plan->kept.first, key->length, &plan->n_keys)) {
        return attni_fail(error, ATTN_TOO_LARGE, key->name,
                          "input '%s': more positions than can be counted", key->name);
    }
    plan->head_width = query->width;
    plan->value_width = value->width;
    return ATTN_OK;
}

static float scale_of(const struct attn_spec *spec, size_t head_width)
{
    switch (spec->scale) {
    case ATTN_SCALE_ONE:
        return 1.0f;
    case ATTN_SCALE_HEAD:
        return (float)(1.0 / sqrt((double)head_width));
    case ATTN_SCALE_MODEL:
        return (float)(1.0 / sqrt((double)spec->n_heads * (double)head_width));
    }
    return 1.0f;
}

/* A dense relation: each axis is the scores' size or 1. */
static enum attn_status fit_dense(const attn_plan *plan, enum attni_role role,
                                  const char *name, bool has_width,
                                  struct attni_dense *dense, struct attn_error *error)
{
    const struct attn_tensor *tensor = &plan->inputs[role];
    const size_t sizes[5] = {plan->n_batch, plan->n_queries, plan->n_keys,
                             plan->layer->spec.n_heads, plan->value_width};
    size_t *strides[5] = {&dense->batch, &dense->query, &dense->key, &dense->head,
                          &dense->width};
    size_t rank = has_width ? 5 : 4;
    size_t stride = 1;
    bool fits = tensor->rank == rank;
    for (size_t i = rank; fits && i-- > 0;) {
        fits = tensor->shape[i] == sizes[i] || tensor->shape[i] == 1;
        *strides[i] = tensor->shape[i] == 1 ? 0 : stride;
        stride *= tensor->shape[i]; /* cannot overflow: the tensor's size was checked */
    }
    if (!fits) {
        char expected[192];
        int n = snprintf(expected, sizeof expected,
                         "[batch=%zu, queries=%zu, keys=%zu, heads=%zu", sizes[0],
                         sizes[1], sizes[2], sizes[3]);
        if (has_width) {
            n += snprintf(expected + n, sizeof expected - (size_t)n, ", width=%zu",
                          sizes[4]);
        }
        snprintf(expected + n, sizeof expected - (size_t)n,
                 "], each axis that size or 1");
        return attni_shapes_refuse(name, expected, tensor, error);
    }
    dense->data = tensor->data;
    return ATTN_OK;
}

static enum attn_status check_edges(attn_plan *plan, struct attn_error *error)
{
    const struct attn_edge_spec *spec = &plan->layer->spec.edge;
    const struct attn_tensor *edges = &plan->inputs[ATTNI_EDGES];
    const struct attn_tensor *types = &plan->inputs[ATTNI_EDGE_TYPES];
    if (plan->given[ATTNI_EDGES] != plan->given[ATTNI_EDGE_TYPES]) {
        bool edges_given = plan->given[ATTNI_EDGES];
        const char *missing = edges_given ? spec->types : spec->edges;
        return attni_fail(
            error, ATTN_MISSING, missing,
            "input '%s': expected it together with '%s', got only the latter", missing,
            edges_given ? spec->edges : spec->types);
    }
    if (!plan->given[ATTNI_EDGES]) {
        return ATTN_OK;
    }
    if (edges->rank != 2 || edges->shape[1] != 3) {
        return attni_shapes_refuse(spec->edges, "[edges, 3] of (sample, query, key)",
                                   edges, error);
    }
    if (types->rank != 1 || types->shape[0] != edges->shape[0]) {
        char expected[64];
        snprintf(expected, sizeof expected, "[%zu], one type for each edge",
                 edges->shape[0]);
        return attni_shapes_refuse(spec->types, expected, types, error);
    }
    plan->n_edges = edges->shape[0];
    return ATTN_OK;
}

static enum attn_status check_terms(attn_plan *plan, struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    enum attn_status status = ATTN_OK;
    if (plan->given[ATTNI_MASK]) {
        const size_t sizes[ATTNI_N_AXES] = {plan->n_score_batch, spec->n_heads,
                                            plan->n_queries, plan->n_keys};
        status = attni_mask_fit(&spec->mask, &plan->inputs[ATTNI_MASK], sizes,
                                &plan->mask, error);
    }
    if (status == ATTN_OK && plan->given[ATTNI_DENSE_KQ]) {
        status = fit_dense(plan, ATTNI_DENSE_KQ, spec->dense_kq, false, &plan->kq, error);
    }
    if (status == ATTN_OK && plan->given[ATTNI_DENSE_KV]) {
        status = fit_dense(plan, ATTNI_DENSE_KV, spec->dense_kv, true, &plan->kv, error);
    }
    return status ? status : check_edges(plan, error);
}

enum attn_status attni_shapes_check(attn_plan *plan, struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    struct rows query, key, value;
    enum attn_status status = read_rows(plan, ATTNI_QUERY, spec->query, &query, error);
    if (status == ATTN_OK && plan->kept.kind != ATTNI_KEPT_GROW) {
        status = check_length(spec, &query, error);
    }
    if (status == ATTN_OK) {
        status = read_rows(plan, ATTNI_KEY, spec->key, &key, error);
    }
    if (status == ATTN_OK) {
        status = read_rows(plan, ATTNI_VALUE, spec->value, &value, error);
    }
    if (status == ATTN_OK) {
        status = check_against_each_other(plan, &query, &key, &value, error);
    }
    if (status == ATTN_OK && plan->kept.cache) {
        status = attni_kept_fit(plan, error);
    }
    plan->scale = scale_of(spec, plan->head_width);
    return status ? status : check_terms(plan, error);
}
