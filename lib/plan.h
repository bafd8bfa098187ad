/* plan.h - one call, checked: whose data, which sizes, where in scratch. */
#ifndef ATTNI_PLAN_H
#define ATTNI_PLAN_H

#include "attention.h"
#include "layer.h"
#include "mask.h"
#include "pages.h"
#include "ports.h"
#include "spec.h"

/* Where rows [batch, length, heads, head width] are; strides in floats, 0 where one batch entry
 * serves all, or where there is one head only. data is row first_row of sample `first`; or, where there
 * are pages, each has the next ATTNI_PAGE_ROWS rows of all samples, from float `at` on. */
struct attni_rows {
    const float *data;
    size_t batch, row, head;
    size_t first, first_row;
    struct attni_page *const *pages;
    size_t at;
};

static inline const float *attni_row_at(const struct attni_rows *rows, size_t batch,
                                        size_t head, size_t row)
{
    if (rows->pages) {
        return attni_page_floats(rows->pages[row / ATTNI_PAGE_ROWS]) + rows->at +
               batch * rows->batch + head * rows->head +
               row % ATTNI_PAGE_ROWS * rows->row;
    }
    return rows->data + (batch - rows->first) * rows->batch + head * rows->head +
           (row - rows->first_row) * rows->row;
}

/* How many of n rows from `row` on lie one stride apart. */
static inline size_t attni_rows_together(const struct attni_rows *rows, size_t row,
                                         size_t n)
{
    size_t left = ATTNI_PAGE_ROWS - row % ATTNI_PAGE_ROWS;
    return rows->pages && left < n ? left : n;
}

/* A dense relation [batch, queries, keys, heads(, width)]; data NULL: none. Strides in floats, 0
 * where an axis broadcasts. */
struct attni_dense {
    const float *data;
    size_t batch, query, key, head, width;
};

/* Scores alone: leading axes that broadcast. */
struct attni_free {
    size_t rank; /* of the leading axes */
    size_t shape[ATTN_MAX_RANK];
    size_t query[ATTN_MAX_RANK], key[ATTN_MAX_RANK], mask[ATTN_MAX_RANK]; /* strides */
    size_t mask_query, mask_key;
};

/* Parts of a task's scratch. */
enum attni_tile_part {
    ATTNI_SCORES,     /* [block][tile's keys] */
    ATTNI_QUERY_TILE, /* [rows][head width] */
    ATTNI_RESULTS,    /* [rows][value width] */
    ATTNI_KEY_TILE,   /* columns: panels of [head width][n_panel] */
    ATTNI_VALUE_TILE, /* panels of [tile's keys][n_panel] */
    ATTNI_MAX,        /* [rows] */
    ATTNI_SUM,        /* [rows] */
    ATTNI_NEXT_EDGES, /* [rows] */
    ATTNI_EDGE_TILE,  /* [types][tile's keys], if those are few */
    ATTNI_TILE_PARTS
};

/* So few types of edges are taken together: one product scores all of them. */
#define ATTNI_FEW_TYPES ((size_t)16)

/* Rows of scores against a tile of keys that exist at once, at most: near a first-level cache. */
#define ATTNI_MOST_BLOCK ((size_t)28)

/* How attention is cut (tiles.h). A task has rows: the queries of its heads, head by head. */
struct attni_tiles {
    bool few;           /* queries: keys and values are used as they lie */
    size_t n_samples;   /* of a task, at most */
    size_t n_heads;     /* taken up at a time */
    size_t query_parts; /* into which the queries of a head are cut, each a task */
    size_t n_rows;      /* at a time, at most */
    size_t n_block;     /* rows whose scores exist at once */
    size_t n_keys;      /* of a tile */
    bool edges;         /* a tile's edges are scored by type */
    size_t at[ATTNI_TILE_PARTS]; /* within a worker's part of scratch */
};

