/* test_gradients.c - the gradients of random layers of every preset and random calls to them: blocked
 * rows by either rule, cotangents of the output, of the attention and of both; against derivatives in
 * double precision and central differences, from one key to several tiles. The same bits come out
 * inline, over threads, and from odd addresses. */
#include "unit/lib/gradient_problem.h"

#define N_SMALL 30 /* problems of each preset */

static void pose(struct problem *p, enum preset preset, const struct sizes *s)
{
    unsigned which = preset == ROUTING_SCORE ? 1 : 1 + (unsigned)dice_below(&p->dice, 3);
    p->spec = random_spec(preset, &p->dice, s);
    if (which == 2) {
        /* what is NaN has no differences */
        p->spec.empty_rows = ATTN_EMPTY_ZERO;
    }
    problem_make(p);
    random_call(&p->call, &p->spec, s, &p->dice);
    problem_pose(p, which);
}

START_TEST(small_sizes_by_differences)
{
    for (size_t seed = 0; seed < N_SMALL; seed++) {
        struct problem p = {.dice = {seed * 8 + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        s.full = seed % 5 == 0;
        pose(&p, (enum preset)_i, &s);
        check_problem(&p, 24);
        problem_free(&p);
    }
}
END_TEST

/* Queries and keys around the cuts of the library: 5 queries go another way than 4, 512 keys are a
 * tile, 28 rows a block. Each element against derivatives, a few against differences. */
START_TEST(around_tiles)
{
    static const size_t lengths[][2] = {
        {4, 600}, {70, 600}, {5, 513}, {29, 64}, {261, 40}};
    for (size_t k = 0; k < COUNT(lengths); k++) {
        struct problem p = {.dice = {1000 + 8 * k + (size_t)_i}};
        size_t width = ONE_OF(&p.dice, 3, 5, 8);
        const struct sizes s = {.batch = 2,
                                .queries = lengths[k][0],
                                .keys = lengths[k][1],
                                .heads = 1 + k % 2,
                                .width = width,
                                .value_width = width,
                                .types = 19,
                                .edges = 200,
                                .full = k % 2 == 1};
        pose(&p, (enum preset)_i, &s);
        check_problem(&p, k == 0 ? 2 : 0);
        problem_free(&p);
    }
}
END_TEST

/* Vectors, panels, and what is left over; samples and heads that are taken together. */
START_TEST(around_vectors)
{
    for (size_t k = 0; k < 8; k++) {
        struct problem p = {.dice = {5000 + 8 * k + (size_t)_i}};
        const struct sizes s = {.batch = ONE_OF(&p.dice, 1, 2, 9, 13),
                                .queries = ONE_OF(&p.dice, 1, 3, 4, 5, 15, 30),
                                .keys = ONE_OF(&p.dice, 15, 16, 17, 33, 37),
                                .heads = ONE_OF(&p.dice, 1, 4, 9),
                                .width = ONE_OF(&p.dice, 7, 8, 16, 17, 33),
                                .value_width = ONE_OF(&p.dice, 7, 8, 16, 17, 33),
                                .types = ONE_OF(&p.dice, 2, 16, 17),
                                .edges = 100,
                                .full = k % 2 == 1};
        pose(&p, (enum preset)_i, &s);
        check_problem(&p, 0);
        problem_free(&p);
    }
}
END_TEST

/* A causal layer's only length is that of its input, which then has to be a long one. */
START_TEST(long_causal)
{
    static const size_t lengths[] = {4, 5, 113, 530};
    struct problem p = {.dice = {2000 + (size_t)_i}};
    const struct sizes s = {
        .batch = 2, .queries = lengths[_i], .heads = 2, .width = 5, .plain = true};
    pose(&p, CAUSAL_MHA, &s);
    check_problem(&p, 0);
    problem_free(&p);
}
END_TEST

/* Gradients of parameters: a sum or a mean over the samples, by default as the layer has it; those of
 * inputs are neither. Training freezes the causal layer's biases, which have a derivative all the
 * same. */
START_TEST(reductions)
{
    static const enum attn_reduction kinds[] = {ATTN_REDUCTION_DEFAULT,
                                                ATTN_REDUCTION_SUM, ATTN_REDUCTION_MEAN};
    for (size_t k = 0; k < COUNT(kinds) * 2; k++) {
        struct problem p = {.dice = {3000 + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        s.batch = k / COUNT(kinds) ? 3 : 1;
        pose(&p, (enum preset)_i, &s);
        p.mode.reduction = kinds[k % COUNT(kinds)];
        check_problem(&p, 0);
        problem_free(&p);
    }
}
END_TEST

/* Each gradient alone, beside an output of a forward, is what it is among all. */
static void check_each_alone(const struct problem *p)
{
    struct outcome all = run_mode(p->made.layer, &p->mode, &p->call, NULL, 0, INLINE);
    for (size_t i = 0; i < all.n; i++) {
        const char *const names[] = {all.names[i], p->spec.output};
        for (size_t n = 1; n <= 2; n++) {
            struct outcome one =
                run_mode(p->made.layer, &p->mode, &p->call, names, n, INLINE);
            ck_assert_uint_eq(one.n, n);
            ck_assert_str_eq(one.names[0], all.names[i]);
            ck_assert_msg(memcmp(one.values[0], all.values[i],
                                 count_of(&all.tensors[i]) * sizeof(float)) == 0,
                          "%s differs alone", all.names[i]);
            outcome_free(&one);
        }
    }
    outcome_free(&all);
}

/* Weights kept as bf16: they, and what they are multiplied by, are wrong by 2^-8 of themselves at most,
 * and errors of that size add up over a few products in turn. */
START_TEST(bf16_weights)
{
    static const enum preset kinds[] = {ROUTING_MHA_PROJ, SPEECH_MHA, CAUSAL_MHA,
                                        RELATIONAL_MHA};
    for (size_t k = 0; k < 6; k++) {
        struct problem p = {.dice = {7000 + 8 * k + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        s.width = s.value_width = k % 2 ? 16 : 3;
        p.spec = random_spec(kinds[_i], &p.dice, &s);
        p.spec.weights_dtype = ATTN_STORE_BF16;
        problem_make(&p);
        random_call(&p.call, &p.spec, &s, &p.dice);
        problem_pose(&p, 3);
        whole_backward(&p.whole);
        struct outcome outcome =
            run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
        for (size_t i = 0; i < outcome.n; i++) {
            const struct leaf *leaf = leaf_of(&p, outcome.names[i]);
            check_close(outcome.names[i], outcome.values[i], leaf->slope, leaf->n, 1,
                        2e-2, 1);
        }
        check_ways(p.made.layer, &p.mode, &p.call, NULL, 0, &outcome);
        outcome_free(&outcome);
        problem_free(&p);
    }
}
END_TEST

/* What a forward gives comes with a plan of gradients too. */
static void check_forward(struct problem *p)
{
    const char *const names[] = {p->spec.output, p->spec.attention};
    size_t n = p->spec.attention[0] ? 2 : 1;
    struct outcome outcome =
        run_mode(p->made.layer, &p->mode, &p->call, names, n, INLINE);
    check_ways(p->made.layer, &p->mode, &p->call, names, n, &outcome);
    whole_forward(&p->whole);
    check_close(names[0], outcome.values[0], p->whole.output, p->whole.n_output, 1,
                TOLERANCE, 1);
    if (n == 2) {
        check_close(names[1], outcome.values[1], p->whole.attention, p->whole.n_attention,
                    1, TOLERANCE, 1);
    }
    outcome_free(&outcome);
}

START_TEST(chosen_outputs)
{
    for (size_t k = 0; k < 4; k++) {
        struct problem p = {.dice = {4000 + 8 * k + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        s.keys = k % 2 ? 600 : s.keys; /* more than a tile */
        pose(&p, (enum preset)_i, &s);
        check_each_alone(&p);
        check_forward(&p);
        problem_free(&p);
    }
}
END_TEST

/* ---- samples ----------------------------------------------------------------------------------- */

#define N_SAMPLES 13

/* The call with samples [first, first + n) of its inputs, all of which are floats. */
static struct call some_samples(const struct call *call, size_t first, size_t n)
{
    struct call some = *call;
    for (size_t i = 0; i < some.n; i++) {
        struct attn_tensor *tensor = &some.inputs[i].tensor;
        const float *data = tensor->data;
        tensor->data = data + first * (count_of(tensor) / N_SAMPLES);
        tensor->shape[0] = n;
    }
    return some;
}

/* Gradients of inputs have the same bits for a sample alone and among others. (Where projections go
 * through BLAS, which promises no equal bits, there is nothing to hold.) */
START_TEST(samples_alone)
{
    static const size_t lengths[][2] = {{1, 19}, {4, 40}, {7, 13}, {30, 130}, {113, 17}};
    for (size_t k = 0; attni_kernels()->packs && k < COUNT(lengths); k++) {
        struct problem p = {.dice = {6000 + 8 * k + (size_t)_i}};
        size_t width = ONE_OF(&p.dice, 5, 8, 16, 17);
        const struct sizes s = {.batch = N_SAMPLES,
                                .queries = lengths[k][0],
                                .keys = lengths[k][1],
                                .heads = 1 + k,
                                .width = width,
                                .value_width = width,
                                .types = 1,
                                .plain = true};
        p.spec = random_spec((enum preset)_i, &p.dice, &s);
        p.spec.batch_broadcast = false; /* every input has all samples */
        problem_make(&p);
        random_call(&p.call, &p.spec, &s, &p.dice);
        problem_pose(&p, 3);
        struct outcome all = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
        for (size_t first = 0, n = 1; first < N_SAMPLES; first += n, n = 1 + first % 5) {
            n = n < N_SAMPLES - first ? n : N_SAMPLES - first;
            struct call few = some_samples(&p.call, first, n);
            struct outcome some = run_mode(p.made.layer, &p.mode, &few, NULL, 0, INLINE);
            for (size_t i = 0; i < some.n; i++) {
                size_t n_floats = count_of(&some.tensors[i]);
                bool parameter = strncmp(some.names[i], "grad.", 5) == 0;
                ck_assert_msg(parameter || memcmp(some.values[i],
                                                  all.values[i] + first * (n_floats / n),
                                                  n_floats * sizeof(float)) == 0,
                              "%s of %zu samples from %zu", some.names[i], n, first);
            }
            outcome_free(&some);
        }
        outcome_free(&all);
        problem_free(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients");
    TCase *tcase = tcase_create("gradients");
    tcase_set_timeout(tcase, 300); /* sanitizers are slow */
    tcase_add_loop_test(tcase, small_sizes_by_differences, 0, N_PRESETS);
    tcase_add_loop_test(tcase, around_tiles, 0, N_PRESETS);
    tcase_add_loop_test(tcase, around_vectors, 0, N_PRESETS);
    tcase_add_loop_test(tcase, long_causal, 0, 4);
    tcase_add_loop_test(tcase, reductions, 0, N_PRESETS);
    tcase_add_loop_test(tcase, bf16_weights, 0, 4);
    tcase_add_loop_test(tcase, chosen_outputs, 0, N_PRESETS);
    tcase_add_loop_test(tcase, samples_alone, ROUTING_MHA, N_PRESETS);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
