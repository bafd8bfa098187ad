/* test_cache_plan.c - calls of sequences that are refused, fail or are never run: the sequence is then as it
 * was before. */
#include "unit/lib/causal_modules.h"
#include "unit/lib/failing_malloc.h"
#include "unit/lib/sequences.h"
#include "unit/lib/written_inputs.h"

struct bad {
    const char *inputs;
    enum attn_status status;
    const char *field, *part; /* of the message */
};

static void check_bad(attn_cache *cache, const struct bad *cases, size_t n_cases)
{
    size_t length = attn_cache_length(cache), n_bytes = attn_cache_bytes(cache);
    for (size_t i = 0; i < n_cases; i++) {
        struct written written;
        read_written(&written, cases[i].inputs);
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        enum attn_status status =
            attn_cache_plan(cache, written.inputs, written.n, NULL, 0, &plan, &error);
        ck_assert_msg(status == cases[i].status && error.status == status,
                      "%s: status %d: %s", cases[i].inputs, status, error.message);
        ck_assert_msg(strcmp(error.field, cases[i].field) == 0, "%s: field %s",
                      cases[i].inputs, error.field);
        ck_assert_msg(strstr(error.message, cases[i].part) != NULL,
                      "%s: expected '%s' in: %s", cases[i].inputs, cases[i].part,
                      error.message);
        ck_assert(plan == NULL);
        ck_assert_uint_eq(attn_cache_length(cache), length);
        ck_assert_uint_eq(attn_cache_bytes(cache), n_bytes);
    }
}

static struct made make_causal(struct dice *dice, const char *normalisation)
{
    const struct module none = module_at(0), norm = module_at(normalisation ? 1 : 0);
    struct attn_spec spec = causal_spec(100, 2, 3, 0, true, &norm, &none);
    return make_layer(&spec, dice);
}

/* ---- refusals ------------------------------------------------------------------------------ */

START_TEST(growing_refusals)
{
    static const struct bad at_start[] = {
        {"", ATTN_MISSING, "input", "missing"},
        {"input F32 2 3 7", ATTN_SHAPE, "input", "expected [batch, length, 6]"},
        {"input F32 2 0 6", ATTN_SHAPE, "input", "expected at least 1 position, got 0"},
        {"input F32 2 101 6", ATTN_SHAPE, "input",
         "expected at most 100 more positions, of 100 that there may be, since 0 are "
         "kept, got 101"}};
    static const struct bad later[] = {
        {"input F32 3 1 6", ATTN_SHAPE, "input",
         "expected a batch of 2, as the sequence has, got 3"},
        {"input F32 2 0 6", ATTN_SHAPE, "input", "expected at least 1 position, got 0"},
        {"input F32 2 31 6", ATTN_SHAPE, "input",
         "expected at most 30 more positions, of 100 that there may be, since 70 are "
         "kept, got 31"}};
    for (size_t norm = 0; norm < 2; norm++) {
        struct dice dice = {1};
        struct made made = make_causal(&dice, norm ? "BatchNorm" : NULL);
        struct tokens tokens = tokens_make(&dice, 2, 100, 6);
        attn_cache *cache = cache_make(made.layer);
        check_bad(cache, at_start, COUNT(at_start));
        outputs_free(grow(cache, &tokens, 0, 70));
        check_bad(cache, later, COUNT(later));
        outputs_free(grow(cache, &tokens, 70, 30));
        attn_cache_free(cache);
        tokens_free(&tokens);
        made_free(&made);
    }
}
END_TEST

