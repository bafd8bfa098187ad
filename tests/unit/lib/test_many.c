/* test_many.c - plans of one layer in one pass: every output has the bits that the plan gives alone, whoever
 * its mates are and whatever goes wrong with them. */
#include "lay_out.h"
#include "unit/lib/causal_modules.h"
#include "unit/lib/many_calls.h"
#include "unit/lib/random_call.h"

#define N_SEEDS 25

/* ---- random calls -------------------------------------------------------------------------- */

/* Sizes of another call to the same layer. */
static struct sizes another(struct dice *dice, const struct sizes *layer, bool causal)
{
    struct sizes sizes = small_sizes(dice);
    sizes.heads = layer->heads;
    sizes.width = layer->width;
    sizes.value_width = layer->value_width;
    sizes.types = layer->types;
    sizes.full = dice_below(dice, 4) == 0;
    sizes.plain = dice_below(dice, 3) == 0;
    if (dice_below(dice, 6) == 0) { /* rows enough of its own */
        sizes.batch = 9;
        sizes.queries = 17;
    }
    if (causal && sizes.queries > layer->queries) {
        sizes.queries = 1 + dice_below(dice, layer->queries);
    }
    return sizes;
}

static attn_plan *plan_of(const attn_layer *layer, struct dice *dice,
                          const struct call *call)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const struct attn_mode mode = {.size = sizeof mode,
                                   .training = dice_below(dice, 3) == 0,
                                   .seed = dice_below(dice, 1000)};
    const char *const names[] = {spec->attention, spec->output};
    size_t n_names = dice_below(dice, 3), first = n_names == 2 ? 0 : dice_below(dice, 2);
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_plan_create(layer, &mode, call->inputs, call->n, names + first,
                                    n_names, &plan, &error),
                  "%s", error.message);
    if (dice_below(dice, 8) == 0) { /* several rounds */
        ck_assert(!attni_lay_out(plan, 1, &error));
    }
    ck_assert(attn_plan_joins(plan));
    return plan;
}

static void check_random(enum preset preset, uint64_t seed)
{
    struct dice dice = {seed};
    struct call calls[MOST_CALLS] = {{.n = 0}};
    attn_plan *plans[MOST_CALLS];
    struct sizes sizes = small_sizes(&dice);
    /* now and then, heads that lie one after the other */
    sizes.width = dice_bool(&dice) ? 32 : sizes.width;
    sizes.value_width = dice_bool(&dice) ? sizes.width : sizes.value_width;
    sizes.dropout = 0.3;
    struct attn_spec spec = random_spec(preset, &dice, &sizes);
    spec.weights_dtype = dice_below(&dice, 3) ? ATTN_STORE_F32 : ATTN_STORE_BF16;
    struct made made = make_layer(&spec, &dice);
    size_t n = 1 + dice_below(&dice, MOST_CALLS);
    for (size_t p = 0; p < n; p++) {
        struct sizes s = another(&dice, &sizes, preset == CAUSAL_MHA);
        random_call(&calls[p], &spec, &s, &dice);
        plans[p] = plan_of(made.layer, &dice, &calls[p]);
    }
    check_joined(plans, n);
    for (size_t p = 0; p < n; p++) {
        attn_plan_free(plans[p]);
        call_free(&calls[p]);
    }
    made_free(&made);
}

START_TEST(random_calls)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        check_random((enum preset)_i, seed);
    }
}
END_TEST

/* ---- steps after the heads ----------------------------------------------------------------- */

/* Each normalisation and activation that there is, in training and not: what couples samples or positions
 * couples those of one call alone. */
