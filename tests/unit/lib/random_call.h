/* random_call.h - random layers of every preset, of small odd sizes unless told otherwise, and random
 * calls to them: each optional input there or not, each form of mask, axes that broadcast. */
#ifndef TESTS_UNIT_LIB_RANDOM_CALL_H
#define TESTS_UNIT_LIB_RANDOM_CALL_H

#include "unit/lib/layers.h"

enum preset {
    ROUTING_SCORE,
    ROUTING_MHA,
    ROUTING_MHA_PROJ,
    SPEECH_MHA,
    CAUSAL_MHA,
    RELATIONAL_MHA,
    N_PRESETS
};

struct sizes {
    size_t batch, queries, keys;
    size_t heads, width, value_width; /* of a head */
    size_t types, edges;
    double dropout;
    bool full;  /* every optional input is there */
    bool plain; /* none is */
};

static inline size_t one_of(struct dice *dice, const size_t *choice, size_t n)
{
    return choice[dice_below(dice, n)];
}
#define ONE_OF(dice, ...)                       \
    one_of(dice, (const size_t[]){__VA_ARGS__}, \
           sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

static inline struct sizes small_sizes(struct dice *dice)
{
    return (struct sizes){.batch = ONE_OF(dice, 1, 2, 3),
                          .queries = ONE_OF(dice, 1, 2, 4, 5, 7, 17),
                          .keys = ONE_OF(dice, 1, 2, 5, 13, 19),
                          .heads = ONE_OF(dice, 1, 2, 3),
                          .width = ONE_OF(dice, 1, 3, 5),
                          .value_width = ONE_OF(dice, 1, 3, 5),
                          .types = ONE_OF(dice, 1, 3, 19),
                          .edges = ONE_OF(dice, 0, 1, 9, 30)};
}

/* ---- specs ----------------------------------------------------------------------------------- */

static inline struct attn_spec random_routing(enum preset preset, struct dice *dice,
                                              const struct sizes *s)
{
    static const char *const kinds[] = {"routing_score", "routing_mha",
                                        "routing_mha_proj"};
    const struct attn_option options[] = {
        attn_bool("use_tanh", dice_bool(dice)),
        attn_real("C", 4 * (double)dice_real(dice)),
        attn_int("embedding_dim", (int64_t)(s->heads * s->value_width)),
        attn_int("n_heads", (int64_t)s->heads)};
    return good_spec(kinds[preset], options, preset == ROUTING_SCORE ? 2 : 4);
}

static inline struct attn_spec random_speech(struct dice *dice, const struct sizes *s)
{
    return good_spec("speech_mha",
                     LIST(attn_int("num_heads", (int64_t)s->heads),
                          attn_int("d_model", (int64_t)(s->heads * s->width)),
                          attn_real("dropout", s->dropout),
                          attn_bool("scale_dp_by_head", dice_bool(dice))));
}

/* Of the length that is asked for, or longer. */
static inline struct attn_spec random_causal(struct dice *dice, const struct sizes *s)
{
    bool single = s->heads * s->width == 1;
    size_t length = s->queries + (dice_bool(dice) ? 3 : 0);
    return good_spec("causal_mha",
                     LIST(ints_option("output_shape", single ? 1 : 2, (int64_t)length,
                                      (int64_t)(s->heads * s->width)),
                          attn_int("n_heads", (int64_t)s->heads),
                          attn_real("dropout", s->dropout),
                          attn_bool("use_mask", dice_bool(dice))));
}

static inline struct attn_spec random_relational(struct dice *dice, const struct sizes *s)
{
    return good_spec("relational_mha",
                     LIST(attn_int("num_heads", (int64_t)s->heads),
                          attn_int("num_edge_types", (int64_t)s->types),
                          attn_int("key_query_dimension", (int64_t)s->width),
                          attn_int("value_dimension", (int64_t)s->value_width),
                          attn_int("output_dimension", 1 + (int64_t)dice_below(dice, 9)),
                          attn_real("dropout_rate", s->dropout),
                          attn_bool("use_edge_value_biases", s->full || dice_bool(dice)),
                          attn_bool("edge_attention_bias_is_scalar", dice_bool(dice))));
}

static inline struct attn_spec random_spec(enum preset preset, struct dice *dice,
                                           const struct sizes *s)
{
    struct attn_spec spec = preset <= ROUTING_MHA_PROJ ? random_routing(preset, dice, s)
                            : preset == SPEECH_MHA     ? random_speech(dice, s)
                            : preset == CAUSAL_MHA     ? random_causal(dice, s)
                                                       : random_relational(dice, s);
    spec.empty_rows = dice_bool(dice) ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
    return spec;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct caller {
    struct call *call;
    const struct attn_spec *spec;
    const struct sizes *s;
    struct dice *dice;
    size_t score_batch;
};

static inline bool wants(const struct caller *c)
{
    return !c->s->plain && (c->s->full || dice_bool(c->dice));
}

/* An axis at its full length or 1. */
static inline size_t some_axis(const struct caller *c, size_t full)
{
    return dice_below(c->dice, 3) ? full : 1;
}

static inline size_t add_rows_of(const struct caller *c, const char *name, size_t length,
                                 const struct attn_linear_spec *projection, size_t width)
{
    const struct attn_spec *spec = c->spec;
    size_t batch = spec->batch_broadcast ? some_axis(c, c->s->batch) : c->s->batch;
    if (spec->layout == ATTN_LAYOUT_HEADS) {
        const size_t shape[] = {batch, length, spec->n_heads, width};
        call_add_reals(c->call, c->dice, name, 4, shape);
        return batch;
    }
    const struct attn_linear_spec *map =
        spec->fused.weight[0] ? &spec->fused : projection;
    size_t all = map->weight[0] ? map->n_in : spec->n_heads * width;
    const size_t shape[] = {batch, length, all}, single[] = {batch, all};
    bool is_single = spec->single_row && length == 1 && dice_bool(c->dice);
    call_add_reals(c->call, c->dice, name, is_single ? 2 : 3, is_single ? single : shape);
    return batch;
}

static inline void add_all_rows(struct caller *c)
{
    const struct attn_spec *spec = c->spec;
    size_t width = spec->head_width ? spec->head_width : c->s->width;
    size_t of_query =
        add_rows_of(c, spec->query, c->s->queries, &spec->query_projection, width);
    size_t of_key = of_query;
    if (strcmp(spec->key, spec->query) != 0 && (!spec->key_optional || wants(c))) {
        of_key = add_rows_of(c, spec->key, c->s->keys, &spec->key_projection, width);
    }
    if (strcmp(spec->value, spec->key) != 0) {
        add_rows_of(c, spec->value, c->s->keys, &spec->value_projection,
                    spec->value_head_width);
    }
    c->score_batch = of_query == 1 ? of_key : of_query;
}

static inline size_t keys_of(const struct caller *c)
{
    const struct attn_tensor *key = call_find(c->call, c->spec->key);
    return key ? (key->rank == 2 ? 1 : key->shape[1]) : c->s->queries;
}

static inline void add_any_mask(const struct caller *c, const char *form)
{
    const struct attn_mask_spec *mask = &c->spec->mask;
    size_t shape[4] = {0}, rank = strlen(form);
    for (size_t i = 0; i < rank; i++) {
        size_t full = form[i] == 'B'   ? c->score_batch
                      : form[i] == 'H' ? c->spec->n_heads
                      : form[i] == 'Q' ? c->s->queries
                                       : keys_of(c);
        shape[i] = some_axis(c, full);
    }
    unsigned char *data = call_add(c->call, mask->name, ATTN_BOOL, rank, shape);
    size_t rare = 1 + dice_below(c->dice, 4);
    for (size_t i = 0; i < count_of(&c->call->inputs[c->call->n - 1].tensor); i++) {
        data[i] = (dice_below(c->dice, rare + 1) == 0) != mask->true_keeps;
    }
}

static inline void add_any_edges(const struct caller *c)
{
    const struct sizes *s = c->s;
    const size_t shape[] = {s->edges, 3};
    int64_t *edges = call_add(c->call, c->spec->edge.edges, ATTN_I64, 2, shape);
    int32_t *types = call_add(c->call, c->spec->edge.types, ATTN_I32, 1, shape);
    for (size_t e = 0; e < s->edges; e++) {
        bool again = e > 0 && dice_below(c->dice, 3) == 0;
        const size_t below[] = {s->batch, s->queries, s->keys};
        for (size_t k = 0; k < 3; k++) {
            edges[3 * e + k] =
                again ? edges[3 * e + k - 3] : (int64_t)dice_below(c->dice, below[k]);
        }
        types[e] = (int32_t)dice_below(c->dice, s->types);
    }
}

/* blocks: some elements are -inf, now and then those of a whole row */
static inline void add_any_dense(const struct caller *c, const char *name, size_t rank,
                                 bool blocks)
{
    const size_t full[] = {c->s->batch, c->s->queries, c->s->keys, c->spec->n_heads,
                           c->spec->value_head_width};
    size_t shape[5];
    for (size_t i = 0; i < rank; i++) {
        shape[i] = some_axis(c, full[i]);
    }
    float *data = call_add_reals(c->call, c->dice, name, rank, shape);
    size_t n = count_of(&c->call->inputs[c->call->n - 1].tensor),
           rare = 2 + dice_below(c->dice, 6);
    for (size_t i = 0; blocks && i < n; i++) {
        data[i] = dice_below(c->dice, rare) ? data[i] : -INFINITY;
    }
}

/* Query [..., queries, width] or [width], key [..., keys, width], leading axes of the batch or 1, and a
 * mask of any rank up to that of the scores. */
static inline void random_scores(const struct caller *c)
{
    const struct sizes *s = c->s;
    const size_t lead[] = {s->batch, s->heads};
    size_t n_query = dice_below(c->dice, 3), n_key = dice_below(c->dice, 3),
           n_lead = n_query > n_key ? n_query : n_key, shape[4], full[4] = {1, 1};
    bool single = dice_below(c->dice, 4) == 0;
    n_query = single ? 0 : n_query;
    n_lead = single ? n_key : n_lead;
    for (size_t k = 0; k < 2; k++) {
        size_t n = k ? n_key : n_query;
        for (size_t i = 0; i < n; i++) {
            size_t from_right = n - 1 - i;
            shape[i] = some_axis(c, lead[from_right]);
            size_t *joined = &full[n_lead - 1 - from_right];
            *joined = shape[i] == 1 ? *joined : shape[i];
        }
        shape[n] = k ? s->keys : s->queries;
        shape[n + 1] = s->width;
        bool flat = k == 0 && single;
        call_add_reals(c->call, c->dice, k ? c->spec->key : c->spec->query,
                       flat ? 1 : n + 2, flat ? &shape[1] : shape);
    }
    size_t rank = n_lead;
    if (!single) {
        full[rank++] = s->queries;
    }
    full[rank++] = s->keys;
    size_t n_mask = dice_below(c->dice, rank + 1);
    if (!wants(c)) {
        return;
    }
    for (size_t i = 0; i < n_mask; i++) {
        shape[i] = some_axis(c, full[rank - n_mask + i]);
    }
    unsigned char *mask = call_add(c->call, c->spec->mask.name, ATTN_BOOL, n_mask, shape);
    for (size_t i = 0; i < count_of(&c->call->inputs[c->call->n - 1].tensor); i++) {
        mask[i] = dice_below(c->dice, 3) == 0;
    }
}

static inline void random_call(struct call *call, const struct attn_spec *spec,
                               const struct sizes *s, struct dice *dice)
{
    struct caller c = {call, spec, s, dice, 0};
    if (spec->scores_only) {
        random_scores(&c);
        return;
    }
    add_all_rows(&c);
    size_t rank = dice_below(dice, 5);
    while (spec->mask.name[0] && spec->mask.axes[rank][0] == '-') {
        rank = (rank + 1) % 5;
    }
    if (spec->mask.name[0] && wants(&c)) {
        add_any_mask(&c, spec->mask.axes[rank]);
    }
    if (spec->edge.edges[0] && wants(&c)) {
        add_any_edges(&c);
    }
    if (spec->dense_kq[0] && wants(&c)) {
        add_any_dense(&c, spec->dense_kq, 4, true);
    }
    if (spec->dense_kv[0] && wants(&c)) {
        add_any_dense(&c, spec->dense_kv, 5, false);
    }
}

#endif
