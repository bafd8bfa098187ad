/* kept.c - what a call takes from a sequence and leaves to it. A plan has a list of pages of its own, of
 * which it is an owner; when its call has succeeded, cache and plan swap their lists. So nothing of the
 * cache changes before, and what it no longer needs goes with the plan. One thread a cache. */
#include "kept.h"

#include "cursor.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* Stands for the data of keys and values that are kept projected: no one reads it. */
static const double not_read;

/* Floats of keys and values, and where the latter begin. */
struct extent {
    size_t values_at, n_floats;
    bool overflow;
};

/* ---- inputs -------------------------------------------------------------------------------- */

static enum attn_status refuse_rows(const attn_plan *plan, const char *name,
                                    struct attn_error *error)
{
    return attni_fail(error, ATTN_INVALID, name,
                      "input '%s': the sequence keeps %zu of them since its start, so it "
                      "may not be given again",
                      name, plan->kept.cache->length);
}

enum attn_status attni_kept_inputs(attn_plan *plan, struct attn_error *error)
{
    const struct attn_spec *spec = &plan->layer->spec;
    const struct attn_cache *cache = plan->kept.cache;
    const struct attn_tensor *tensors[] = {&cache->key, &cache->value};
    const char *names[] = {spec->key, spec->value};
    if (plan->kept.kind != ATTNI_KEPT_READ) {
        return ATTN_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        enum attni_role role = i == 0 ? ATTNI_KEY : ATTNI_VALUE;
        if (plan->given[role]) {
            return refuse_rows(plan, names[i], error);
        }
        plan->inputs[role] = *tensors[i];
        plan->inputs[role].data = &not_read;
        plan->given[role] = true;
    }
    return ATTN_OK;
}

static enum attn_status refuse_batch(const attn_plan *plan, struct attn_error *error)
{
    const char *name = plan->layer->spec.query;
    return attni_fail(error, ATTN_SHAPE, name,
                      "input '%s': expected a batch of %zu, as the sequence has, got %zu",
                      name, plan->kept.cache->n_batch, plan->n_batch);
}

enum attn_status attni_kept_fit(const attn_plan *plan, struct attn_error *error)
{
    const struct attn_cache *cache = plan->kept.cache;
    const char *name = plan->layer->spec.query;
    size_t length = plan->layer->spec.length, first = plan->kept.first;
    /* without outputs nothing would be projected */
    if (plan->kept.kind != ATTNI_KEPT_READ && plan->n_queries == 0) {
        return attni_fail(error, ATTN_SHAPE, name,
                          "input '%s': expected at least 1 position, got 0", name);
    }
    if (plan->kept.kind == ATTNI_KEPT_FILL && plan->n_batch == 0) {
        return attni_fail(error, ATTN_SHAPE, name,
                          "input '%s': expected at least 1 sample, got 0", name);
    }
    if (plan->kept.kind != ATTNI_KEPT_GROW) {
        return ATTN_OK;
    }
    if (cache->started && plan->n_batch != cache->n_batch) {
        return refuse_batch(plan, error);
    }
    if (cache->started &&
        (plan->head_width != cache->width || plan->value_width != cache->value_width)) {
        return attni_fail(error, ATTN_SHAPE, name,
                          "input '%s': expected heads of width %zu, as the sequence has, "
                          "got %zu",
                          name, cache->width, plan->head_width);
    }
    if (length > 0 && plan->n_queries > length - first) {
        return attni_fail(error, ATTN_SHAPE, name,
                          "input '%s': expected at most %zu more positions, of %zu that "
                          "there may be, since %zu are kept, got %zu",
                          name, length - first, length, first, plan->n_queries);
    }
    return ATTN_OK;
}

enum attn_status attni_kept_check(const attn_plan *plan, struct attn_error *error)
{
    enum attni_kept_kind kind = plan->kept.kind;
    bool writes = kind == ATTNI_KEPT_FILL || kind == ATTNI_KEPT_GROW;
    if (writes && !plan->kept.cache->planned) {
        return attni_fail(error, ATTN_INVALID, "sequence",
                          "a call of a sequence has been run already");
    }
    return ATTN_OK;
}

