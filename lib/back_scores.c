/* back_scores.c - the backward of masked scores: with g their cotangent and f what clipping makes of
 * scaled products,
 *     ds = g * f' where a key is open, else 0;  dq_i = scale * sum_j ds_ij k_j;  dk_j likewise.
 * Any thread; a task writes the gradient of one stack of rows, which it sums over everything that the
 * stack broadcasts to. */
#include "back_scores.h"

#include "kernels/kernels.h"
#include "tensor.h"

#include <string.h>

/* ---- leading axes -------------------------------------------------------------------------- */

/* Entries of the scores' leading axes that the tensor of these strides tells apart (own), or that it
 * broadcasts over. */
static size_t count_entries(const struct attni_free *free, const size_t *strides,
                            bool own)
{
    size_t n = 1;
    for (size_t i = 0; i < free->rank; i++) {
        n *= (strides[i] != 0) == own ? free->shape[i] : 1;
    }
    return n;
}

/* The entry of the scores that is number `own` of the tensor's and number `shared` of those over which it
 * broadcasts. */
static void find_entry(const struct attni_free *free, const size_t *strides, size_t own,
                       size_t shared, size_t index[ATTN_MAX_RANK])
{
    for (size_t i = free->rank; i-- > 0;) {
        size_t *number = strides[i] != 0 ? &own : &shared;
        index[i] = *number % free->shape[i];
        *number /= free->shape[i];
    }
}

static size_t offset_of(const struct attni_free *free, const size_t *strides,
                        const size_t index[ATTN_MAX_RANK])
{
    size_t offset = 0;
    for (size_t i = 0; i < free->rank; i++) {
        offset += index[i] * strides[i];
    }
    return offset;
}

bool attni_back_scores_lay_out(const attn_plan *plan, size_t *n_bytes)
{
    bool any = true;
    for (size_t i = 0; i < plan->free.rank; i++) {
        any = any && plan->free.shape[i] > 0;
    }
    any = any && plan->n_queries > 0 && plan->head_width > 0;
    return attni_multiply(any ? plan->n_keys : 0, 2 * sizeof(float), n_bytes);
}

/* ---- one stack ----------------------------------------------------------------------------- */

struct scores_step {
    const struct attni_run *run;
    float *out;
    bool of_keys; /* else of queries */
};

/* One entry of the scores: a stack of queries against a stack of keys. */
struct entry {
    const float *query, *key, *cotangent;
    const unsigned char *mask;
};

static struct entry entry_at(const attn_plan *plan, const size_t index[ATTN_MAX_RANK])
{
    const struct attni_free *free = &plan->free;
    size_t number = 0;
    for (size_t i = 0; i < free->rank; i++) {
        number = number * free->shape[i] + index[i];
    }
    const float *query = plan->inputs[ATTNI_QUERY].data;
    const float *key = plan->inputs[ATTNI_KEY].data;
    const float *cotangent = plan->inputs[ATTNI_GRAD_OUTPUT].data;
    return (struct entry){
        .query = query + offset_of(free, free->query, index),
        .key = key + offset_of(free, free->key, index),
        .cotangent = cotangent + number * plan->n_queries * plan->n_keys,
        .mask = plan->mask.data ? plan->mask.data + offset_of(free, free->mask, index)
                                : NULL};
}

/* The gradients of row i's products; slopes: room for a row. */
static void find_gradients(const attn_plan *plan, const struct entry *entry, size_t i,
                           float *gradients, float *slopes)
{
    const struct attni_kernels *kernels = attni_kernels();
    size_t n = plan->n_keys, width = plan->head_width;
    float clip = (float)plan->layer->spec.clip_value;
    memcpy(gradients, entry->cotangent + i * n, n * sizeof *gradients);
    memset(slopes, 0, n * sizeof *slopes);
    if (entry->mask) {
        attni_mask_apply(&plan->mask, entry->mask + i * plan->free.mask_query,
                         plan->free.mask_key, slopes, n);
    }
    for (size_t j = 0; j < n; j++) {
        gradients[j] = slopes[j] == 0 ? gradients[j] * plan->scale : 0;
    }
    if (!plan->layer->spec.clip) {
        return;
    }
    const struct attni_few_scores few = {.n_heads = 1,
                                         .n_queries = 1,
                                         .n_keys = n,
                                         .width = width,
                                         .query = {entry->query + i * width, width, 0},
                                         .key = {entry->key, width, 0},
                                         .scores = slopes,
                                         .score_row = n};
    kernels->scores_f32(&few);
    kernels->scale_f32(n, plan->scale, slopes);
    kernels->clip_f32(n, 1, slopes);
    for (size_t j = 0; j < n; j++) {
        float slope = clip * (1 - slopes[j] * slopes[j]);
        gradients[j] = gradients[j] == 0 ? 0 : gradients[j] * slope;
    }
}

/* Add row i's share to the gradients of queries or keys. */
static void add_row(const struct scores_step *step, const struct entry *entry, size_t i,
                    const float *gradients, float *out)
{
    const attn_plan *plan = step->run->plan;
    const struct attni_kernels *kernels = attni_kernels();
    size_t width = plan->head_width;
    if (!step->of_keys) {
        kernels->weighted_sum_f32(plan->n_keys, width, gradients, entry->key, width,
                                  out + i * width);
        return;
    }
    for (size_t j = 0; j < plan->n_keys; j++) {
        kernels->weighted_sum_f32(1, width, &gradients[j], entry->query + i * width, 0,
                                  out + j * width);
    }
}

static void scores_task(void *argument, size_t task, size_t worker)
{
    const struct scores_step *step = argument;
    const attn_plan *plan = step->run->plan;
    const struct attni_free *free = &plan->free;
    const size_t *strides = step->of_keys ? free->key : free->query;
    size_t n_rows = step->of_keys ? plan->n_keys : plan->n_queries;
    /* stacks without a score may be any number */
    bool any = plan->n_queries > 0 && plan->n_keys > 0;
    size_t n_shared = any ? count_entries(free, strides, false) : 0;
    size_t index[ATTN_MAX_RANK] = {0};
    float *rows = (float *)(void *)attni_run_worker(step->run, worker);
    float *out = step->out + task * n_rows * plan->head_width;
    memset(out, 0, n_rows * plan->head_width * sizeof *out);
    for (size_t shared = 0; shared < n_shared; shared++) {
        find_entry(free, strides, task, shared, index);
        struct entry entry = entry_at(plan, index);
        for (size_t i = 0; i < plan->n_queries; i++) {
            find_gradients(plan, &entry, i, rows, rows + plan->n_keys);
            add_row(step, &entry, i, rows, out);
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

void attni_back_scores(struct attni_run *run, float *const *outputs)
{
    const attn_plan *plan = run->plan;
    const struct attni_free *free = &plan->free;
    run->out = attni_plan_memory(plan, ATTNI_MAIN, 0, outputs);
    attni_run_scores(run);
    struct scores_step query = {
        run, attni_plan_memory(plan, ATTNI_GRAD_INPUT, ATTNI_QUERY, outputs), false};
    struct scores_step key = {
        run, attni_plan_memory(plan, ATTNI_GRAD_INPUT, ATTNI_KEY, outputs), true};
    attni_run_spread(run->parallel,
                     query.out ? count_entries(free, free->query, true) : 0, scores_task,
                     &query);
    attni_run_spread(run->parallel, key.out ? count_entries(free, free->key, true) : 0,
                     scores_task, &key);
}
