/* back_tiles.c - how a backward is cut. Everything follows from the call's own shapes and the kernels, so
 * that results depend on neither threads nor neighbours. Pure functions, any thread. */
#include "back_core.h"

#include "cursor.h"
#include "kernels/kernels.h"
#include "tiles.h"

/* Queries whose scores against a tile exist at once: each tile of products is added to a tile's
 * gradients as often as there are blocks. */
#define MOST_BLOCK ((size_t)56)

/* Keys of a tile, and floats of its keys and values together: with what a tile takes of scores and
 * gradients they stay in a second-level cache. */
#define MOST_KEYS ((size_t)256)
#define LEAST_KEYS ((size_t)32)
#define TILE_FLOATS ((size_t)32768)

/* With fewer heads in all, their keys are cut into parts. */
#define ENOUGH_TASKS ((size_t)8)

static size_t key_parts(const attn_plan *plan, size_t tile)
{
    size_t n_tiles = attni_parts(plan->n_keys, tile), n_heads = plan->layer->spec.n_heads;
    if (plan->n_batch == 0 || plan->n_batch >= ENOUGH_TASKS || n_heads >= ENOUGH_TASKS) {
        return 1;
    }
    size_t most = attni_parts(ENOUGH_TASKS, plan->n_batch * n_heads);
    size_t parts = n_tiles < most ? n_tiles : most;
    return parts > 1 ? parts : 1;
}

void attni_back_cut(attn_plan *plan)
{
    size_t n_rows = attni_kernels()->n_rows;
    plan->back.few = plan->tiles.few;
    plan->back.n_block = MOST_BLOCK / n_rows * n_rows; /* whole products */
    plan->back.n_keys = attni_tiles_keys(plan, TILE_FLOATS, LEAST_KEYS, MOST_KEYS);
    plan->back.key_parts = key_parts(plan, plan->back.n_keys);
}

bool attni_back_lay_out(attn_plan *plan, size_t *n_bytes)
{
    struct attni_back_plan *back = &plan->back;
    struct attni_cursor cursor = {0, false};
    size_t keys = back->n_keys, block = back->n_block, width = plan->head_width;
    size_t value_width = plan->value_width, n_queries = plan->n_queries;
    size_t widest = width > value_width ? width : value_width;
    size_t clipped = plan->layer->spec.clip ? block : 0;
    size_t packed = back->few ? 0 : keys; /* few queries pack nothing */
    const size_t shapes[ATTNI_BACK_PARTS][3] = {
        [ATTNI_BACK_SCORES] = {block, keys, 1},
        [ATTNI_BACK_GRADIENTS] = {block, keys, 1},
        [ATTNI_BACK_SLOPES] = {clipped, keys, 1},
        [ATTNI_BACK_TURNED] = {keys, block, 1},
        [ATTNI_BACK_KEYS] = {width, attni_tiles_padded(packed), 1},
        [ATTNI_BACK_VALUES] = {value_width, attni_tiles_padded(packed), 1},
        [ATTNI_BACK_KEY_ROWS] = {attni_tiles_padded(width), packed, 1},
        [ATTNI_BACK_ROWS] = {attni_tiles_padded(widest), block, 1},
        [ATTNI_BACK_GRAD_KEYS] = {keys, width, 1},
        [ATTNI_BACK_GRAD_VALUES] = {keys, value_width, 1},
        [ATTNI_BACK_GRAD_QUERIES] = {back->key_parts > 1 ? 0 : n_queries, width, 1},
        [ATTNI_BACK_DELTAS] = {n_queries, 1, 1},
        [ATTNI_BACK_NEXT_EDGES] = {plan->n_edges ? n_queries : 0,
                                   sizeof(void *) / sizeof(float), 1},
        [ATTNI_BACK_FACTORS] = {keys, 1, 1}};
    for (size_t i = 0; i < ATTNI_BACK_PARTS; i++) {
        back->at[i] =
            attni_take_floats(&cursor, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    *n_bytes = cursor.bytes;
    return !cursor.overflow;
}
