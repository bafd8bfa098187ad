/* tiles.c - how attention is cut. Everything follows from the call's own shapes and the kernels, so
 * that results depend on neither threads nor neighbours. */
#include "tiles.h"

#include "kernels/kernels.h"
#include "tensor.h"

/* Queries of a task: so many share one packing of a tile of keys and values; fewer where there would
 * be few tasks. */
#define MOST_QUERIES ((size_t)1024)
#define LEAST_QUERIES ((size_t)256)
#define ENOUGH_TASKS ((size_t)8)

/* Keys of a tile. The longer it is, the less often are sums taken up again and scaled. */
#define MOST_KEYS ((size_t)512)
#define LEAST_KEYS ((size_t)64)

/* Floats of a tile's keys and values together: packed, they stay in a second-level cache. */
#define TILE_FLOATS ((size_t)65536)

/* With fewer queries, turning keys into columns costs more than it saves. */
#define FEW_QUERIES ((size_t)5)

/* What a task takes at most, in multiply-adds: a few milliseconds, so that others are not kept waiting
 * for long. A score takes as many as SCORE beside its products; few queries wait for memory. */
#define MOST_WORK 2.6e8
#define SCORE 32.0
#define RELATION 4.0
#define WAITS 16.0

/* With few queries a task is several heads, and with so many samples some whole samples: what one head
 * reads lies between what the others read, so together they read memory from end to end. */
#define FEW_TASKS ((size_t)4)
#define MANY_SAMPLES ((size_t)8)
#define SAMPLES ((size_t)4)

size_t attni_tiles_padded(size_t n)
{
    size_t n_panel = attni_kernels()->n_panel;
    return (n + n_panel - 1) / n_panel * n_panel;
}

size_t attni_tiles_keys(const attn_plan *plan, size_t floats, size_t least, size_t most)
{
    size_t width = plan->head_width < floats ? plan->head_width : floats;
    width += plan->value_width < floats ? plan->value_width : floats;
    size_t n = width > 0 ? floats / width / least * least : most;
    n = n > most ? most : n < least ? least : n;
    return plan->n_keys > 0 && plan->n_keys < n ? attni_tiles_padded(plan->n_keys) : n;
}

/* Into how many tasks the queries of a head are cut: no result depends on that. */
static size_t query_parts(const attn_plan *plan)
{
    size_t most = MOST_QUERIES, n_heads = plan->layer->spec.n_heads;
    if (plan->n_batch < ENOUGH_TASKS && n_heads < ENOUGH_TASKS) {
        size_t others = plan->n_batch * n_heads;
        while (most > LEAST_QUERIES &&
               others * attni_parts(plan->n_queries, most) < ENOUGH_TASKS) {
            most /= 2;
        }
    }
    return attni_parts(plan->n_queries, most);
}

static void cut_few(attn_plan *plan, struct attni_tiles *tiles)
{
    size_t n_heads = plan->layer->spec.n_heads;
    size_t most = ATTNI_MOST_BLOCK / (plan->n_queries > 0 ? plan->n_queries : 1);
    bool many = plan->n_batch >= MANY_SAMPLES;
    size_t enough = many ? n_heads : plan->n_batch * n_heads / FEW_TASKS;
    tiles->n_samples = many ? SAMPLES : 1;
    tiles->n_heads = enough < 1 ? 1 : enough < n_heads ? enough : n_heads;
    tiles->n_heads = tiles->n_heads < most ? tiles->n_heads : most;
    tiles->query_parts = 1;
    tiles->n_rows = tiles->n_heads * plan->n_queries;
    tiles->n_block = tiles->n_rows;
}

void attni_tiles_cut(attn_plan *plan)
{
    struct attni_tiles *tiles = &plan->tiles;
    size_t n_rows = attni_kernels()->n_rows;
    *tiles = (struct attni_tiles){
        .few = plan->n_queries < FEW_QUERIES,
        .n_keys = attni_tiles_keys(plan, TILE_FLOATS, LEAST_KEYS, MOST_KEYS)};
    if (tiles->few) {
        cut_few(plan, tiles);
        return;
    }
    const struct attn_spec *spec = &plan->layer->spec;
    tiles->edges =
        plan->n_edges && !spec->edge.scalar && spec->edge.n_types <= ATTNI_FEW_TYPES;
    tiles->n_samples = 1;
    tiles->n_heads = 1;
    tiles->query_parts = query_parts(plan);
    tiles->n_rows = attni_parts(plan->n_queries, tiles->query_parts);
    tiles->n_block = ATTNI_MOST_BLOCK / n_rows * n_rows; /* whole products */
}

size_t attni_tiles_of_task(const attn_plan *plan)
{
    const struct attni_tiles *tiles = &plan->tiles;
    double of_score = SCORE + (double)plan->head_width + (double)plan->value_width;
    double n_rows = (double)tiles->n_rows;
    if (plan->kv.data) {
        of_score += RELATION * (double)plan->value_width;
    }
    if (tiles->n_samples > 1) {
        n_rows = (double)tiles->n_samples * (double)plan->layer->spec.n_heads *
                 (double)plan->n_queries;
    }
    double of_key = (n_rows > 1 ? n_rows : 1) * of_score * (tiles->few ? WAITS : 1);
    double n_tiles = MOST_WORK / of_key / (double)tiles->n_keys;
    size_t n_all = attni_parts(plan->n_keys, tiles->n_keys);
    if (n_tiles >= (double)n_all) {
        return plan->n_keys;
    }
    return n_tiles < 2 ? tiles->n_keys : (size_t)n_tiles * tiles->n_keys;
}

bool attni_tiles_lay_out(attn_plan *plan, size_t *n_bytes)
{
    struct attni_tiles *tiles = &plan->tiles;
    size_t rows = tiles->n_rows;
    size_t block = rows < tiles->n_block ? rows : tiles->n_block;
    /* few queries pack and copy nothing */
    size_t keys = tiles->few ? 0 : tiles->n_keys, copied = tiles->few ? 0 : rows;
    const size_t shapes[ATTNI_TILE_PARTS][3] = {
        [ATTNI_SCORES] = {block, tiles->n_keys, sizeof(float)},
        [ATTNI_QUERY_TILE] = {copied, plan->head_width, sizeof(float)},
        [ATTNI_RESULTS] = {copied, plan->value_width, sizeof(float)},
        [ATTNI_KEY_TILE] = {plan->head_width, keys, sizeof(float)},
        [ATTNI_VALUE_TILE] = {attni_tiles_padded(plan->value_width), keys, sizeof(float)},
        [ATTNI_MAX] = {rows, 1, sizeof(float)},
        [ATTNI_SUM] = {rows, 1, sizeof(float)},
        [ATTNI_NEXT_EDGES] = {rows, 1, sizeof(void *)},
        [ATTNI_EDGE_TILE] = {tiles->edges ? ATTNI_FEW_TYPES : 0, keys, sizeof(float)}};
    *n_bytes = 0;
    for (size_t i = 0; i < ATTNI_TILE_PARTS; i++) {
        size_t bytes;
        tiles->at[i] = *n_bytes;
        if (!attni_count(shapes[i], 3, &bytes) || !attni_add(bytes, 63, &bytes) ||
            !attni_add(*n_bytes, bytes / 64 * 64, n_bytes)) {
            return false;
        }
    }
    return true;
}
