/* test_scores.c - routing_score against its formula: leading axes that broadcast, a query of rank 1,
 * masks aligned to the right, the clip. */
#include "plan.h"
#include "unit/lib/run_call.h"

#define N_TRIALS 150

struct shape {
    size_t rank;
    size_t sizes[ATTN_MAX_RANK];
};

/* The element of a tensor that serves an element of the whole, aligned to the right. */
static size_t place_of(const struct shape *whole, const size_t *index,
                       const struct shape *part)
{
    size_t place = 0;
    for (size_t i = 0; i < part->rank; i++) {
        size_t at = index[whole->rank - part->rank + i];
        place = place * part->sizes[i] + (part->sizes[i] == 1 ? 0 : at);
    }
    return place;
}

static size_t any_length(struct dice *dice)
{
    static const size_t lengths[] = {0, 1, 3, 15, 16, 17, 33};
    return lengths[dice_below(dice, COUNT(lengths))];
}

/* One trial: the shapes fall first, then the numbers. */
struct trial {
    struct dice dice;
    bool clips;
    double clip;
    size_t n_queries, n_keys, width;
    struct shape query, key, mask, logits; /* mask: of rank 9 when there is none */
    struct call call;
};

/* Leading axes of both, each with all of an axis, or 1, or without the first ones. */
static void choose_shapes(struct trial *t)
{
    struct dice *dice = &t->dice;
    size_t n_leading = dice_below(dice, 4);
    t->n_queries = any_length(dice);
    t->n_keys = any_length(dice);
    t->width = dice_below(dice, 20);
    bool vector = dice_below(dice, 6) == 0;
    size_t of_query = vector ? 0 : dice_below(dice, n_leading + 1);
    for (size_t i = 0; i < n_leading; i++) {
        size_t size = 1 + dice_below(dice, 3);
        size_t which = dice_below(dice, 3);
        bool query_has = i >= n_leading - of_query;
        t->logits.sizes[i] = size;
        t->key.sizes[i] = which == 1 && query_has ? 1 : size;
        if (query_has) {
            t->query.sizes[i - (n_leading - of_query)] = which == 2 ? 1 : size;
        }
    }
    t->query.rank = of_query;
    t->key.rank = t->logits.rank = n_leading;
    if (!vector) {
        t->query.sizes[t->query.rank++] = t->n_queries;
        t->logits.sizes[t->logits.rank++] = t->n_queries;
    }
    t->query.sizes[t->query.rank++] = t->width;
    t->key.sizes[t->key.rank++] = t->n_keys;
    t->key.sizes[t->key.rank++] = t->width;
    t->logits.sizes[t->logits.rank++] = t->n_keys;
    t->mask.rank = dice_bool(dice) ? 9 : dice_below(dice, t->logits.rank + 1);
    for (size_t i = 0; i < t->mask.rank && t->mask.rank < 9; i++) {
        size_t full = t->logits.sizes[t->logits.rank - t->mask.rank + i];
        t->mask.sizes[i] = dice_below(dice, 3) ? full : 1;
    }
}

static double logit(const struct trial *t, const float *query, const float *key,
                    const unsigned char *mask, size_t at)
{
    size_t index[ATTN_MAX_RANK] = {0};
    for (size_t i = t->logits.rank, rest = at; i-- > 0; rest /= t->logits.sizes[i]) {
        index[i] = rest % t->logits.sizes[i];
    }
    bool vector = t->query.rank == 1;
    size_t n_leading = t->logits.rank - (vector ? 1 : 2);
    struct shape leading = {.rank = n_leading}, of_query = t->query, of_key = t->key;
    of_query.rank = vector ? 0 : t->query.rank - 2;
    of_key.rank = t->key.rank - 2;
    size_t query_row = vector ? 0
                              : place_of(&leading, index, &of_query) * t->n_queries +
                                    index[t->logits.rank - 2];
    size_t key_row =
        place_of(&leading, index, &of_key) * t->n_keys + index[t->logits.rank - 1];
    double score = 0;
    for (size_t d = 0; d < t->width; d++) {
        score +=
            (double)query[query_row * t->width + d] * (double)key[key_row * t->width + d];
    }
    score /= sqrt((double)t->width); /* 0 / 0 is NaN: the original's answer too */
    score = t->clips ? t->clip * tanh(score) : score;
    bool blocked = mask && mask[place_of(&t->logits, index, &t->mask)];
    return blocked ? -(double)INFINITY : score;
}

static void run_trial(struct trial *t, size_t seed)
{
    t->clips = dice_bool(&t->dice);
    t->clip = 10 * (double)dice_real(&t->dice);
    struct attn_spec spec = good_spec(
        "routing_score", LIST(attn_bool("use_tanh", t->clips), attn_real("C", t->clip)));
    struct made made = make_layer(&spec, &t->dice);
    choose_shapes(t);
    const float *query =
        call_add_reals(&t->call, &t->dice, "query", t->query.rank, t->query.sizes);
    const float *key =
        call_add_reals(&t->call, &t->dice, "key", t->key.rank, t->key.sizes);
    unsigned char *mask = NULL;
    if (t->mask.rank < 9) {
        mask = call_add(&t->call, "mask", ATTN_BOOL, t->mask.rank, t->mask.sizes);
        for (size_t i = 0; i < count_of(&t->call.inputs[2].tensor); i++) {
            mask[i] = dice_below(&t->dice, 3) == 0;
        }
    }
    struct results results = run_call(made.layer, &t->call, NULL, 0, INLINE);
    ck_assert_uint_eq(results.tensors[0].rank, t->logits.rank);
    ck_assert_mem_eq(results.tensors[0].shape, t->logits.sizes,
                     t->logits.rank * sizeof(size_t));
    for (size_t i = 0; i < count_of(&results.tensors[0]); i++) {
        double expected = logit(t, query, key, mask, i),
               got = (double)results.outputs[0][i];
        /* up to 20 products of numbers of at most 1, a clip of at most 10 */
        bool near = isnan(expected) ? isnan(got)
                                    : got == expected || fabs(got - expected) <= 1e-5;
        if (!near) {
            ck_abort_msg("seed %zu at %zu: expected %.9g, got %.9g", seed, i, expected,
                         got);
        }
    }
    check_same_bits(made.layer, &t->call, NULL, 0, &results);
    results_free(&results);
    call_free(&t->call);
    made_free(&made);
}

START_TEST(random_calls)
{
    for (size_t seed = 0; seed < N_TRIALS; seed++) {
        struct trial trial = {.dice = {seed}};
        run_trial(&trial, seed);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scores");
    TCase *tcase = tcase_create("scores");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, random_calls);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
