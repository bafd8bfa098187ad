/* test_cache_state.c - sequences that go elsewhere: what they give there is, bit for bit, what they would have
 * given had they stayed. */
#include "unit/lib/causal_modules.h"
#include "unit/lib/random_call.h"
#include "unit/lib/sequences.h"

/* ---- moving -------------------------------------------------------------------------------- */

/* An exported state, whose data begin at an odd address. */
struct moved {
    struct attn_cache_state state;
    unsigned char *memory[2];
};

static struct moved export(const attn_cache *cache)
{
    struct moved moved = {.state = {.size = sizeof moved.state}};
    struct attn_error error = {0};
    ck_assert_msg(!attn_cache_describe(cache, &moved.state, &error), "%s", error.message);
    struct attn_tensor *tensors[] = {&moved.state.key, &moved.state.value};
    for (size_t i = 0; i < moved.state.n_tensors; i++) {
        ck_assert_ptr_null(tensors[i]->data);
        moved.memory[i] = need_memory(count_of(tensors[i]) * sizeof(float) + 1);
        tensors[i]->data = moved.memory[i] + 1;
    }
    attn_cache_export(cache, moved.memory[0] + 1,
                      moved.memory[1] ? moved.memory[1] + 1 : NULL);
    return moved;
}

static void moved_free(struct moved *moved)
{
    free(moved->memory[0]);
    free(moved->memory[1]);
}

static bool same_state(const struct moved *a, const struct moved *b)
{
    const struct attn_tensor *of_a[] = {&a->state.key, &a->state.value},
                             *of_b[] = {&b->state.key, &b->state.value};
    bool same =
        a->state.grows == b->state.grows && a->state.n_tensors == b->state.n_tensors;
    for (size_t i = 0; same && i < a->state.n_tensors; i++) {
        same =
            of_a[i]->rank == of_b[i]->rank &&
            memcmp(of_a[i]->shape, of_b[i]->shape, of_a[i]->rank * sizeof(size_t)) == 0 &&
            memcmp(of_a[i]->data, of_b[i]->data, count_of(of_a[i]) * sizeof(float)) == 0;
    }
    return same;
}

/* The same sequence in a cache of its own, which keeps the same. */
static attn_cache *cache_move(const attn_cache *cache)
{
    struct attn_error error = {0};
    attn_cache *created = NULL;
    struct moved moved = export(cache);
    ck_assert_msg(!attn_cache_import(cache->layer, &moved.state, &created, &error), "%s",
                  error.message);
    ck_assert_uint_eq(attn_cache_length(created), attn_cache_length(cache));
    ck_assert_uint_eq(attn_cache_bytes(created), attn_cache_bytes(cache));
    ck_assert(attn_cache_grows(created) == attn_cache_grows(cache));
    struct moved again = export(created);
    ck_assert(same_state(&moved, &again));
    moved_free(&moved);
    moved_free(&again);
    return created;
}

/* The next call of both, which gives the same. */
static void check_step(attn_cache *stays, attn_cache *goes,
                       const struct attn_named_tensor *inputs, size_t n)
{
    struct attn_error error = {0};
    attn_plan *plans[] = {cache_plan(stays, inputs, n), cache_plan(goes, inputs, n)};
    struct outputs *outputs[] = {run_one(plans[0]), run_one(plans[1])};
    check_same_outputs(plans, outputs[1], outputs[0], &error, "moved");
    for (size_t i = 0; i < 2; i++) {
        outputs_free(outputs[i]);
        attn_plan_free(plans[i]);
    }
}

/* ---- growing ------------------------------------------------------------------------------- */