bool attni_kept_brings(const attn_plan *plan, size_t which)
{
    return which == 0 || plan->kept.kind != ATTNI_KEPT_READ;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Floats of keys or values of a context that stays. */
static void take_context(const attn_plan *plan, size_t which, struct attni_cursor *cursor)
{
    const struct attni_linear *linear = attni_plan_projection(plan, which);
    size_t n = 0;
    if (linear->weight) {
        attni_take_floats(cursor, plan->batch[which], plan->n_keys, linear->n_out);
        return;
    }
    cursor->overflow = cursor->overflow || attn_tensor_count(&plan->inputs[which], &n);
    attni_take_floats(cursor, n, 1, 1);
}

/* Floats of keys or values of a page. */
static void take_page(const attn_plan *plan, size_t which, struct attni_cursor *cursor)
{
    size_t n = 0;
    cursor->overflow = cursor->overflow ||
                       !attni_multiply(plan->layer->spec.n_heads, ATTNI_PAGE_ROWS, &n);
    attni_take_floats(cursor, plan->n_batch, n, attni_plan_width(plan, which));
}

/* Whether keys and values are the same numbers, kept once. */
static bool is_one(const attn_plan *plan)
{
    bool projected =
        attni_plan_projection(plan, 1)->weight || attni_plan_projection(plan, 2)->weight;
    return plan->kept.kind != ATTNI_KEPT_GROW && !projected &&
           strcmp(plan->layer->spec.key, plan->layer->spec.value) == 0;
}

static struct extent extent_of(const attn_plan *plan)
{
    struct attni_cursor cursor = {0, false};
    struct extent extent = {0, 0, false};
    for (size_t which = 1; which <= 2; which++) {
        bool none = which == 2 && (plan->layer->spec.scores_only || is_one(plan));
        extent.values_at = none ? 0 : cursor.bytes / sizeof(float);
        if (!none && plan->kept.kind == ATTNI_KEPT_GROW) {
            take_page(plan, which, &cursor);
        } else if (!none) {
            take_context(plan, which, &cursor);
        }
    }
    extent.n_floats = cursor.bytes / sizeof(float);
    extent.overflow = cursor.overflow;
    return extent;
}

float *attni_kept_context(const attn_plan *plan, size_t which)
{
    return attni_page_floats(plan->kept.pages[0]) +
           (which == 2 ? plan->kept.values_at : 0);
}

/* The rows of a last page that others have too, in a page of its own: those that are kept alone, since
 * another may be about to write the rest. */
static struct attni_page *copy_page(const attn_plan *plan, const struct attni_page *page,
                                    const struct extent *extent)
{
    struct attni_page *copy = attni_page_create(extent->n_floats);
    size_t n_rows = plan->kept.first % ATTNI_PAGE_ROWS;
    size_t n_heads = plan->n_batch * plan->layer->spec.n_heads;
    for (size_t which = 1; copy && which <= 2; which++) {
        size_t width = attni_plan_width(plan, which),
               at = which == 2 ? extent->values_at : 0;
        const float *from = attni_page_floats((struct attni_page *)(uintptr_t)page) + at;
        float *to = attni_page_floats(copy) + at;
        for (size_t head = 0; head < n_heads; head++) {
            size_t first = head * ATTNI_PAGE_ROWS * width;
            memcpy(to + first, from + first, n_rows * width * sizeof *to);
        }
    }
    return copy;
}

/* Page `index` of the plan's list: the cache's own, unless it is to be written and is not its alone. */
static struct attni_page *page_at(const attn_plan *plan, size_t index,
                                  const struct extent *extent)
{
    const struct attn_cache *cache = plan->kept.cache;
    if (index >= cache->n_pages) {
        return attni_page_create(extent->n_floats);
    }
    struct attni_page *page = cache->pages[index];
    bool is_written =
        plan->kept.kind == ATTNI_KEPT_GROW && index == plan->kept.first / ATTNI_PAGE_ROWS;
    if (is_written && !attni_page_is_own(page)) {
        return copy_page(plan, page, extent);
    }
    attni_page_keep(page);
    return page;
}

/* Let inputs that are kept as they came be read from there. */
static void point_at_context(attn_plan *plan)
{
    for (size_t which = 1; which <= 2 && plan->kept.kind == ATTNI_KEPT_READ; which++) {
        if (!attni_plan_projection(plan, which)->weight) {
            plan->inputs[which].data = attni_kept_context(plan, which);
        }
    }
}

enum attn_status attni_kept_allocate(attn_plan *plan, struct attn_error *error)
{
    struct extent extent = extent_of(plan);
    struct attni_kept *kept = &plan->kept;
    size_t n_pages =
        kept->kind == ATTNI_KEPT_GROW ? attni_parts(plan->n_keys, ATTNI_PAGE_ROWS) : 1;
    if (extent.overflow) {
        return attni_fail(error, ATTN_TOO_LARGE, plan->layer->spec.query,
                          "the keys and values to keep are more than can be counted");
    }
    kept->values_at = extent.values_at;
    kept->pages = calloc(n_pages, sizeof *kept->pages);
    for (size_t i = 0; kept->pages && i < n_pages; i++) {
        kept->pages[i] = page_at(plan, i, &extent);
        if (!kept->pages[i]) {
            return attni_fail_memory(error);
        }
        kept->n_pages = i + 1;
    }
    if (!kept->pages) {
        return attni_fail_memory(error);
    }
    point_at_context(plan);
    return ATTN_OK;
}

void attni_kept_release(attn_plan *plan)
{
    struct attni_kept *kept = &plan->kept;
    for (size_t i = 0; i < kept->n_pages; i++) {
        attni_page_drop(kept->pages[i]);
    }
    free(kept->pages);
    if (kept->cache && kept->cache->plan == plan) {
        kept->cache->plan = NULL;
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

struct attni_rows attni_kept_rows(const attn_plan *plan, size_t which)
{
    size_t width = attni_plan_width(plan, which), head = ATTNI_PAGE_ROWS * width;
    return (struct attni_rows){.pages = plan->kept.pages,
                               .at = which == 2 ? plan->kept.values_at : 0,
                               .batch = plan->layer->spec.n_heads * head,
                               .head = head,
                               .row = width};
}

static void store(const attn_plan *plan, size_t which, const struct attni_rows *rows,
                  size_t sample)
{
    const struct attni_rows kept = attni_kept_rows(plan, which);
    size_t width = attni_plan_width(plan, which);
    for (size_t head = 0; head < plan->layer->spec.n_heads; head++) {
        for (size_t i = 0; i < plan->n_queries; i++) {
            size_t row = plan->kept.first + i;
            float *page = attni_page_floats(kept.pages[row / ATTNI_PAGE_ROWS]);
            memcpy(page + kept.at + sample * kept.batch + head * kept.head +
                       row % ATTNI_PAGE_ROWS * width,
                   attni_row_at(rows, sample, head, i), width * sizeof *page);
        }
    }
}

void attni_kept_store(const attn_plan *plan, const struct attni_rows *key,
                      const struct attni_rows *value, size_t sample)
{
    store(plan, 1, key, sample);
    store(plan, 2, value, sample);
}

/* ---- the end of a call --------------------------------------------------------------------- */

/* Keep keys and values that came as they are to be kept. */
static void copy_context(const attn_plan *plan)
{
    bool once = plan->layer->spec.scores_only || is_one(plan);
    for (size_t which = 1; which <= (once ? 1 : 2); which++) {
        size_t n_bytes = 0;
        if (!attni_plan_projection(plan, which)->weight &&
            !attn_tensor_bytes(&plan->inputs[which], &n_bytes)) {
            memcpy(attni_kept_context(plan, which), plan->inputs[which].data, n_bytes);
        }
    }
}

static void swap_pages(struct attn_cache *cache)
{
    struct attni_kept *kept = &cache->plan->kept;
    struct attni_page **pages = cache->pages;
    size_t n_pages = cache->n_pages;
    cache->pages = kept->pages;
    cache->n_pages = kept->n_pages;
    kept->pages = pages;
    kept->n_pages = n_pages;
}

void attni_kept_commit(const attn_plan *plan)
{
    struct attn_cache *cache = plan->kept.cache;
    if (!cache || !cache->planned) {
        return;
    }
    cache->planned = false;
    if (plan->kept.kind == ATTNI_KEPT_READ) {
        return;
    }
    if (plan->kept.kind == ATTNI_KEPT_FILL) {
        copy_context(plan);
        cache->key = plan->inputs[ATTNI_KEY];
        cache->value = plan->inputs[ATTNI_VALUE];
    }
    cache->started = true;
    cache->n_batch = plan->n_batch;
    cache->length = plan->n_keys;
    cache->width = plan->head_width;
    cache->value_width = plan->value_width;
    cache->values_at = plan->kept.values_at;
    swap_pages(cache);
}
