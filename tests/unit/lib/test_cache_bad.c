/* test_cache_bad.c - states that no cache of the layer would have, from wherever they come, and memory that runs
 * out. */
#include "unit/lib/causal_modules.h"
#include "unit/lib/failing_malloc.h"
#include "unit/lib/sequences.h"

/* ---- what is refused ----------------------------------------------------------------------- */

struct bad {
    const char *what; /* part of the message */
    const char *field;
    enum attn_status status;
    bool grows;
    size_t n_tensors;
    enum attn_dtype dtype; /* of the key */
    size_t rank, key[5], value[5];
};

static void check_refused(const attn_layer *layer, const struct bad *bad)
{
    static const float zeros[4096];
    struct attn_cache_state state = {
        .size = sizeof state,
        .grows = bad->grows,
        .n_tensors = bad->n_tensors,
        .key = {.dtype = bad->dtype, .rank = bad->rank, .data = zeros},
        .value = {.dtype = ATTN_F32, .rank = 4, .data = zeros}};
    memcpy(state.key.shape, bad->key, sizeof bad->key);
    memcpy(state.value.shape, bad->value, sizeof bad->value);
    struct attn_error error = {0};
    attn_cache *cache = NULL;
    ck_assert_int_eq(attn_cache_import(layer, &state, &cache, &error), bad->status);
    ck_assert_ptr_null(cache);
    ck_assert_int_eq(error.status, bad->status);
    ck_assert_str_eq(error.field, bad->field);
    ck_assert_msg(strstr(error.message, bad->what), "'%s' is not in '%s'", bad->what,
                  error.message);
}

#define HUGE_SIZE ((size_t)1 << 62)

static const struct bad bad_growing[] = {
    {"expected a sequence that grows, got a context",
     "kind",
     ATTN_INVALID,
     false,
     2,
     ATTN_F32,
     4,
     {1, 2, 3, 4},
     {1, 2, 3, 4}},
    {"expected keys and values of causal_mha, got 1",
     "value",
     ATTN_INVALID,
     true,
     1,
     ATTN_F32,
     4,
     {1, 2, 3, 4},
     {1, 2, 3, 4}},
    {"expected type F32, got F16",
     "key",
     ATTN_DTYPE,
     true,
     2,
     ATTN_F16,
     4,
     {1, 2, 3, 4},
     {1, 2, 3, 4}},
    {"heads=2, positions, width=4], got [1, 2, 3]",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     3,
     {1, 2, 3},
     {1, 2, 3, 4}},
    {"got [1, 3, 3, 4]",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {1, 3, 3, 4},
     {1, 2, 3, 4}},
    {"got [1, 2, 3, 5]",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {1, 2, 3, 5},
     {1, 2, 3, 4}},
    {"got [1, 2, 3, 8]",
     "value",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {1, 2, 3, 4},
     {1, 2, 3, 8}},
    {"got [0, 2, 3, 4]",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {0, 2, 3, 4},
     {0, 2, 3, 4}},
    {"expected a batch of 2, as key has, got 1",
     "value",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {2, 2, 3, 4},
     {1, 2, 3, 4}},
    {"expected 3 positions, as key has, got 2",
     "value",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {2, 2, 3, 4},
     {2, 2, 2, 4}},
    {"expected at least 1 position, got 0",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {2, 2, 0, 4},
     {2, 2, 0, 4}},
    {"expected at most 100 positions, which the layer serves, got 101",
     "key",
     ATTN_SHAPE,
     true,
     2,
     ATTN_F32,
     4,
     {1, 2, 101, 4},
     {1, 2, 101, 4}},
    {"more bytes than can be counted",
     "key",
     ATTN_TOO_LARGE,
     true,
     2,
     ATTN_F32,
     4,
     {HUGE_SIZE, 2, 3, 4},
     {HUGE_SIZE, 2, 3, 4}},
};

