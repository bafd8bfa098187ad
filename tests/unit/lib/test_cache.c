/* test_cache.c - sequences that keep their keys and values: what they give is what a call over everything
 * gives. */
#include "unit/lib/causal_modules.h"
#include "unit/lib/random_call.h"
#include "unit/lib/sequences.h"

/* Sums are cut at other places than in one call: a few roundings of float at numbers near 1, which a
 * normalisation may divide by a deviation of 0.5. */
#define TOLERANCE 2e-5

/* ---- growing ------------------------------------------------------------------------------- */

static void check_near(double got, double expected, const char *what, size_t at)
{
    ck_assert_msg(fabs(got - expected) <= TOLERANCE * (1 + fabs(expected)),
                  "%s: element %zu: expected %.9g, got %.9g", what, at, expected, got);
}

/* The outputs of positions [first, first + n) against those of a call over all `length`. */
static void check_part(const struct tokens *tokens, size_t n_heads, size_t first,
                       size_t n, const struct outputs *part, const struct outputs *whole)
{
    size_t width = tokens->width, length = tokens->length, seen = first + n;
    for (size_t b = 0; b < tokens->batch; b++) {
        for (size_t i = 0; i < n * width; i++) {
            check_near((double)part->memory[0][0][b * n * width + i],
                       (double)whole->memory[0][0][(b * length + first) * width + i],
                       "output", i);
        }
    }
    for (size_t row = 0; row < tokens->batch * n_heads * n; row++) {
        const float *all =
            whole->memory[0][1] + (row / n * length + first + row % n) * length;
        for (size_t j = 0; j < length; j++) {
            check_near(j < seen ? (double)part->memory[0][1][row * seen + j] : 0,
                       (double)all[j], "attention", j);
        }
    }
}

static void check_growth(struct dice *dice, const struct attn_spec *spec, size_t batch,
                         size_t length)
{
    static const size_t steps[] = {1, 2, 3, 5, 7, 31, 64, 65};
    struct made made = make_layer(spec, dice);
    size_t width = spec->fused.n_in;
    struct tokens tokens = tokens_make(dice, batch, length, width);
    const struct attn_named_tensor all = tokens_at(&tokens, 0, length);
    attn_plan *plan = whole_plan(made.layer, &all, 1);
    struct outputs *whole = run_one(plan);
    attn_cache *cache = cache_make(made.layer);
    ck_assert(attn_cache_grows(cache));
    for (size_t first = 0, n; first < length; first += n) {
        n = steps[dice_below(dice, COUNT(steps))];
        n = n < length - first ? n : length - first;
        struct outputs *part = grow(cache, &tokens, first, n);
        check_part(&tokens, spec->n_heads, first, n, part, whole);
        outputs_free(part);
    }
    attn_cache_free(cache);
    outputs_free(whole);
    attn_plan_free(plan);
    tokens_free(&tokens);
    made_free(&made);
}

START_TEST(grows_as_one_call)
{
    static const size_t widths[] = {1, 3, 16, 32, 64}, heads[] = {1, 2, 5};
    struct dice dice = {1 + (uint64_t)_i};
    for (size_t round = 0; round < 5; round++) {
        const struct module none = module_at(0);
        struct attn_spec spec = causal_spec(200, heads[dice_below(&dice, COUNT(heads))],
                                            widths[dice_below(&dice, COUNT(widths))], 0.5,
                                            true, &none, &none);
        check_growth(&dice, &spec, 1 + dice_below(&dice, 9), 1 + dice_below(&dice, 200));
    }
}
END_TEST

/* Steps after the heads take the parameters of their positions. */
START_TEST(grows_with_steps)
{
    enum { LENGTH = 70 };
    struct dice dice = {3 + (uint64_t)_i};
    const struct module normalisation = module_at((size_t)_i % N_NORMS),
                        activation = module_at((size_t)_i / N_NORMS);
    struct attn_spec spec =
        causal_spec(LENGTH, 2, 4, 0, true, &normalisation, &activation);
    if (is_apart(&normalisation) && is_apart(&activation)) {
        check_growth(&dice, &spec, 2, LENGTH);
        return;
    }
    struct made made = make_layer(&spec, &dice);
    struct attn_error error = {0};
    attn_cache *cache = NULL;
    ck_assert_int_eq(attn_cache_create(made.layer, &cache, &error), ATTN_INVALID);
    ck_assert_str_eq(error.field, "sequence");
    ck_assert(strstr(error.message, "so it cannot grow"));
    ck_assert(!cache);
    made_free(&made);
}
END_TEST