START_TEST(context_refusals)
{
    static const struct bad at_start[] = {
        {"k F32 2 5 8; v F32 2 5 8", ATTN_MISSING, "q", "missing"},
        {"q F32 2 3 8; v F32 2 5 8", ATTN_MISSING, "k", "missing"},
        {"q F32 2 0 8; k F32 2 5 8; v F32 2 5 8", ATTN_SHAPE, "q",
         "expected at least 1 position, got 0"},
        {"q F32 0 3 8; k F32 0 5 8; v F32 0 5 8", ATTN_SHAPE, "q",
         "expected at least 1 sample, got 0"},
        {"q F32 2 3 8; k F32 3 5 8; v F32 3 5 8", ATTN_SHAPE, "k",
         "expected a batch of 2, as 'q' has, got 3"}};
    static const struct bad later[] = {
        {"q F32 2 3 8; k F32 2 5 8", ATTN_INVALID, "k",
         "the sequence keeps 5 of them since its start, so it may not be given again"},
        {"q F32 2 3 8; v F32 2 5 8", ATTN_INVALID, "v", "may not be given again"},
        {"q F32 3 3 8", ATTN_SHAPE, "q",
         "input 'q': does not fit what the sequence keeps: input 'k': expected a batch "
         "of "
         "3, as 'q' has, got 2"},
        {"q F32 2 3 7", ATTN_SHAPE, "q", "expected [batch, length, 8]"},
        {"q F32 2 3 8; mask BOOL 2 3 6", ATTN_SHAPE, "mask", "keys=5"}};
    struct dice dice = {2};
    struct attn_spec spec =
        good_spec("speech_mha", LIST(attn_int("num_heads", 2), attn_int("d_model", 8)));
    struct made made = make_layer(&spec, &dice);
    attn_cache *cache = cache_make(made.layer);
    check_bad(cache, at_start, COUNT(at_start));
    float data[2 * 5 * 8];
    dice_fill(&dice, data, COUNT(data), 1);
    const struct attn_named_tensor inputs[] = {{"q", {ATTN_F32, 3, {2, 3, 8}, data}},
                                               {"k", {ATTN_F32, 3, {2, 5, 8}, data}},
                                               {"v", {ATTN_F32, 3, {2, 5, 8}, data}}};
    attn_plan *plan = cache_plan(cache, inputs, 3);
    outputs_free(run_one(plan));
    attn_plan_free(plan);
    ck_assert_uint_eq(attn_cache_length(cache), 5);
    check_bad(cache, later, COUNT(later));
    attn_cache_free(cache);
    made_free(&made);
}
END_TEST

/* A layer whose positions see those that follow. */
START_TEST(without_a_mask)
{
    struct dice dice = {3};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(10, 2, 3, 0, false, &none, &none);
    struct made made = make_layer(&spec, &dice);
    struct attn_error error = {0};
    attn_cache *cache = NULL;
    ck_assert_int_eq(attn_cache_create(made.layer, &cache, &error), ATTN_INVALID);
    ck_assert_str_eq(error.field, "sequence");
    ck_assert_str_eq(error.message,
                     "a sequence of causal_mha: without a causal mask every position "
                     "attends to those that follow, so it cannot grow");
    ck_assert(!cache);
    made_free(&made);
}
END_TEST

/* ---- plans --------------------------------------------------------------------------------- */

START_TEST(one_call_at_a_time)
{
    struct dice dice = {4};
    struct made made = make_causal(&dice, NULL);
    struct tokens tokens = tokens_make(&dice, 1, 100, 6);
    const struct attn_named_tensor input = tokens_at(&tokens, 0, 5);
    attn_cache *cache = cache_make(made.layer);
    struct attn_error error = {0}, again = {0};
    attn_plan *plan = cache_plan(cache, &input, 1), *other = NULL;
    ck_assert_int_eq(attn_cache_plan(cache, &input, 1, NULL, 0, &other, &error),
                     ATTN_INVALID);
    ck_assert_str_eq(error.message,
                     "a sequence has one call at a time, and one is under way");
    outputs_free(run_one(plan));
    ck_assert_uint_eq(attn_cache_length(cache), 5);
    /* it has been run: not once more */
    outputs_free(run_alone(&plan, 1, &again));
    ck_assert_int_eq(again.status, ATTN_INVALID);
    ck_assert_str_eq(again.message, "a call of a sequence has been run already");
    ck_assert_uint_eq(attn_cache_length(cache), 5);
    attn_plan_free(plan);
    /* one that is freed unused */
    attn_plan_free(cache_plan(cache, &input, 1));
    ck_assert_uint_eq(attn_cache_length(cache), 5);
    outputs_free(grow(cache, &tokens, 5, 90));
    attn_cache_free(cache);
    tokens_free(&tokens);
    made_free(&made);
}
END_TEST