START_TEST(bad_growing_is_refused)
{
    struct dice dice = {1};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(100, 2, 4, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    for (size_t i = 0; i < COUNT(bad_growing); i++) {
        check_refused(made.layer, &bad_growing[i]);
    }
    made_free(&made);
}
END_TEST

static const struct bad bad_context[] = {
    {"expected a context that stays, got a sequence that grows",
     "kind",
     ATTN_INVALID,
     true,
     2,
     ATTN_F32,
     4,
     {1, 2, 3, 4},
     {1, 2, 3, 4}},
    {"got [1, 2, 3, 4, 1]",
     "key",
     ATTN_SHAPE,
     false,
     2,
     ATTN_F32,
     5,
     {1, 2, 3, 4, 1},
     {1, 2, 3, 4}},
    {"expected 3 positions, as key has, got 0",
     "value",
     ATTN_SHAPE,
     false,
     2,
     ATTN_F32,
     4,
     {1, 2, 3, 4},
     {1, 2, 0, 4}},
    /* keys and values are projected from one input, so they have one batch */
    {"expected a batch of 2, as key has, got 1",
     "value",
     ATTN_SHAPE,
     false,
     2,
     ATTN_F32,
     4,
     {2, 2, 3, 4},
     {1, 2, 3, 4}},
};

START_TEST(bad_context_is_refused)
{
    struct dice dice = {1};
    struct attn_spec spec = good_spec(
        "routing_mha_proj", LIST(attn_int("embedding_dim", 8), attn_int("n_heads", 2)));
    struct made made = make_layer(&spec, &dice);
    for (size_t i = 0; i < COUNT(bad_context); i++) {
        check_refused(made.layer, &bad_context[i]);
    }
    made_free(&made);
}
END_TEST

START_TEST(others_are_refused)
{
    static const struct bad of_scores = {"expected [..., positions, width], got [3]",
                                         "key",
                                         ATTN_SHAPE,
                                         false,
                                         1,
                                         ATTN_F32,
                                         1,
                                         {3},
                                         {0}},
                            of_uncausal = {"so it cannot grow",
                                           "sequence",
                                           ATTN_INVALID,
                                           true,
                                           2,
                                           ATTN_F32,
                                           4,
                                           {1, 1, 1, 4},
                                           {1, 1, 1, 4}};
    struct dice dice = {1};
    const struct module none = module_at(0);
    struct attn_spec specs[] = {good_spec("routing_score", NULL, 0),
                                causal_spec(10, 1, 4, 0, false, &none, &none),
                                causal_spec(10, 1, 4, 0, true, &none, &none)};
    struct made made[] = {make_layer(&specs[0], &dice), make_layer(&specs[1], &dice),
                          make_layer(&specs[2], &dice)};
    check_refused(made[0].layer, &of_scores);
    check_refused(made[1].layer, &of_uncausal);
    struct attn_cache_state state = {.size = 1};
    struct attn_error error = {0};
    attn_cache *cache = NULL;
    ck_assert_int_eq(attn_cache_import(made[2].layer, &state, &cache, &error),
                     ATTN_INVALID);
    ck_assert_str_eq(error.field, "size");
    attn_error_clear(&error);
    cache = cache_make(made[2].layer);
    ck_assert_int_eq(attn_cache_describe(cache, &state, &error), ATTN_INVALID);
    ck_assert_str_eq(error.field, "size");
    attn_error_clear(&error);
    state.size = sizeof state;
    ck_assert_int_eq(attn_cache_describe(cache, &state, &error), ATTN_INVALID);
    ck_assert(strstr(error.message, "keeps nothing yet"));
    attn_cache_free(cache);
    for (size_t i = 0; i < COUNT(made); i++) {
        made_free(&made[i]);
    }
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

START_TEST(every_allocation_fails)
{
    static const float zeros[2 * 130 * 4];
    struct dice dice = {1};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(200, 2, 4, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    const struct attn_tensor tensor = {ATTN_F32, 4, {1, 2, 130, 4}, zeros};
    const struct attn_cache_state state = {sizeof state, true, 2, tensor, tensor};
    size_t n = 0;
    for (bool failed = FAILING_MALLOC; failed; n++) {
        struct attn_error error = {0};
        attn_cache *cache = NULL;
        long n_live;
        failing_malloc_begin(n);
        enum attn_status status = attn_cache_import(made.layer, &state, &cache, &error);
        attn_cache_free(cache);
        failed = failing_malloc_end(&n_live);
        ck_assert_int_eq(status, failed ? ATTN_NO_MEMORY : ATTN_OK);
        ck_assert_int_eq(error.status, status);
        ck_assert_int_eq(n_live, 0);
    }
    /* cache, plan, list and three pages */
    ck_assert(!FAILING_MALLOC || n > 6);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_bad");
    TCase *tcase = tcase_create("cache_bad");
    tcase_add_test(tcase, bad_growing_is_refused);
    tcase_add_test(tcase, bad_context_is_refused);
    tcase_add_test(tcase, others_are_refused);
    tcase_add_test(tcase, every_allocation_fails);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
