/* test_training.c - calls in training: dropout by draws that are given and by a seed, of probabilities
 * and of modules; BatchNorm by the statistics of the batch; several draws in one call; and gradients
 * through all of these. Against formulas in double precision that are given the same decisions. */
#include "dropout.h"
#include "unit/lib/causal_modules.h"
#include "unit/lib/gradient_problem.h"

#define SEED 0x123456789abcdef0u

/* ---- problems -------------------------------------------------------------------------------- */

/* A number of [0, 1), now and then the very bound between kept and dropped. */
static float uniform(struct dice *dice, double probability)
{
    float draw = (float)(dice_next(dice) >> 40) / (float)(1 << 24);
    return probability > 0 && dice_below(dice, 50) == 0 ? (float)(1 - probability) : draw;
}

static void add_draws(struct problem *p, const char *name, size_t rank,
                      const size_t *shape, double probability)
{
    float *draws = call_add(&p->call, name, ATTN_F32, rank, shape);
    for (size_t i = 0; i < count_of(&p->call.inputs[p->call.n - 1].tensor); i++) {
        draws[i] = uniform(&p->dice, probability);
    }
}

/* Draws as inputs, wherever something is dropped. */
static void give_draws(struct problem *p)
{
    const struct attn_post_spec *posts[] = {&p->spec.normalisation, &p->spec.activation};
    static const char *const names[] = {"normalisation_uniform", "activation_uniform"};
    add_draws(p, "dropout_uniform", 4, p->whole.attention_shape, p->spec.dropout);
    for (size_t i = 0; i < 2; i++) {
        if (posts[i]->kind == ATTN_POST_DROPOUT) {
            add_draws(p, names[i], 3, p->whole.output_shape, posts[i]->probability);
        }
    }
    whole_train(&p->whole, &p->call);
}

/* What a seed decides of a tensor [samples, heads, rows, columns]. */
static double *seeded_factors(struct problem *p, uint64_t seed, enum attni_stream stream,
                              double probability, const size_t shape[4])
{
    const struct attni_dropout dropout = {
        .probability = probability, .seed = seed, .stream = stream};
    size_t n_rows = shape[0] * shape[1] * shape[2], n = shape[3];
    double *factors = pool_take(&p->whole.kept, n_rows * n);
    float *row = need_memory(n * sizeof *row);
    for (size_t r = 0; r < n_rows; r++) {
        attni_dropout_factors(&dropout, r / shape[2] / shape[1], r / shape[2] % shape[1],
                              r % shape[2], 0, n, row);
        for (size_t k = 0; k < n; k++) {
            factors[r * n + k] = (double)row[k];
        }
    }
    free(row);
    return factors;
}

static void use_seed(struct problem *p, uint64_t seed)
{
    struct whole *w = &p->whole;
    const size_t rows[] = {w->output_shape[0], 1, w->output_shape[1], w->output_shape[2]};
    whole_train(w, &p->call);
    w->o.factors = seeded_factors(p, seed, ATTNI_DRAW_PROBABILITIES, p->spec.dropout,
                                  w->attention_shape);
    for (size_t i = 0; i < 2; i++) {
        if (w->steps[i].spec->kind == ATTN_POST_DROPOUT) {
            w->steps[i].factors = seeded_factors(
                p, seed, i ? ATTNI_DRAW_ACTIVATION : ATTNI_DRAW_NORMALISATION,
                w->steps[i].spec->probability, rows);
        }
    }
    p->mode.seed = seed;
}

static void pose(struct problem *p, enum preset preset, struct sizes *s)
{
    const double rates[] = {0.5, 0.1, 0.75, 0};
    s->dropout = rates[dice_below(&p->dice, COUNT(rates))];
    p->spec = random_spec(preset, &p->dice, s);
    problem_make(p);
    random_call(&p->call, &p->spec, s, &p->dice);
    whole_make(&p->whole, &p->spec, &p->made, &p->call);
    p->mode.training = true;
}

/* A causal layer with modules of its own. */
static void pose_modules(struct problem *p, size_t batch, size_t length, double dropout,
                         size_t normalisation, size_t activation)
{
    struct module first = module_at(normalisation), second = module_at(activation);
    const size_t shape[] = {batch, length, 6};
    p->spec = causal_spec(length, 2, 3, dropout, dice_bool(&p->dice), &first, &second);
    problem_make(p);
    call_add_reals(&p->call, &p->dice, "input", 3, shape);
    whole_make(&p->whole, &p->spec, &p->made, &p->call);
    p->mode.training = true;
}

