/* test_long.c - calls whose tasks would be long attend to some keys at a time: not a bit changes by that. */
#include "plan.h"
#include "unit/lib/causal_modules.h"
#include "unit/lib/many_calls.h"

/* Every output, or the main one alone. */
static attn_plan *plan_of(const attn_layer *layer, const struct attn_named_tensor *inputs,
                          size_t n_inputs, bool attention)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const char *const names[] = {spec->output, spec->attention};
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_plan_create(layer, NULL, inputs, n_inputs, names,
                                    attention ? 2 : 1, &plan, &error),
                  "%s", error.message);
    return plan;
}

/* As the plan is, and with all keys at a time. */
static void check(attn_plan *plan)
{
    struct attn_error errors[2] = {{0}};
    ck_assert_uint_lt(plan->rounds.n_seen, plan->n_keys);
    ck_assert(!plan->rounds.by_head);
    struct outputs *parts = run_alone(&plan, 1, &errors[0]);
    struct outputs *joined = run_joined(&plan, 1, 3, &errors[1]);
    plan->rounds.n_seen = plan->n_keys;
    struct outputs *whole = run_alone(&plan, 1, &errors[0]);
    ck_assert(!errors[0].status && !errors[1].status);
    check_same_outputs(&plan, parts, whole, errors, "in parts");
    check_same_outputs(&plan, joined, whole, errors, "in company");
    outputs_free(parts);
    outputs_free(joined);
    outputs_free(whole);
    attn_plan_free(plan);
}

/* Many queries, some keys blocked, of which one query has none that is open. */
START_TEST(many_queries)
{
    enum { BATCH = 2, QUERIES = 1024, KEYS = 3300, WIDTH = 128 };
    struct dice dice = {1 + (uint64_t)_i};
    struct attn_spec spec = good_spec(
        "speech_mha", LIST(attn_int("num_heads", 2), attn_int("d_model", WIDTH)));
    struct made made = make_layer(&spec, &dice);
    struct call call = {.n = 0};
    const size_t query[] = {BATCH, QUERIES, WIDTH}, key[] = {BATCH, KEYS, WIDTH},
                 scores[] = {BATCH, QUERIES, KEYS};
    call_add_reals(&call, &dice, "q", 3, query);
    call_add_reals(&call, &dice, "k", 3, key);
    call_add_reals(&call, &dice, "v", 3, key);
    unsigned char *mask = call_add(&call, "mask", ATTN_BOOL, 3, scores);
    for (size_t i = 0; i < (size_t)BATCH * QUERIES * KEYS; i++) {
        mask[i] = i / KEYS != 5 && i % 7 != 0;
    }
    check(plan_of(made.layer, call.inputs, call.n, _i != 0));
    call_free(&call);
    made_free(&made);
}
END_TEST

/* Under a causal mask some tasks see nothing of some keys. */
START_TEST(many_positions)
{
    enum { LENGTH = 3300, WIDTH = 64 };
    struct dice dice = {3 + (uint64_t)_i};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(LENGTH, 1, WIDTH, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    struct call call = {.n = 0};
    const size_t shape[] = {9, LENGTH, WIDTH};
    call_add_reals(&call, &dice, "input", 3, shape);
    check(plan_of(made.layer, call.inputs, call.n, false));
    call_free(&call);
    made_free(&made);
}
END_TEST

/* One query of many samples. */
START_TEST(many_keys)
{
    enum { BATCH = 8, KEYS = 12000, WIDTH = 64 };
    struct dice dice = {4 + (uint64_t)_i};
    struct attn_spec spec = good_spec(
        "routing_mha", LIST(attn_int("n_heads", 8), attn_int("embedding_dim", WIDTH)));
    struct made made = make_layer(&spec, &dice);
    struct call call = {.n = 0};
    const size_t query[] = {BATCH, 1, WIDTH}, key[] = {BATCH, KEYS, WIDTH};
    call_add_reals(&call, &dice, "query", 3, query);
    const float *data = call_add_reals(&call, &dice, "key", 3, key);
    const struct attn_named_tensor inputs[] = {
        call.inputs[0],
        call.inputs[1],
        {"value", {ATTN_F32, 3, {BATCH, KEYS, WIDTH}, data}}};
    check(plan_of(made.layer, inputs, 3, false));
    call_free(&call);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("long");
    TCase *tcase = tcase_create("long");
    tcase_set_timeout(tcase, 300); /* sanitizers are slow */
    tcase_add_loop_test(tcase, many_queries, 0, 2);
    tcase_add_test(tcase, many_positions);
    tcase_add_test(tcase, many_keys);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