/* Moves a sequence at each of these lengths, and goes on there. */
static void check_growth(struct dice *dice, const struct attn_spec *spec, size_t batch)
{
    static const size_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 191, 200};
    struct made made = make_layer(spec, dice);
    struct tokens tokens = tokens_make(dice, batch, spec->length, spec->fused.n_in);
    attn_cache *stays = cache_make(made.layer);
    for (size_t i = 0, at = 0; i < COUNT(lengths) && lengths[i] < spec->length; i++) {
        outputs_free(grow(stays, &tokens, at, lengths[i] - at));
        at = lengths[i];
        attn_cache *goes = cache_move(stays), *fork = cache_fork(goes),
                   *stay_fork = cache_fork(stays);
        for (size_t first = at, n = 1; first < spec->length; first += n, n += 40) {
            n = n < spec->length - first ? n : spec->length - first;
            const struct attn_named_tensor input = tokens_at(&tokens, first, n);
            check_step(stay_fork, goes, &input, 1);
        }
        /* what was forked from the copy before it went on is as it was */
        attn_cache *back = cache_move(fork);
        struct moved a = export(stays), b = export(back);
        ck_assert(same_state(&a, &b));
        moved_free(&a);
        moved_free(&b);
        attn_cache_free(back);
        attn_cache_free(fork);
        attn_cache_free(goes);
        attn_cache_free(stay_fork);
    }
    attn_cache_free(stays);
    tokens_free(&tokens);
    made_free(&made);
}

START_TEST(growing_goes_on)
{
    static const size_t widths[] = {1, 3, 16, 32, 5}, heads[] = {1, 2, 5};
    struct dice dice = {1 + (uint64_t)_i};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(_i % 2 ? 202 : 66, heads[_i % 3], widths[_i % 5],
                                        0.5, true, &none, &none);
    spec.weights_dtype = _i % 4 == 3 ? ATTN_STORE_BF16 : ATTN_STORE_F32;
    check_growth(&dice, &spec, 1 + dice_below(&dice, 3));
}
END_TEST

START_TEST(steps_know_their_positions)
{
    struct dice dice = {3 + (uint64_t)_i};
    const struct module normalisation = module_at((size_t)_i % N_NORMS),
                        activation = module_at((size_t)_i / N_NORMS);
    if (is_apart(&normalisation) && is_apart(&activation)) {
        struct attn_spec spec =
            causal_spec(70, 2, 4, 0, true, &normalisation, &activation);
        check_growth(&dice, &spec, 2);
    }
}
END_TEST