/* A first call whose edges are wrong keeps nothing. */
START_TEST(a_failure_keeps_nothing)
{
    struct dice dice = {5};
    struct attn_spec spec =
        good_spec("relational_mha",
                  LIST(attn_int("num_heads", 1), attn_int("num_edge_types", 2),
                       attn_int("key_query_dimension", 4), attn_int("value_dimension", 4),
                       attn_int("output_dimension", 4), attn_real("dropout_rate", 0)));
    struct made made = make_layer(&spec, &dice);
    float data[3 * 4];
    dice_fill(&dice, data, COUNT(data), 1);
    int64_t edges[] = {0, 1, 3}, types[] = {0};
    const struct attn_named_tensor inputs[] = {
        {"queries", {ATTN_F32, 4, {1, 3, 1, 4}, data}},
        {"keys", {ATTN_F32, 4, {1, 3, 1, 4}, data}},
        {"values", {ATTN_F32, 4, {1, 3, 1, 4}, data}},
        {"edges", {ATTN_I64, 2, {1, 3}, edges}},
        {"edge_types", {ATTN_I64, 1, {1}, types}}};
    attn_cache *cache = cache_make(made.layer);
    for (size_t joined = 0; joined < 2; joined++) {
        struct attn_error error = {0};
        attn_plan *plan = cache_plan(cache, inputs, 5);
        outputs_free(joined ? run_joined(&plan, 1, 1, &error)
                            : run_alone(&plan, 1, &error));
        ck_assert_int_eq(error.status, ATTN_RANGE);
        ck_assert_uint_eq(attn_cache_length(cache), 0);
        attn_plan_free(plan);
    }
    edges[2] = 2;
    attn_plan *plan = cache_plan(cache, inputs, 5);
    outputs_free(run_one(plan));
    ck_assert_uint_eq(attn_cache_length(cache), 3);
    attn_plan_free(plan);
    attn_cache_free(cache);
    made_free(&made);
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

/* Each allocation fails once: nothing is left over, and the sequence goes on as if nothing had been. */
START_TEST(allocations_fail)
{
    struct dice dice = {6};
    struct made made = make_causal(&dice, NULL);
    struct tokens tokens = tokens_make(&dice, 2, 100, 6);
    attn_cache *cache = cache_make(made.layer), *other = NULL;
    outputs_free(grow(cache, &tokens, 0, 30));
    attn_cache *fork = cache_fork(cache); /* so that a page has to be copied */
    const struct attn_named_tensor input = tokens_at(&tokens, 30, 60);
    bool failed = FAILING_MALLOC;
    size_t n = 0, n_bytes = attn_cache_bytes(cache);
    for (; failed; n++) {
        struct attn_error error = {0};
        attn_plan *plan = NULL;
        long n_live = 0;
        failing_malloc_begin(n);
        enum attn_status status =
            attn_cache_plan(cache, &input, 1, NULL, 0, &plan, &error);
        attn_plan_free(plan);
        failed = failing_malloc_end(&n_live);
        ck_assert_int_eq(status, failed ? ATTN_NO_MEMORY : ATTN_OK);
        ck_assert_int_eq(n_live, 0);
        ck_assert_uint_eq(attn_cache_length(cache), 30);
        ck_assert_uint_eq(attn_cache_bytes(cache), n_bytes);
    }
    ck_assert(!FAILING_MALLOC || n == 5); /* plan, list, two pages, none */
    for (size_t k = 0; FAILING_MALLOC && k < 3; k++) {
        struct attn_error error = {0};
        long n_live = 0;
        failing_malloc_begin(k % 2);
        enum attn_status status = k < 2 ? attn_cache_fork(cache, &other, &error)
                                        : attn_cache_create(made.layer, &other, &error);
        ck_assert(failing_malloc_end(&n_live) && n_live == 0 && !other);
        ck_assert_int_eq(status, ATTN_NO_MEMORY);
    }
    outputs_free(grow(cache, &tokens, 30, 60));
    outputs_free(grow(fork, &tokens, 30, 60));
    attn_cache_free(cache);
    attn_cache_free(fork);
    attn_cache_free(NULL);
    tokens_free(&tokens);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_plan");
    TCase *tcase = tcase_create("cache_plan");
    tcase_add_test(tcase, growing_refusals);
    tcase_add_test(tcase, context_refusals);
    tcase_add_test(tcase, without_a_mask);
    tcase_add_test(tcase, one_call_at_a_time);
    tcase_add_test(tcase, a_failure_keeps_nothing);
    tcase_add_test(tcase, allocations_fail);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
