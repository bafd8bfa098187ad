/* yardstick.c - projections by cblas_sgemm; for each head the scores by cblas_sgemm, a softmax as one
 * writes it, and the values by cblas_sgemm. Memory is taken once. Threads, where there are several,
 * share the rows of a projection and the heads; BLAS itself runs on the thread that calls it. */
#include "bench/yardstick.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Queries of a head that are worked on at once; bounds the scores of long cases. */
#define BLOCK 1024

struct yardstick {
    const struct problem *problem;
    const struct attn_parallel *parallel;
    size_t n_workers, block;
    float *query, *key, *value; /* projected, or the problem's */
    float *context;
    float *scores; /* [n_workers][block][K] */
};

const char *yardstick_blas(void)
{
    return openblas_get_corename();
}

/* ---- projections --------------------------------------------------------------------------- */

struct projection {
    const struct map *map;
    const float *x;
    float *y;
    size_t n_rows, n_parts, width;
};

static void project_part(void *argument, size_t task, size_t worker)
{
    const struct projection *p = argument;
    (void)worker;
    size_t row = task * p->n_rows / p->n_parts,
           n = (task + 1) * p->n_rows / p->n_parts - row, width = p->width;
    float *y = p->y + row * width;
    for (size_t i = 0; p->map->bias && i < n; i++) {
        memcpy(y + i * width, p->map->bias, width * sizeof *y);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)width,
                (blasint)width, 1, p->x + row * width, (blasint)width, p->map->weight,
                (blasint)width, p->map->bias ? 1 : 0, y, (blasint)width);
}

static void project(const struct yardstick *self, const struct map *map, const float *x,
                    float *y, size_t n_rows)
{
    if (!map->weight) {
        return;
    }
    size_t n_parts = n_rows < self->n_workers ? n_rows : self->n_workers;
    struct projection p = {map, x, y, n_rows, n_parts, self->problem->c.width};
    self->parallel->run(self->parallel->context, n_parts, project_part, &p);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* One head of one sample, and some of its queries. */
struct part {
    size_t sample, head, query, n;
    float *scores; /* [n][K] */
};

/* Where that head of a row begins. */
static size_t place(const struct problem *p, size_t length, size_t sample, size_t row,
                    size_t head)
{
    return (sample * length + row) * p->c.width + head * (p->c.width / p->c.n_heads);
}

/* The edges of a sample follow each other; those of other queries are passed over. */
static bool edge_is_in(const struct problem *p, const struct part *part, size_t edge)
{
    size_t query = (size_t)p->edges[3 * edge + 1];
    return query >= part->query && query < part->query + part->n;
}

static size_t edges_before(const struct problem *p, size_t sample)
{
    return p->n_edges ? sample * EDGES_PER_SAMPLE : 0;
}

static void add_edges(const struct yardstick *self, const struct part *part)
{
    const struct problem *p = self->problem;
    size_t head_width = p->c.width / p->c.n_heads;
    for (size_t i = edges_before(p, part->sample); i < edges_before(p, part->sample + 1);
         i++) {
        const int64_t *e = p->edges + 3 * i;
        if (edge_is_in(p, part, i)) {
            const float *bias =
                p->edge_bias + (size_t)p->types[i] * p->c.width + part->head * head_width;
            const float *key =
                self->key + place(p, p->c.n_keys, part->sample, (size_t)e[2], part->head);
            float sum = 0;
            for (size_t d = 0; d < head_width; d++) {
                sum += bias[d] * key[d];
            }
            part->scores[((size_t)e[1] - part->query) * p->c.n_keys + (size_t)e[2]] +=
                sum;
        }
    }
}

static void add_edge_values(const struct yardstick *self, const struct part *part)
{
    const struct problem *p = self->problem;
    size_t head_width = p->c.width / p->c.n_heads;
    for (size_t i = edges_before(p, part->sample); i < edges_before(p, part->sample + 1);
         i++) {
        const int64_t *e = p->edges + 3 * i;
        if (edge_is_in(p, part, i)) {
            float weight =
                part->scores[((size_t)e[1] - part->query) * p->c.n_keys + (size_t)e[2]];
            const float *bias = p->edge_value_bias + (size_t)p->types[i] * p->c.width +
                                part->head * head_width;
            float *out = self->context +
                         place(p, p->c.n_queries, part->sample, (size_t)e[1], part->head);
            for (size_t d = 0; d < head_width; d++) {
                out[d] += weight * bias[d];
            }
        }
    }
}

static void softmax(const struct problem *p, const struct part *part)
{
    size_t n_keys = p->c.n_keys;
    const unsigned char *blocks = p->blocks ? p->blocks + part->sample * n_keys : NULL;
    for (size_t i = 0; i < part->n; i++) {
        float *row = part->scores + i * n_keys, max = -INFINITY, sum = 0;
        for (size_t j = 0; j < n_keys; j++) {
            bool hidden = (blocks && blocks[j]) ||
                          (p->c.mask == MASK_CAUSAL && j > part->query + i);
            row[j] = hidden ? -INFINITY : row[j];
            max = row[j] > max ? row[j] : max;
        }
        for (size_t j = 0; j < n_keys; j++) {
            row[j] = expf(row[j] - max);
            sum += row[j];
        }
        for (size_t j = 0; j < n_keys; j++) {
            row[j] /= sum;
        }
    }
}

static void attend_part(void *argument, size_t task, size_t worker)
{
    const struct yardstick *self = argument;
    const struct problem *p = self->problem;
    const struct bench_case *c = &p->c;
    size_t n_blocks = (c->n_queries + self->block - 1) / self->block;
    size_t head_width = c->width / c->n_heads, first = task % n_blocks * self->block;
    struct part part = {.sample = task / n_blocks / c->n_heads,
                        .head = task / n_blocks % c->n_heads,
                        .query = first,
                        .n = c->n_queries - first < self->block ? c->n_queries - first
                                                                : self->block,
                        .scores = self->scores + worker * self->block * c->n_keys};
    size_t query_at = place(p, c->n_queries, part.sample, first, part.head);
    size_t key_at = place(p, c->n_keys, part.sample, 0, part.head);
    blasint n = (blasint)part.n, k = (blasint)c->n_keys, d = (blasint)head_width,
            width = (blasint)c->width;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, k, d, p->scale,
                self->query + query_at, width, self->key + key_at, width, 0, part.scores,
                k);
    add_edges(self, &part);
    softmax(p, &part);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, k, 1, part.scores, k,
                self->value + key_at, width, 0, self->context + query_at, width);
    add_edge_values(self, &part);
}