/* How much of a call is projected, and attended to, at a time (lay_out.h). */
struct attni_rounds {
    size_t n_samples; /* of a round */
    bool by_head;     /* queries, keys and values of one head after the other */
    bool in_output;   /* what the heads give goes to the output, and is projected there */
    size_t
        n_keys; /* of a round, whole tiles: fewer than all where one head is too much */
    size_t
        n_seen; /* keys that a task attends to, whole tiles: fewer than those of the round where
                    * tasks would be long */
    bool by_block[3]; /* queries, keys, values: projected heads lie one after the other */
};

/* Parts of a backward task's scratch. */
enum attni_back_part {
    ATTNI_BACK_SCORES,    /* [block][tile's keys]: scores, then weights */
    ATTNI_BACK_GRADIENTS, /* the same of weights, then of scores */
    ATTNI_BACK_SLOPES,    /* the same of clipped scores, if they are clipped */
    ATTNI_BACK_TURNED,    /* [tile's keys][block]: either of the first two, transposed */
    ATTNI_BACK_KEYS,      /* columns of a tile's keys */
    ATTNI_BACK_VALUES,    /* columns of its values */
    ATTNI_BACK_KEY_ROWS,  /* its keys as panels of rows */
    ATTNI_BACK_ROWS,      /* panels of a block's queries, or of its cotangents */
    ATTNI_BACK_GRAD_KEYS, /* [tile's keys][width] */
    ATTNI_BACK_GRAD_VALUES,  /* [tile's keys][value width] */
    ATTNI_BACK_GRAD_QUERIES, /* [queries][width] */
    ATTNI_BACK_DELTAS,       /* [queries] */
    ATTNI_BACK_NEXT_EDGES,   /* [queries] */
    ATTNI_BACK_FACTORS,      /* [tile's keys] */
    ATTNI_BACK_PARTS
};

/* A backward: how it is cut, and what it keeps in scratch (back_lay_out.c). */
struct attni_back_plan {
    bool few;                    /* queries: keys and values are used as they lie */
    size_t n_block;              /* queries whose scores exist at once */
    size_t n_keys;               /* of a tile */
    size_t key_parts;            /* into which the keys of a head are cut, each a task */
    size_t at[ATTNI_BACK_PARTS]; /* within a worker's part of scratch */
    bool wants[3];               /* gradients of projected queries, keys and values */
    bool direct[3]; /* those go straight to the output: nothing is to be added */
    bool attends;   /* any gradient goes through attention */
    /* Floats in the shared part. */
    size_t rows_at[3]; /* those gradients; of a fused projection all three in the first */
    size_t row_max_at, row_factor_at;
    size_t context_at; /* what the heads give */
    size_t
        steps_at[1 +
                 ATTNI_N_POSTS]; /* its projection, and what each step after it gives */
    size_t cotangent_at;         /* of that, back to that of the projection */
    size_t context_cotangent_at;
    size_t attention_at;
    size_t edges_at[2];
    size_t query_parts_at;
    size_t weight_at; /* a projection's weight, turned */
};

/* What a call has to do with a sequence (kept.h). */
enum attni_kept_kind {
    ATTNI_KEPT_NONE,
    ATTNI_KEPT_FILL, /* it brings the context that stays */
    ATTNI_KEPT_READ, /* it attends to that */
    ATTNI_KEPT_GROW  /* it brings the next positions */
};

struct attni_kept {
    enum attni_kept_kind kind;
    struct attn_cache *cache; /* NULL: no sequence */
    size_t first;             /* positions before those of the call */
    struct attni_page *
        *pages; /* owned; once the call has succeeded, what the cache had */
    size_t n_pages;
    size_t values_at; /* floats of a page before its values */
};

struct attn_plan {
    const attn_layer *layer;
    struct attni_kept kept;
    struct attn_mode mode;
    struct attn_tensor
        inputs[ATTNI_N_ROLES]; /* key and value resolved to what serves them */
    bool given[ATTNI_N_ROLES];