/* What is not finite goes along, with its bits. */
START_TEST(infinity_goes_along)
{
    struct dice dice = {5};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(100, 1, 8, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    struct tokens tokens = tokens_make(&dice, 1, 100, 8);
    tokens.all[50 * 8] = INFINITY;
    tokens.all[60 * 8 + 1] = NAN;
    attn_cache *stays = cache_make(made.layer);
    outputs_free(grow(stays, &tokens, 0, 70));
    attn_cache *goes = cache_move(stays);
    const struct attn_named_tensor input = tokens_at(&tokens, 70, 30);
    check_step(stays, goes, &input, 1);
    attn_cache_free(goes);
    attn_cache_free(stays);
    tokens_free(&tokens);
    made_free(&made);
}
END_TEST

/* ---- a context that stays ------------------------------------------------------------------ */

/* Begins a sequence with the call, moves it, and asks both the same again. False: axes that broadcast fell so
 * that they do not fit. */
static bool check_context(const struct attn_spec *spec, struct dice *dice,
                          const struct call *call)
{
    struct made made = make_layer(spec, dice);
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    attn_plan *plan = NULL;
    struct attn_error error = {0};
    bool fits = !attn_plan_create(made.layer, NULL, call->inputs, call->n, NULL, 0, &plan,
                                  &error);
    attn_plan_free(plan);
    if (fits) {
        attn_cache *stays = cache_make(made.layer);
        plan = cache_plan(stays, call->inputs, call->n);
        outputs_free(run_one(plan));
        attn_plan_free(plan);
        attn_cache *goes = cache_move(stays), *fork = cache_fork(goes);
        size_t n = without_keys(spec, call, inputs);
        check_step(stays, goes, inputs, n);
        check_step(stays, fork, inputs, n);
        attn_cache_free(goes);
        check_step(stays, fork, inputs, n);
        attn_cache_free(fork);
        attn_cache_free(stays);
    }
    made_free(&made);
    return fits;
}

START_TEST(context_goes_on)
{
    size_t n = 0;
    for (uint64_t seed = 1; seed <= 40 && _i != CAUSAL_MHA; seed++) {
        struct dice dice = {seed};
        struct sizes sizes = small_sizes(&dice);
        struct call call = {.n = 0};
        /* widths that are cut by heads, and such that are not; no key at all */
        sizes.width = dice_bool(&dice) ? 32 : sizes.width;
        sizes.value_width = dice_bool(&dice) ? 16 : sizes.value_width;
        sizes.keys = seed % 7 == 0 ? 0 : sizes.keys;
        sizes.edges = sizes.keys ? sizes.edges : 0;
        struct attn_spec spec = random_spec((enum preset)_i, &dice, &sizes);
        random_call(&call, &spec, &sizes, &dice);
        n += check_context(&spec, &dice, &call);
        call_free(&call);
    }
    ck_assert_uint_ge(n, _i == CAUSAL_MHA ? 0 : 15);
}
END_TEST

/* One input serves as keys and values, as it comes: it is kept once. */
START_TEST(one_input_goes_once)
{
    struct dice dice = {9};
    struct attn_spec spec = good_spec(
        "routing_mha", LIST(attn_int("embedding_dim", 12), attn_int("n_heads", 3)));
    memcpy(spec.value, spec.key, sizeof spec.value);
    struct call call = {.n = 0};
    const size_t query[] = {2, 3, 12}, key[] = {2, 5, 12};
    call_add_reals(&call, &dice, spec.query, 3, query);
    call_add_reals(&call, &dice, spec.key, 3, key);
    ck_assert(check_context(&spec, &dice, &call));
    call_free(&call);
}
END_TEST

/* ---- layout -------------------------------------------------------------------------------- */

/* Keys are [batch, heads, positions, width]: here they are the inputs themselves. */
START_TEST(layout_is_plain)
{
    struct dice dice = {11};
    struct attn_spec spec = good_spec(
        "routing_mha", LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2)));
    struct made made = make_layer(&spec, &dice);
    struct call call = {.n = 0};
    const size_t query[] = {2, 1, 8}, key[] = {2, 3, 8}, value[] = {2, 3, 6};
    call_add_reals(&call, &dice, spec.query, 3, query);
    const float *keys = call_add_reals(&call, &dice, spec.key, 3, key);
    call_add_reals(&call, &dice, spec.value, 3, value);
    attn_cache *cache = cache_make(made.layer);
    attn_plan *plan = cache_plan(cache, call.inputs, call.n);
    outputs_free(run_one(plan));
    attn_plan_free(plan);
    struct moved moved = export(cache);
    ck_assert(!moved.state.grows);
    ck_assert_uint_eq(moved.state.n_tensors, 2);
    const size_t expected[] = {2, 2, 3, 4};
    ck_assert_mem_eq(moved.state.key.shape, expected, sizeof expected);
    ck_assert_uint_eq(moved.state.value.shape[3], 3);
    const unsigned char *at = moved.state.key.data;
    for (size_t b = 0; b < 2; b++) {
        for (size_t h = 0; h < 2; h++) {
            for (size_t i = 0; i < 3; i++, at += 4 * sizeof(float)) {
                ck_assert_mem_eq(at, keys + (b * 3 + i) * 8 + h * 4, 4 * sizeof(float));
            }
        }
    }
    moved_free(&moved);
    attn_cache_free(cache);
    call_free(&call);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_state");
    TCase *tcase = tcase_create("cache_state");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    tcase_add_loop_test(tcase, growing_goes_on, 0, 15);
    tcase_add_loop_test(tcase, steps_know_their_positions, 0, N_NORMS * N_MODULES);
    tcase_add_test(tcase, infinity_goes_along);
    tcase_add_loop_test(tcase, context_goes_on, 0, N_PRESETS);
    tcase_add_test(tcase, one_input_goes_once);
    tcase_add_test(tcase, layout_is_plain);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