START_TEST(steps_after)
{
    enum { LENGTH = 6 };
    struct dice dice = {7 + (uint64_t)_i};
    const struct module normalisation = module_at((size_t)_i % N_NORMS),
                        activation = module_at((size_t)_i / N_NORMS);
    struct attn_spec spec =
        causal_spec(LENGTH, 2, 3, 0.25, true, &normalisation, &activation);
    struct made made = make_layer(&spec, &dice);
    struct call calls[MOST_CALLS] = {{.n = 0}};
    attn_plan *plans[MOST_CALLS];
    for (size_t p = 0; p < MOST_CALLS; p++) {
        const struct attn_mode mode = {
            .size = sizeof mode, .training = p % 2 == 0, .seed = p / 3};
        const size_t shape[] = {2 + dice_below(&dice, 3), LENGTH, 6};
        struct attn_error error = {0};
        call_add_reals(&calls[p], &dice, "input", 3, shape);
        ck_assert(!attn_plan_create(made.layer, &mode, calls[p].inputs, 1, NULL, 0,
                                    &plans[p], &error));
    }
    check_joined(plans, MOST_CALLS);
    for (size_t p = 0; p < MOST_CALLS; p++) {
        attn_plan_free(plans[p]);
        call_free(&calls[p]);
    }
    made_free(&made);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------ */

/* One call has an edge that points outside, another a draw that is none. */
START_TEST(a_mate_fails)
{
    struct dice dice = {11};
    struct sizes sizes = {.batch = 2,
                          .queries = 5,
                          .keys = 7,
                          .heads = 2,
                          .width = 4,
                          .value_width = 4,
                          .types = 3,
                          .edges = 4,
                          .dropout = 0.5,
                          .full = true};
    struct attn_spec spec = random_spec(RELATIONAL_MHA, &dice, &sizes);
    struct made made = make_layer(&spec, &dice);
    struct call calls[5] = {{.n = 0}};
    attn_plan *plans[5];
    for (size_t p = 0; p < COUNT(plans); p++) {
        random_call(&calls[p], &spec, &sizes, &dice);
        const size_t shape[] = {2, 2, 5, 7};
        float *draws = call_add(&calls[p], "dropout_uniform", ATTN_F32, 4, shape);
        const struct attn_mode mode = {.size = sizeof mode, .training = true};
        struct attn_error error = {0};
        if (p == 1) {
            ((int64_t *)(uintptr_t)call_find(&calls[p], "edges")->data)[4] = 5;
        }
        draws[9] = p == 3 ? 1 : 0.5F;
        ck_assert_msg(!attn_plan_create(made.layer, &mode, calls[p].inputs, calls[p].n,
                                        NULL, 0, &plans[p], &error),
                      "%s", error.message);
    }
    struct attn_error errors[5] = {{0}};
    struct outputs *outputs = run_joined(plans, COUNT(plans), 3, errors);
    const enum attn_status expected[] = {ATTN_OK, ATTN_RANGE, ATTN_OK, ATTN_RANGE,
                                         ATTN_OK};
    for (size_t p = 0; p < COUNT(plans); p++) {
        ck_assert_int_eq(errors[p].status, expected[p]);
    }
    ck_assert_str_eq(errors[1].field, "edges");
    ck_assert_str_eq(errors[3].field, "dropout_uniform");
    outputs_free(outputs);
    check_joined(plans, COUNT(plans));
    for (size_t p = 0; p < COUNT(plans); p++) {
        attn_plan_free(plans[p]);
        call_free(&calls[p]);
    }
    made_free(&made);
}
END_TEST

/* ---- what joins, and what it comes to ------------------------------------------------------ */

static attn_plan *self_plan(const attn_layer *layer, const struct attn_mode *mode,
                            size_t batch, size_t length, const float *data)
{
    const struct attn_named_tensor input = {"q", {ATTN_F32, 3, {batch, length, 8}, data}};
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_plan_create(layer, mode, &input, 1, NULL, 0, &plan, &error), "%s",
                  error.message);
    return plan;
}

START_TEST(costs)
{
    static const float data[2 * 5 * 8];
    struct dice dice = {3};
    struct attn_spec spec = good_spec(
        "routing_mha_proj", LIST(attn_int("embedding_dim", 8), attn_int("n_heads", 2)));
    struct made made = make_layer(&spec, &dice);
    attn_plan *plan = self_plan(made.layer, NULL, 2, 5, data);
    ck_assert(attn_plan_joins(plan));
    ck_assert_uint_eq(attn_plan_rows(plan), 20);
    ck_assert_double_eq(attn_plan_cost(plan), 10 * 8 * 8 * 4 + 2 * 2 * 5 * 5 * 8);
    attn_plan_free(plan);
    const struct attn_mode draws = {.size = sizeof draws, .training = true, .n_draws = 3};
    plan = self_plan(made.layer, &draws, 2, 5, data);
    ck_assert(!attn_plan_joins(plan));
    ck_assert_double_eq(attn_plan_cost(plan), 10 * 8 * 8 * 4 + 3 * 2 * 2 * 5 * 5 * 8);
    attn_plan_free(plan);
    plan = self_plan(made.layer, NULL, 0, SIZE_MAX / 4, data);
    ck_assert_uint_eq(attn_plan_rows(plan), 0);
    ck_assert_double_eq(attn_plan_cost(plan), 0);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

START_TEST(no_plans)
{
    size_t n_bytes = 0;
    ck_assert_int_eq(attn_many_scratch(NULL, 0, 0, &n_bytes), ATTN_INVALID);
    ck_assert_int_eq(attn_many_scratch(NULL, 0, 2, &n_bytes), ATTN_OK);
    void *scratch = need_memory(n_bytes);
    attn_forward_many(NULL, 0, NULL, scratch, NULL, NULL);
    free(scratch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("many");
    TCase *tcase = tcase_create("many");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    tcase_add_loop_test(tcase, random_calls, ROUTING_MHA, N_PRESETS);
    tcase_add_loop_test(tcase, steps_after, 0, N_NORMS * N_MODULES);
    tcase_add_test(tcase, a_mate_fails);
    tcase_add_test(tcase, costs);
    tcase_add_test(tcase, no_plans);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