    size_t n_batch; /* of the output */
    size_t
        n_score_batch; /* of the scores: 1 when queries and keys have one and values many */
    size_t batch[3];   /* of query, key and value inputs: n_batch or 1 */
    size_t n_queries, n_keys;
    size_t head_width, value_width; /* of one head */
    float scale;
    struct attni_mask mask;
    struct attni_dense kq, kv;
    size_t n_edges;
    struct attni_free free;

    struct attn_named_tensor outputs[ATTN_MAX_PORTS];
    struct attni_result results[ATTN_MAX_PORTS]; /* what each of them is */
    size_t n_outputs;
    /* the layer's own outputs, main and attention: are they computed, as they are or for what is made
     * of them, and how many values has each, without an axis of draws? */
    bool computes[2];
    size_t n_values[2];

    struct attni_rounds rounds;
    struct attni_tiles tiles;
    struct attni_back_plan back;

    /* Scratch, in bytes from its start; each part is aligned to 64. */
    size_t rows_at[3]; /* of queries, keys and values */
    size_t context_at, edges_at[4];
    size_t rows_from;     /* projected rows come last in the shared part: from here on */
    size_t draw_at[2];    /* own outputs that are computed but not given out */
    size_t moments_at[2]; /* of the own outputs */
    size_t state_at
        [2]; /* maxima and sums of all rows of a round, while not all keys are in */
    size_t shared_bytes; /* before the workers' parts */
    size_t
        worker_bytes; /* each: first what attention takes, then what projections take */
    size_t linear_at;
};

/* Of queries, keys or values (0, 1, 2): rows that the call has of a sample, and width of a head. */
static inline size_t attni_plan_length(const attn_plan *plan, size_t which)
{
    return which == 0 ? plan->n_queries : plan->n_keys - plan->kept.first;
}

static inline size_t attni_plan_width(const attn_plan *plan, size_t which)
{
    return which == 2 ? plan->value_width : plan->head_width;
}

/* Which of query, key and value (0, 1, 2) a projection makes from its own input. */
const struct attni_linear *attni_plan_projection(const attn_plan *plan, size_t which);

/* Whether such a result is asked for. */
bool attni_plan_wants(const attn_plan *plan, enum attni_result_kind kind, size_t index);

/* Its memory, or NULL where it is not asked for or has no elements: axes may then be as large as they
 * like, so nothing may walk over them. */
float *attni_plan_memory(const attn_plan *plan, enum attni_result_kind kind, size_t index,
                         float *const *outputs);

/* Where a moved statistic of a step after the heads goes; NULL: it is not wanted. */
float *attni_plan_statistic(const attn_plan *plan, enum attni_post_owner owner,
                            enum attni_parameter_kind kind, float *const *outputs);

/* The same for the gradient of a parameter; owner as in struct attni_parameter. */
float *attni_plan_gradient(const attn_plan *plan, enum attni_parameter_kind kind,
                           size_t owner, float *const *outputs);

/* Roughly the multiply-adds of attention alone, over all draws. */
double attni_plan_attention_cost(const attn_plan *plan);

/* attn_plan_create for a call of a sequence; kept NULL: of none. */
enum attn_status attni_plan_create(const attn_layer *layer, const struct attn_mode *mode,
                                   const struct attni_kept *kept,
                                   const struct attn_named_tensor *inputs,
                                   size_t n_inputs, const char *const *outputs,
                                   size_t n_outputs, attn_plan **plan,
                                   struct attn_error *error) ATTN_MUST_CHECK;

/* Whether any step follows the joined heads' projection. */
bool attni_plan_has_posts(const attn_plan *plan);

/* Which input serves as query, key or value (0, 1, 2). */
enum attni_role attni_plan_source(const attn_plan *plan, size_t which);

/* Whether the step after the heads takes the statistics of the batch. */
bool attni_plan_couples(const attn_plan *plan, const struct attni_post *post);

#endif