/* An infinite value reaches nobody before it, and in a page beside finite ones nobody who does not see it. */
START_TEST(grows_past_infinity)
{
    struct dice dice = {5};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(100, 1, 8, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    struct tokens tokens = tokens_make(&dice, 1, 100, 8);
    tokens.all[90 * 8] = INFINITY;
    attn_cache *cache = cache_make(made.layer);
    outputs_free(grow(cache, &tokens, 0, 60));
    struct outputs *part = grow(cache, &tokens, 60, 40);
    for (size_t i = 0; i < 30 * 8; i++) {
        ck_assert(isfinite(part->memory[0][0][i]));
    }
    outputs_free(part);
    attn_cache_free(cache);
    tokens_free(&tokens);
    made_free(&made);
}
END_TEST

/* ---- company ------------------------------------------------------------------------------- */

/* Steps of many sequences, and calls that have none, in one pass: the bits of each alone. */
START_TEST(steps_join)
{
    struct dice dice = {13 + (uint64_t)_i};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(300, 2, _i % 2 ? 32 : 5, 0, true, &none, &none);
    spec.weights_dtype = _i % 3 ? ATTN_STORE_F32 : ATTN_STORE_BF16;
    struct made made = make_layer(&spec, &dice);
    struct tokens tokens[MOST_CALLS];
    attn_cache *caches[2][MOST_CALLS] = {{NULL}};
    attn_plan *plans[2][MOST_CALLS];
    for (size_t p = 0; p < MOST_CALLS; p++) {
        size_t kept = dice_below(&dice, 3) ? dice_below(&dice, 200) : 0;
        size_t n = dice_below(&dice, 3) ? 1 : 1 + dice_below(&dice, 80);
        tokens[p] =
            tokens_make(&dice, 1 + dice_below(&dice, 2), kept + n, spec.fused.n_in);
        caches[0][p] = cache_make(made.layer);
        if (kept > 0) {
            outputs_free(grow(caches[0][p], &tokens[p], 0, kept));
        }
        const struct attn_named_tensor input = tokens_at(&tokens[p], kept, n);
        caches[1][p] = cache_fork(caches[0][p]);
        for (size_t k = 0; k < 2; k++) {
            plans[k][p] = p % 4 == 3 ? whole_plan(made.layer, &input, 1)
                                     : cache_plan(caches[k][p], &input, 1);
        }
    }
    struct attn_error errors[MOST_CALLS] = {{0}};
    struct outputs *alone = run_alone(plans[0], MOST_CALLS, errors);
    struct outputs *joined = run_joined(plans[1], MOST_CALLS, (size_t)_i % 4, errors);
    for (size_t p = 0; p < MOST_CALLS; p++) {
        ck_assert_msg(!errors[p].status, "%s", errors[p].message);
    }
    check_same_outputs(plans[0], joined, alone, errors, "steps");
    for (size_t p = 0; p < MOST_CALLS; p++) {
        ck_assert_uint_eq(attn_cache_length(caches[0][p]),
                          attn_cache_length(caches[1][p]));
        for (size_t k = 0; k < 2; k++) {
            attn_plan_free(plans[k][p]);
            attn_cache_free(caches[k][p]);
        }
        tokens_free(&tokens[p]);
    }
    outputs_free(alone);
    outputs_free(joined);
    made_free(&made);
}
END_TEST

/* ---- forks --------------------------------------------------------------------------------- */

/* Forks share what they have, each goes on by itself, and they may be freed in any order. */
START_TEST(forks_part)
{
    struct dice dice = {17};
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(200, 2, 8, 0, true, &none, &none);
    struct made made = make_layer(&spec, &dice);
    struct tokens one = tokens_make(&dice, 2, 200, 16),
                  other = tokens_make(&dice, 2, 200, 16);
    for (size_t b = 0; b < 2; b++) {
        memcpy(other.all + b * 200 * 16, one.all + b * 200 * 16,
               100 * 16 * sizeof(float));
    }
    attn_cache *caches[3] = {cache_make(made.layer)};
    outputs_free(grow(caches[0], &one, 0, 100));
    caches[1] = cache_fork(caches[0]);
    caches[2] = cache_fork(caches[1]);
    ck_assert_uint_eq(caches[0]->n_pages, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_ptr_eq(caches[0]->pages[i], caches[2]->pages[i]);
    }
    outputs_free(grow(caches[0], &one, 100, 3));
    outputs_free(grow(caches[1], &other, 100, 3));
    ck_assert_ptr_eq(caches[0]->pages[0], caches[1]->pages[0]);
    ck_assert_ptr_ne(caches[0]->pages[1], caches[1]->pages[1]);
    /* the last one has its page for itself by now, and writes to it */
    struct attni_page *last = caches[2]->pages[1];
    outputs_free(grow(caches[2], &other, 100, 3));
    ck_assert_ptr_eq(caches[2]->pages[1], last);
    const struct tokens *all[] = {&one, &other, &other};
    for (size_t c = 0; c < 3; c++) {
        const struct attn_named_tensor input = tokens_at(all[c], 0, 200);
        attn_plan *plan = whole_plan(made.layer, &input, 1);
        struct outputs *whole = run_one(plan), *part = grow(caches[c], all[c], 103, 97);
        check_part(all[c], 2, 103, 97, part, whole);
        outputs_free(part);
        outputs_free(whole);
        attn_plan_free(plan);
        attn_cache_free(caches[c]);
    }
    tokens_free(&one);
    tokens_free(&other);
    made_free(&made);
}
END_TEST

/* ---- a context that stays ------------------------------------------------------------------ */

/* The same keys and values for both calls; one that left them out has the queries of the first. */
static void share_keys(const struct attn_spec *spec, const struct call *from,
                       struct call *to)
{
    const char *names[] = {spec->key, spec->value};
    size_t n_names = strcmp(spec->key, spec->value) == 0 || !spec->value[0] ? 1 : 2;
    for (size_t i = 0; i < n_names; i++) {
        const struct attn_tensor *tensor = call_find(from, names[i]);
        tensor = tensor ? tensor : call_find(from, spec->query);
        for (size_t k = 0; k < to->n; k++) {
            if (strcmp(to->inputs[k].name, names[i]) == 0) {
                free(to->data[k]);
                to->n--;
                memmove(&to->inputs[k], &to->inputs[k + 1],
                        (to->n - k) * sizeof *to->inputs);
                memmove(&to->data[k], &to->data[k + 1], (to->n - k) * sizeof *to->data);
            }
        }
        void *data = call_add(to, names[i], ATTN_F32, tensor->rank, tensor->shape);
        memcpy(data, tensor->data, count_of(tensor) * sizeof(float));
    }
}

static void check_context(enum preset preset, uint64_t seed)
{
    struct dice dice = {seed};
    struct sizes sizes = small_sizes(&dice), later = sizes;
    sizes.width = later.width = dice_bool(&dice) ? 32 : sizes.width;
    struct attn_spec spec = random_spec(preset, &dice, &sizes);
    struct made made = make_layer(&spec, &dice);
    struct call calls[2] = {{.n = 0}};
    random_call(&calls[0], &spec, &sizes, &dice);
    later.queries = ONE_OF(&dice, 1, 3, 6, 20);
    later.keys = call_find(&calls[0], spec.key) ? sizes.keys : sizes.queries;
    random_call(&calls[1], &spec, &later, &dice);
    share_keys(&spec, &calls[0], &calls[1]);
    attn_cache *cache = cache_make(made.layer);
    ck_assert(!attn_cache_grows(cache));
    for (size_t c = 0; c < 2; c++) {
        struct attn_named_tensor inputs[ATTN_MAX_PORTS];
        struct attn_error error = {0};
        attn_plan *plans[2] = {NULL};
        size_t n = c == 0 ? calls[0].n : without_keys(&spec, &calls[1], inputs);
        if (attn_plan_create(made.layer, NULL, calls[c].inputs, calls[c].n, NULL, 0,
                             &plans[0], &error)) {
            break; /* axes that broadcast fell so that they do not fit */
        }
        attn_plan_free(plans[0]);
        plans[0] = whole_plan(made.layer, calls[c].inputs, calls[c].n);
        plans[1] = cache_plan(cache, c == 0 ? calls[0].inputs : inputs, n);
        struct outputs *whole = run_one(plans[0]), *kept = run_one(plans[1]);
        check_same_outputs(&plans[0], kept, whole, &error, "context");
        ck_assert_uint_eq(attn_cache_length(cache), plans[0]->n_keys);
        outputs_free(whole);
        outputs_free(kept);
        attn_plan_free(plans[0]);
        attn_plan_free(plans[1]);
    }
    attn_cache_free(cache);
    call_free(&calls[0]);
    call_free(&calls[1]);
    made_free(&made);
}

START_TEST(context_as_whole_calls)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        if (_i != CAUSAL_MHA) {
            check_context((enum preset)_i, seed);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *tcase = tcase_create("cache");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    tcase_add_loop_test(tcase, grows_as_one_call, 0, 4);
    tcase_add_loop_test(tcase, grows_with_steps, 0, N_NORMS * N_MODULES);
    tcase_add_test(tcase, grows_past_infinity);
    tcase_add_loop_test(tcase, steps_join, 0, 12);
    tcase_add_test(tcase, forks_part);
    tcase_add_loop_test(tcase, context_as_whole_calls, 0, N_PRESETS);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