/* The forward outputs, then the gradients with both cotangents, each in all ways. */
static void check_both(struct problem *p)
{
    const char *const names[] = {p->spec.attention, p->spec.output};
    struct attn_mode forward = p->mode;
    forward.gradient = false;
    forward.reduction = ATTN_REDUCTION_DEFAULT;
    whole_forward(&p->whole);
    struct outcome outcome =
        run_mode(p->made.layer, &forward, &p->call, names, 2, INLINE);
    check_close(names[0], outcome.values[0], p->whole.attention, p->whole.n_attention, 1,
                TOLERANCE, 1);
    check_close(names[1], outcome.values[1], p->whole.output, p->whole.n_output, 1,
                TOLERANCE * whole_magnified(&p->whole), 1);
    check_ways(p->made.layer, &forward, &p->call, names, 2, &outcome);
    outcome_free(&outcome);
    add_cotangents(&p->whole, &p->call, &p->dice, 3);
    check_problem(p, 8);
}

/* ---- dropout --------------------------------------------------------------------------------- */

static const enum preset droppers[] = {SPEECH_MHA, CAUSAL_MHA, RELATIONAL_MHA};

START_TEST(draws_given)
{
    for (size_t seed = 0; seed < 15; seed++) {
        struct problem p = {.dice = {seed * 8 + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        pose(&p, droppers[_i], &s);
        give_draws(&p);
        p.mode.seed = seed; /* counts for nothing */
        check_both(&p);
        problem_free(&p);
    }
}
END_TEST

START_TEST(draws_of_a_seed)
{
    for (size_t seed = 0; seed < 15; seed++) {
        struct problem p = {.dice = {100 + seed * 8 + (size_t)_i}};
        struct sizes s = small_sizes(&p.dice);
        pose(&p, droppers[_i], &s);
        use_seed(&p, seed % 3 ? SEED * seed : seed);
        check_both(&p);
        problem_free(&p);
    }
}
END_TEST

/* Queries and keys around the cuts of the library. */
START_TEST(draws_around_tiles)
{
    static const size_t lengths[][2] = {{4, 600}, {37, 600}, {5, 513}, {130, 40}};
    for (size_t k = 0; k < 2 * COUNT(lengths); k++) {
        struct problem p = {.dice = {200 + 8 * k + (size_t)_i}};
        struct sizes s = {.batch = 2,
                          .queries = lengths[k / 2][0],
                          .keys = lengths[k / 2][1],
                          .heads = 2,
                          .width = 5,
                          .value_width = 5,
                          .types = 3,
                          .edges = 50};
        pose(&p, droppers[_i], &s);
        if (k % 2) {
            use_seed(&p, SEED + k);
        } else {
            give_draws(&p);
        }
        add_cotangents(&p.whole, &p.call, &p.dice, 3);
        check_problem(&p, 0);
        problem_free(&p);
    }
}
END_TEST

/* Everything is dropped: what is left is the output layer's bias, and no gradient but its own. */
START_TEST(everything_dropped)
{
    struct sizes s = {.batch = 2,
                      .queries = _i ? 7 : 3,
                      .keys = 5,
                      .heads = 2,
                      .width = 3,
                      .plain = true,
                      .dropout = 1};
    struct problem p = {.dice = {300 + (size_t)_i}};
    p.spec = random_spec(SPEECH_MHA, &p.dice, &s);
    problem_make(&p);
    random_call(&p.call, &p.spec, &s, &p.dice);
    problem_pose(&p, 1);
    p.mode.training = true;
    struct outcome outcome = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
    for (size_t i = 0; i < outcome.n; i++) {
        for (size_t k = 0; k < count_of(&outcome.tensors[i]); k++) {
            bool bias = strcmp(outcome.names[i], "grad.output_layer.bias") == 0;
            ck_assert_msg((outcome.values[i][k] == 0) == !bias, "%s", outcome.names[i]);
        }
    }
    outcome_free(&outcome);
    p.mode.gradient = false;
    p.call.n--; /* its cotangent */
    outcome = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
    const float *bias = made_values(&p.made, "output_layer.bias");
    for (size_t i = 0; i < p.whole.n_output; i++) {
        ck_assert_float_eq(outcome.values[0][i], bias[i % 6]);
    }
    outcome_free(&outcome);
    p.call.n++;
    problem_free(&p);
}
END_TEST

/* Layers that drop nothing are the same in training, bit for bit. */
START_TEST(nothing_to_drop)
{
    struct sizes s = small_sizes(&(struct dice){(uint64_t)_i});
    struct problem p = {.dice = {400 + (size_t)_i}};
    p.spec = random_spec((enum preset)_i, &p.dice, &s);
    problem_make(&p);
    random_call(&p.call, &p.spec, &s, &p.dice);
    p.mode = (struct attn_mode){.size = sizeof p.mode, .training = true, .seed = 5};
    struct outcome plain = run_mode(p.made.layer, NULL, &p.call, NULL, 0, INLINE),
                   training = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
    check_same_outcomes(&training, &plain, true, "in training");
    outcome_free(&plain);
    outcome_free(&training);
    problem_free(&p);
}
END_TEST

/* The first samples of a batch are what they are alone: draws depend on a sample's place, and on
 * nothing else of the batch. */
START_TEST(first_samples_alone)
{
    static const size_t lengths[][2] = {{1, 19}, {3, 40}, {7, 13}, {30, 70}};
    for (size_t k = 0; attni_kernels()->packs && k < COUNT(lengths); k++) {
        struct problem p = {.dice = {500 + 8 * k + (size_t)_i}};
        struct sizes s = {.batch = 13,
                          .queries = lengths[k][0],
                          .keys = lengths[k][1],
                          .heads = 3,
                          .width = 8,
                          .value_width = 8,
                          .types = 1,
                          .plain = true};
        pose(&p, droppers[_i], &s);
        add_cotangents(&p.whole, &p.call, &p.dice, 3);
        for (int gradient = 1; gradient >= 0; gradient--) {
            p.mode.gradient = gradient;
            p.call.n -= gradient ? 0 : 2; /* without cotangents */
            struct outcome all =
                run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
            struct call few =
                p.call; /* samples come first, so its data are the first part */
            for (size_t n = 1; n < 13; n += 5) {
                for (size_t i = 0; i < few.n; i++) {
                    few.inputs[i].tensor.shape[0] = n;
                }
                struct outcome some =
                    run_mode(p.made.layer, &p.mode, &few, NULL, 0, INLINE);
                for (size_t i = 0; i < some.n; i++) {
                    ck_assert_msg(
                        strncmp(some.names[i], "grad.", 5) == 0 ||
                            memcmp(some.values[i], all.values[i],
                                   count_of(&some.tensors[i]) * sizeof(float)) == 0,
                        "%s of %zu samples", some.names[i], n);
                }
                outcome_free(&some);
            }
            outcome_free(&all);
        }
        p.call.n += 2;
        problem_free(&p);
    }
}
END_TEST

/* ---- modules --------------------------------------------------------------------------------- */

/* Each normalisation before each activation, in training, the draws given or of a seed. */
START_TEST(modules)
{
    for (size_t k = 0; k < N_MODULES; k++) {
        struct problem p = {.dice = {600 + (size_t)_i * N_MODULES + k}};
        pose_modules(&p, 3, 6, k % 3 ? 0.5 : 0, (size_t)_i, k);
        if (k % 2) {
            use_seed(&p, SEED + k);
        } else {
            give_draws(&p);
        }
        p.mode.reduction = k % 4 < 2 ? ATTN_REDUCTION_SUM : ATTN_REDUCTION_MEAN;
        check_both(&p);
        problem_free(&p);
    }
}
END_TEST

/* The statistics that a BatchNorm keeps, after this batch. */
static void check_state(const struct problem *p, const struct outcome *outcome,
                        size_t which)
{
    static const char *const roles[] = {"normalisation", "activation"};
    static const char *const names[] = {"running_mean", "running_var"};
    const struct oracle_step *step = &p->whole.steps[which];
    const double *before[] = {step->mean, step->variance},
                 *batch[] = {step->batch_mean, step->batch_variance};
    for (size_t k = 0; k < 2; k++) {
        char name[64];
        snprintf(name, sizeof name, "state.%s.%s", roles[which], names[k]);
        const float *got = outcome_find(outcome, name);
        for (size_t i = 0; i < step->shape[1] * step->shape[2]; i++) {
            double expected = 0.7 * before[k][i] + (1 - 0.7) * batch[k][i];
            ck_assert_msg(fabs((double)got[i] - expected) <= 1e-5, "%s[%zu]", name, i);
        }
    }
}

START_TEST(batch_statistics)
{
    static const char *const names[] = {
        "state.activation.running_var", "state.normalisation.running_mean", "output",
        "state.normalisation.running_var", "state.activation.running_mean"};
    for (size_t seed = 0; seed < 6; seed++) { /* statistics there before, or not */
        struct problem p = {.dice = {700 + seed}};
        pose_modules(&p, 2 + seed, 4, 0, 1, 1);
        whole_train(&p.whole, &p.call);
        for (int gradient = 0; gradient < 2; gradient++) {
            if (gradient) {
                add_cotangents(&p.whole, &p.call, &p.dice, 1);
            }
            p.mode.gradient = gradient;
            whole_forward(&p.whole);
            struct outcome outcome =
                run_mode(p.made.layer, &p.mode, &p.call, names, COUNT(names), INLINE);
            check_state(&p, &outcome, 0);
            check_state(&p, &outcome, 1);
            check_close("output", outcome.values[2], p.whole.output, p.whole.n_output, 1,
                        TOLERANCE * whole_magnified(&p.whole), 1);
            check_ways(p.made.layer, &p.mode, &p.call, names, COUNT(names), &outcome);
            outcome_free(&outcome);
        }
        problem_free(&p);
    }
}
END_TEST

/* ---- several draws --------------------------------------------------------------------------- */

#define N_DRAWS 5

/* Mean and variance of what the draws gave. */
static void check_moments(const struct outcome *outcome, const char *name, size_t n)
{
    char mean_name[64], variance_name[64];
    snprintf(mean_name, sizeof mean_name, "%s.mean", name);
    snprintf(variance_name, sizeof variance_name, "%s.variance", name);
    const float *draws = outcome_find(outcome, name),
                *mean = outcome_find(outcome, mean_name),
                *variance = outcome_find(outcome, variance_name);
    for (size_t i = 0; i < n; i++) {
        double sum = 0, squares = 0;
        for (size_t d = 0; d < N_DRAWS; d++) {
            sum += (double)draws[d * n + i] / N_DRAWS;
        }
        for (size_t d = 0; d < N_DRAWS; d++) {
            squares += pow((double)draws[d * n + i] - sum, 2) / N_DRAWS;
        }
        ck_assert_msg(fabs((double)mean[i] - sum) <= 1e-6 * (1 + fabs(sum)), "%s[%zu]",
                      mean_name, i);
        ck_assert_msg(fabs((double)variance[i] - squares) <= 1e-6 * (1 + squares),
                      "%s[%zu]: expected %g, got %g", variance_name, i, squares,
                      (double)variance[i]);
    }
}

/* Draw d is what seed + d gives, past the largest seed too; any of the outputs alone is the same. */
START_TEST(several_draws)
{
    static const uint64_t seeds[] = {SEED, UINT64_MAX - 1};
    struct problem p = {.dice = {800 + (size_t)_i}};
    if (_i < (int)COUNT(droppers)) {
        struct sizes s = small_sizes(&p.dice);
        pose(&p, droppers[_i], &s);
    } else {
        pose_modules(&p, 3, 6, 0.5, _i % 2 ? 2 : 1, 2);
    }
    p.mode.gradient = false;
    p.mode.reduction = ATTN_REDUCTION_DEFAULT;
    const char *const names[] = {"output.mean", "attention",      "attention.variance",
                                 "output",      "attention.mean", "output.variance"};
    const char *const own[] = {"attention", "output"};
    const size_t sizes[] = {p.whole.n_attention, p.whole.n_output};
    for (size_t k = 0; k < COUNT(seeds); k++) {
        struct attn_mode many = p.mode;
        many.seed = seeds[k];
        many.n_draws = N_DRAWS;
        struct outcome all =
            run_mode(p.made.layer, &many, &p.call, names, COUNT(names), INLINE);
        check_moments(&all, "attention", p.whole.n_attention);
        check_moments(&all, "output", p.whole.n_output);
        check_ways(p.made.layer, &many, &p.call, names, COUNT(names), &all);
        for (size_t d = 0; d < N_DRAWS; d++) {
            p.mode.seed = seeds[k] + d;
            struct outcome one = run_mode(p.made.layer, &p.mode, &p.call, own, 2, INLINE);
            for (size_t i = 0; i < 2; i++) {
                ck_assert_msg(memcmp(one.values[i],
                                     outcome_find(&all, own[i]) + d * sizes[i],
                                     sizes[i] * sizeof(float)) == 0,
                              "%s of draw %zu", own[i], d);
            }
            outcome_free(&one);
        }
        for (size_t i = 0; i < COUNT(names); i++) {
            struct outcome alone =
                run_mode(p.made.layer, &many, &p.call, &names[i], 1, INLINE);
            ck_assert_msg(memcmp(alone.values[0], all.values[i],
                                 count_of(&all.tensors[i]) * sizeof(float)) == 0,
                          "%s alone", names[i]);
            outcome_free(&alone);
        }
        outcome_free(&all);
    }
    problem_free(&p);
}
END_TEST

/* ---- bad draws ------------------------------------------------------------------------------- */

static void check_bad_draw(struct problem *p, const char *name, size_t at, float draw)
{
    static const enum way ways[] = {INLINE, THREADS};
    const struct attn_tensor *tensor = call_find(&p->call, name);
    float *draws = NULL;
    for (size_t i = 0; i < p->call.n; i++) {
        draws = p->call.data[i] == tensor->data ? p->call.data[i] : draws;
    }
    float before = draws[at];
    char place[32];
    snprintf(place, sizeof place, "%zu", at);
    draws[at] = draw;
    for (size_t w = 0; w < COUNT(ways); w++) {
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        struct outcome outcome;
        ck_assert_int_eq(attn_plan_create(p->made.layer, &p->mode, p->call.inputs,
                                          p->call.n, NULL, 0, &plan, &error),
                         ATTN_OK);
        ck_assert_int_eq(run_outcome(plan, ways[w], &outcome, &error), ATTN_RANGE);
        ck_assert_int_eq(error.status, ATTN_RANGE);
        ck_assert_str_eq(error.field, name);
        ck_assert_msg(strstr(error.message, place) != NULL, "%s", error.message);
        outcome_free(&outcome);
        attn_plan_free(plan);
    }
    draws[at] = before;
}

/* Outside [0, 1), wherever it is, forward and backward. */
START_TEST(bad_draws)
{
    static const char *const names[] = {"dropout_uniform", "normalisation_uniform",
                                        "activation_uniform"};
    const float bad[] = {1, -1e-9f, 2, NAN, INFINITY, -INFINITY};
    struct problem p = {.dice = {900}};
    pose_modules(&p, 2, 6, 0.5, 2, 2);
    give_draws(&p);
    for (int gradient = 0; gradient < 2; gradient++) {
        if (gradient) {
            add_cotangents(&p.whole, &p.call, &p.dice, 1);
        }
        p.mode.gradient = gradient;
        for (size_t i = 0; i < COUNT(bad); i++) {
            for (size_t k = 0; k < COUNT(names); k++) {
                size_t n = count_of(call_find(&p.call, names[k]));
                check_bad_draw(&p, names[k], i * 5 % n, bad[i]);
                check_bad_draw(&p, names[k], n - 1, bad[i]);
            }
        }
    }
    problem_free(&p);
}
END_TEST

/* Each function has its own plans. */
START_TEST(wrong_function)
{
    struct problem p = {.dice = {950}};
    pose_modules(&p, 2, 6, 0.5, 0, 0);
    add_cotangents(&p.whole, &p.call, &p.dice, 1);
    for (int gradient = 0; gradient < 2; gradient++) {
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        float nothing, *outputs[ATTN_MAX_PORTS];
        for (size_t i = 0; i < ATTN_MAX_PORTS; i++) {
            outputs[i] = &nothing;
        }
        p.mode.gradient = gradient;
        ck_assert_int_eq(attn_plan_create(p.made.layer, &p.mode, p.call.inputs,
                                          gradient ? 2 : 1, NULL, 0, &plan, &error),
                         ATTN_OK);
        ck_assert_int_eq((gradient ? attn_forward : attn_backward)(
                             plan, outputs, &nothing, NULL, &error),
                         ATTN_INVALID);
        ck_assert_int_eq(error.status, ATTN_INVALID);
        attn_plan_free(plan);
    }
    problem_free(&p);
}
END_TEST

int main(void)
{
    int n = (int)COUNT(droppers);
    Suite *suite = suite_create("training");
    TCase *tcase = tcase_create("training");
    tcase_set_timeout(tcase, 300); /* sanitizers are slow */
    tcase_add_loop_test(tcase, draws_given, 0, n);
    tcase_add_loop_test(tcase, draws_of_a_seed, 0, n);
    tcase_add_loop_test(tcase, draws_around_tiles, 0, n);
    tcase_add_loop_test(tcase, everything_dropped, 0, 2);
    tcase_add_loop_test(tcase, nothing_to_drop, 0, N_PRESETS);
    tcase_add_loop_test(tcase, first_samples_alone, 0, n);
    tcase_add_loop_test(tcase, modules, 0, N_NORMS);
    tcase_add_test(tcase, batch_statistics);
    tcase_add_loop_test(tcase, several_draws, 0, n + 2);
    tcase_add_test(tcase, bad_draws);
    tcase_add_test(tcase, wrong_function);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
