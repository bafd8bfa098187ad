/* problem.c - makes up the numbers of a case, the same at every run. One thread. */
#include "bench/problem.h"

#include "unit/lib/weights_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void *bench_memory(size_t n_bytes)
{
    void *memory = attn_alloc(n_bytes + 64);
    if (!memory) {
        die("out of memory");
    }
    return memset(memory, 0, n_bytes);
}

static float *numbers(struct dice *dice, size_t n, float size)
{
    float *result = bench_memory(n * sizeof *result);
    dice_fill(dice, result, n, size);
    return result;
}

static struct map make_map(struct dice *dice, const struct bench_case *c, bool bias)
{
    float size = 1 / sqrtf((float)c->width);
    return (struct map){.weight = numbers(dice, c->width * c->width, size),
                        .bias = bias ? numbers(dice, c->width, size) : NULL};
}

static void make_inputs(struct problem *p, struct dice *dice)
{
    const struct bench_case *c = &p->c;
    size_t n_memory = c->n_batch * c->n_keys * c->width;
    p->query = numbers(dice, c->n_batch * c->n_queries * c->width, 1);
    p->key = c->mode == MODE_SELF ? p->query : numbers(dice, n_memory, 1);
    bool apart = c->mode == MODE_GIVEN || c->mode == MODE_CORE;
    p->value = apart ? numbers(dice, n_memory, 1) : p->key;
}

/* Every third key or so; a relational layer's last keys are padding. The first key stays. */
static void make_mask(struct problem *p, struct dice *dice)
{
    const struct bench_case *c = &p->c;
    size_t n = c->n_batch * c->n_keys;
    if (c->mask != MASK_KEY) {
        return;
    }
    p->blocks = bench_memory(n);
    p->keeps = bench_memory(n);
    for (size_t i = 0; i < n; i++) {
        size_t key = i % c->n_keys;
        bool blocked = p->n_edges ? key >= c->n_keys - 6 : dice_below(dice, 10) < 3;
        p->blocks[i] = key > 0 && blocked;
        p->keeps[i] = !p->blocks[i];
    }
}

static void make_edges(struct problem *p, struct dice *dice)
{
    const struct bench_case *c = &p->c;
    p->n_edges = c->n_batch * EDGES_PER_SAMPLE;
    p->edges = bench_memory(3 * p->n_edges * sizeof *p->edges);
    p->types = bench_memory(p->n_edges * sizeof *p->types);
    for (size_t i = 0; i < p->n_edges; i++) {
        p->edges[3 * i] = (int64_t)(i / EDGES_PER_SAMPLE);
        p->edges[3 * i + 1] = (int64_t)dice_below(dice, c->n_queries);
        p->edges[3 * i + 2] = (int64_t)dice_below(dice, c->n_keys);
        p->types[i] = (int64_t)dice_below(dice, EDGE_TYPES);
    }
    p->edge_bias = numbers(dice, EDGE_TYPES * c->width, 0.1f);
    p->edge_value_bias = numbers(dice, EDGE_TYPES * c->width, 1);
}

/* What scores are multiplied by, as the layer has it. */
static float scale_of(const struct bench_case *c)
{
    bool model =
        strcmp(c->layer, "speech_mha") == 0 || strcmp(c->layer, "causal_mha") == 0;
    bool one = strcmp(c->layer, "relational_mha") == 0;
    return one ? 1 : 1 / sqrtf((float)(model ? c->width : c->width / c->n_heads));
}

struct problem *problem_create(const struct bench_case *c)
{
    struct problem *p = bench_memory(sizeof *p);
    struct dice dice = {1};
    bool relational = strcmp(c->layer, "relational_mha") == 0;
    bool bias = !relational && strcmp(c->layer, "routing_mha_proj") != 0;
    p->c = *c;
    p->scale = scale_of(c);
    make_inputs(p, &dice);
    if (relational) {
        make_edges(p, &dice);
    }
    make_mask(p, &dice);
    if (case_projects_query(c)) {
        p->query_map = make_map(&dice, c, bias);
    }
    if (case_projects_memory(c)) {
        p->key_map = make_map(&dice, c, bias);
        p->value_map = make_map(&dice, c, bias);
    }
    if (case_projects_output(c)) {
        p->output_map = make_map(&dice, c, bias);
    }
    return p;
}

size_t problem_bytes(const struct problem *p)
{
    const struct bench_case *c = &p->c;
    size_t query = c->n_batch * c->n_queries * c->width,
           key = c->n_batch * c->n_keys * c->width;
    size_t maps = (case_projects_query(c) ? 1u : 0) + (case_projects_memory(c) ? 2u : 0) +
                  (case_projects_output(c) ? 1u : 0);
    size_t floats = query + (p->key != p->query ? key : 0) +
                    (p->value != p->key ? key : 0) + maps * c->width * c->width;
    size_t edges = p->n_edges * 4 * sizeof(int64_t);
    return floats * sizeof(float) + edges + (p->blocks ? c->n_batch * c->n_keys : 0);
}

void problem_free(struct problem *p)
{
    if (!p) {
        return;
    }
    struct map *maps[] = {&p->query_map, &p->key_map, &p->value_map, &p->output_map};
    for (size_t i = 0; i < 4; i++) {
        attn_free(maps[i]->weight);
        attn_free(maps[i]->bias);
    }
    if (p->value != p->key) {
        attn_free(p->value);
    }
    if (p->key != p->query) {
        attn_free(p->key);
    }
    attn_free(p->query);
    attn_free(p->blocks);
    attn_free(p->keeps);
    attn_free(p->edges);
    attn_free(p->types);
    attn_free(p->edge_bias);
    attn_free(p->edge_value_bias);
    attn_free(p);
}