/* ---- the whole ----------------------------------------------------------------------------- */

void yardstick_run(struct yardstick *self, float *out)
{
    const struct problem *p = self->problem;
    const struct bench_case *c = &p->c;
    size_t n_queries = c->n_batch * c->n_queries, n_keys = c->n_batch * c->n_keys;
    project(self, &p->query_map, p->query, self->query, n_queries);
    project(self, &p->key_map, p->key, self->key, n_keys);
    project(self, &p->value_map, p->value, self->value, n_keys);
    float *own = self->context;
    if (!p->output_map.weight) {
        self->context = out;
    }
    size_t n_blocks = (c->n_queries + self->block - 1) / self->block;
    self->parallel->run(self->parallel->context, c->n_batch * c->n_heads * n_blocks,
                        attend_part, self);
    project(self, &p->output_map, self->context, out, n_queries);
    self->context = own;
}

static float *projected(const struct map *map, float *given, size_t n)
{
    return map->weight ? bench_memory(n * sizeof *given) : given;
}

struct yardstick *yardstick_create(const struct problem *problem, struct pool *pool,
                                   size_t n_workers)
{
    const struct bench_case *c = &problem->c;
    struct yardstick *self = bench_memory(sizeof *self);
    size_t n_queries = c->n_batch * c->n_queries * c->width,
           n_keys = c->n_batch * c->n_keys * c->width;
    openblas_set_num_threads(1);
    self->problem = problem;
    self->parallel = pool_parallel(pool);
    self->n_workers = n_workers;
    self->block = c->n_queries < BLOCK ? c->n_queries : BLOCK;
    self->query = projected(&problem->query_map, problem->query, n_queries);
    self->key = projected(&problem->key_map, problem->key, n_keys);
    self->value = projected(&problem->value_map, problem->value, n_keys);
    self->context = projected(&problem->output_map, NULL, n_queries);
    self->scores = bench_memory(n_workers * self->block * c->n_keys * sizeof(float));
    return self;
}

void yardstick_free(struct yardstick *self)
{
    if (!self) {
        return;
    }
    if (self->problem->query_map.weight) {
        free(self->query);
    }
    if (self->problem->key_map.weight) {
        free(self->key);
        free(self->value);
    }
    free(self->context);
    free(self->scores);
    free(self);
}
