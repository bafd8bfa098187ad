/* test_gradients_causal.c - gradients of the causal layer through each normalisation followed by each
 * activation, biases and parameters of the norms there or not as the dice fall; against derivatives in
 * double precision and central differences. */
#include "unit/lib/causal_modules.h"
#include "unit/lib/gradient_problem.h"

#define LENGTH 6

static void pose(struct problem *p, const struct attn_spec *spec, size_t batch,
                 size_t length, unsigned cotangents)
{
    const size_t shape[] = {batch, length, spec->fused.n_in};
    p->spec = *spec;
    problem_make(p);
    call_add_reals(&p->call, &p->dice, "input", 3, shape);
    problem_pose(p, cotangents);
}

START_TEST(modules)
{
    struct module normalisation = module_at((size_t)_i);
    for (size_t k = 0; k < N_MODULES; k++) {
        struct problem p = {.dice = {(size_t)_i * N_MODULES + k}};
        struct module activation = module_at(k);
        struct attn_spec spec =
            causal_spec(LENGTH, 2, 3, 0.5, k % 2, &normalisation, &activation);
        pose(&p, &spec, 3, LENGTH, k % 3 == 2 ? 3 : 1);
        p.mode.reduction = k % 2 ? ATTN_REDUCTION_SUM : ATTN_REDUCTION_DEFAULT;
        check_problem(&p, 12);
        problem_free(&p);
    }
}
END_TEST

/* Sets of elements that go together, of many more than a vector or a tile. */
START_TEST(long_modules)
{
    static const size_t pairs[][2] = {{1, 6}, {3, 11}, {5, 9}, {4, 7}, {0, 10}, {0, 3}};
    for (size_t k = 0; k < COUNT(pairs); k++) {
        struct problem p = {.dice = {500 + k}};
        struct module normalisation = module_at(pairs[k][0]),
                      activation = module_at(pairs[k][1]);
        struct attn_spec spec =
            causal_spec(130, 3, 13, 0, k % 2, &normalisation, &activation);
        pose(&p, &spec, 2, 130, 1);
        check_problem(&p, 0);
        problem_free(&p);
    }
}
END_TEST

/* One feature, whose axis the output does not have; an input shorter than the layer, alone and with
 * activations that run along it. */
START_TEST(shapes)
{
    for (size_t k = N_NORMS; k < N_MODULES; k++) {
        struct module none = module_at(0), activation = module_at(k);
        struct problem p = {.dice = {600 + k}};
        struct attn_spec spec =
            good_spec("causal_mha", LIST(ints_option("output_shape", 1, 7, 0),
                                         module_option("activation", activation.type,
                                                       &activation.option,
                                                       activation.option.name != NULL)));
        pose(&p, &spec, 3, k % 2 ? 7 : 4, 3);
        check_problem(&p, 50);
        problem_free(&p);
        p = (struct problem){.dice = {700 + k}};
        spec = causal_spec(LENGTH, 3, 1, 0, k % 2, &none, &activation);
        pose(&p, &spec, 2, LENGTH - 1, 1);
        check_problem(&p, 20);
        problem_free(&p);
    }
}
END_TEST

/* Without samples the gradients of parameters are sums of nothing. */
START_TEST(no_samples)
{
    struct module normalisation = module_at((size_t)_i), none = module_at(0);
    struct attn_spec spec = causal_spec(4, 2, 3, 0, true, &normalisation, &none);
    struct problem p = {.dice = {1}};
    pose(&p, &spec, 0, 4, 1);
    struct outcome outcome = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
    for (size_t i = 0; i < outcome.n; i++) {
        for (size_t k = 0; k < count_of(&outcome.tensors[i]); k++) {
            ck_assert_msg(outcome.values[i][k] == 0, "%s", outcome.names[i]);
        }
    }
    outcome_free(&outcome);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients of the causal layer");
    TCase *tcase = tcase_create("causal");
    tcase_set_timeout(tcase, 300); /* sanitizers are slow */
    tcase_add_loop_test(tcase, modules, 0, N_NORMS);
    tcase_add_test(tcase, long_modules);
    tcase_add_test(tcase, shapes);
    tcase_add_loop_test(tcase, no_samples, 0, N_NORMS);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
