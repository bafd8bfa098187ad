/* test_huge.c - calls of sizes that no machine has. Plans read shapes alone, so any number can be asked
 * for: a plan is refused as too large, or every size that it tells can be counted. */
#include "unit/lib/written_inputs.h"

#include <stdint.h>

/* ---- what a plan tells ---------------------------------------------------------------------- */

static size_t scratch_of(const attn_plan *plan, size_t n_workers)
{
    size_t n_bytes = SIZE_MAX;
    enum attn_status status = attn_plan_scratch(plan, n_workers, &n_bytes);
    ck_assert_msg(status == ATTN_OK || status == ATTN_TOO_LARGE, "status %d", status);
    ck_assert((status == ATTN_OK) == (n_bytes <= PTRDIFF_MAX));
    return n_bytes;
}

/* Each worker takes as much as the other. */
static void check_scratch(const attn_plan *plan)
{
    size_t n_bytes = 0;
    const size_t one = scratch_of(plan, 1), two = scratch_of(plan, 2),
                 three = scratch_of(plan, 3), all = scratch_of(plan, SIZE_MAX);
    if (three <= PTRDIFF_MAX) {
        ck_assert_uint_le(one, two);
        ck_assert_uint_eq(three - two, two - one);
    }
    ck_assert(two <= PTRDIFF_MAX || three > PTRDIFF_MAX);
    ck_assert(one <= PTRDIFF_MAX || two > PTRDIFF_MAX);
    ck_assert(one == two || all > PTRDIFF_MAX);
    ck_assert_int_eq(attn_plan_scratch(plan, 0, &n_bytes), ATTN_INVALID);
    if (!attn_plan_joins(plan)) {
        return;
    }
    const attn_plan *const many[] = {plan, plan};
    enum attn_status status = attn_many_scratch(many, 2, 2, &n_bytes);
    ck_assert(status == ATTN_OK || status == ATTN_TOO_LARGE);
    if (status == ATTN_OK) {
        ck_assert_uint_le(two, n_bytes);
        ck_assert_uint_le(n_bytes, PTRDIFF_MAX);
    }
    ck_assert_int_eq(attn_many_scratch(many, 2, 0, &n_bytes), ATTN_INVALID);
}

static void check_plan(const attn_plan *plan)
{
    check_scratch(plan);
    double cost = attn_plan_cost(plan);
    ck_assert(isfinite(cost) && cost >= 0);
    for (size_t i = 0; i < attn_plan_n_outputs(plan); i++) {
        size_t n_bytes = SIZE_MAX;
        const struct attn_tensor *tensor = &attn_plan_output(plan, i)->tensor;
        ck_assert_int_eq(attn_tensor_bytes(tensor, &n_bytes), ATTN_OK);
        ck_assert_uint_le(n_bytes, PTRDIFF_MAX);
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

static size_t any_size(struct dice *dice)
{
    static const size_t sizes[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   64,
                                   1000,
                                   1u << 16,
                                   1u << 24,
                                   UINT32_MAX,
                                   1ul << 33,
                                   1ul << 40,
                                   1ul << 47,
                                   1ul << 52,
                                   1ul << 56,
                                   1ul << 58,
                                   1ul << 59,
                                   (1ul << 59) + 1,
                                   1ul << 60,
                                   1ul << 61,
                                   1ul << 62,
                                   1ul << 63,
                                   SIZE_MAX / 3,
                                   SIZE_MAX};
    return sizes[dice_below(dice, COUNT(sizes))];
}

/* Mostly few, so that products of several stay inside of what can be counted as often as not. */
static size_t mostly_small(struct dice *dice)
{
    return dice_below(dice, 3) ? dice_below(dice, 4) : any_size(dice);
}

struct sizes {
    size_t batch, queries, keys, width;
};

static struct sizes any_sizes(struct dice *dice)
{
    return (struct sizes){mostly_small(dice), mostly_small(dice), any_size(dice),
                          mostly_small(dice)};
}

/* The axes of an input, a letter each: B batch, Q queries, K keys, W any width; a digit is itself. */
static void add_input(struct call *call, const char *name, const char *axes,
                      const struct sizes *sizes)
{
    struct attn_named_tensor *input = &call->inputs[call->n++];
    *input = (struct attn_named_tensor){
        name, {.dtype = strcmp(name, "mask") == 0 ? ATTN_BOOL : ATTN_F32}};
    for (; *axes; axes++) {
        input->tensor.shape[input->tensor.rank++] = *axes == 'B'   ? sizes->batch
                                                    : *axes == 'Q' ? sizes->queries
                                                    : *axes == 'K' ? sizes->keys
                                                    : *axes == 'W'
                                                        ? sizes->width
                                                        : (size_t)(*axes - '0');
    }
}

static const struct {
    const char *kind;
    struct {
        const char *name, *axes;
    } inputs[5];
    const char *gradient; /* axes of grad_output */
} forms[] = {
    {"routing_score", {{"query", "BQW"}, {"key", "BKW"}, {"mask", "BQK"}}, "BQK"},
    {"routing_mha", {{"query", "BQW"}, {"key", "BKW"}, {"value", "BK6"}}, "BQ6"},
    {"routing_mha_proj", {{"q", "BQ6"}, {"h", "BK6"}, {"mask", "K"}}, "BQ6"},
    {"speech_mha", {{"q", "BQ8"}, {"k", "BK8"}, {"v", "BK8"}}, "BQ8"},
    {"causal_mha", {{"input", "BK2"}}, "BK2"},
    {"relational_mha",
     {{"queries", "BQ35"},
      {"keys", "BK35"},
      {"values", "BK32"},
      {"dense_relations_kq", "BQK3"}},
     "BQ7"},
};

static struct made make_form(size_t i)
{
    switch (i) {
    case 0:
        return make("routing_score", NULL, 0);
    case 1:
        return make("routing_mha", MODEL_6_2);
    case 2:
        return make("routing_mha_proj", MODEL_6_2);
    case 3:
        return make("speech_mha", SPEECH_4_8);
    case 4:
        return make("causal_mha", LIST(ints_option("output_shape", 2, 1 << 24, 2)));
    default:
        return make("relational_mha", RELATIONAL_3_5_2_7);
    }
}

/* One call of a form in some mode; true: it was planned. */
static bool try_call(const attn_layer *layer, size_t form, struct dice *dice)
{
    const struct sizes sizes = any_sizes(dice);
    struct attn_mode mode = {.size = sizeof mode};
    struct call call = {.n = 0};
    for (size_t i = 0; i < COUNT(forms[form].inputs) && forms[form].inputs[i].name; i++) {
        add_input(&call, forms[form].inputs[i].name, forms[form].inputs[i].axes, &sizes);
    }
    switch (dice_below(dice, 3)) {
    case 0:
        mode.gradient = true;
        add_input(&call, "grad_output", forms[form].gradient, &sizes);
        break;
    case 1:
        mode.training = true;
        mode.n_draws = 1 + dice_below(dice, 3);
        break;
    default:
        break;
    }
    struct attn_port ports[ATTN_MAX_PORTS];
    size_t n = attn_layer_outputs(layer, &mode, ports);
    const char *name = ports[dice_below(dice, n)].name;
    attn_plan *plan = NULL;
    struct attn_error error = {0};
    enum attn_status status = attn_plan_create(layer, &mode, call.inputs, call.n, &name,
                                               dice_below(dice, 2), &plan, &error);
    /* the gradient of an input that is not there is missing */
    ck_assert_msg(status == ATTN_OK || status == ATTN_SHAPE || status == ATTN_TOO_LARGE ||
                      (status == ATTN_MISSING && mode.gradient),
                  "%s: %s", forms[form].kind, error.message);
    ck_assert((status == ATTN_OK) == (plan != NULL));
    ck_assert(status == ATTN_OK || error.field[0]);
    if (plan) {
        check_plan(plan);
        attn_plan_free(plan);
    }
    return status == ATTN_OK;
}

START_TEST(any_plan)
{
    enum { CALLS = 20000 };
    struct dice dice = {11 + (uint64_t)_i};
    struct made made = make_form((size_t)_i);
    size_t n_planned = 0;
    for (size_t i = 0; i < CALLS; i++) {
        n_planned += try_call(made.layer, (size_t)_i, &dice);
    }
    ck_assert_uint_gt(n_planned, CALLS / 20);
    ck_assert_uint_lt(n_planned, CALLS - CALLS / 20);
    made_free(&made);
}
END_TEST

/* Without keys there is nothing to compute for however many queries of width 0; they are counted all the
 * same, as far as that goes. */
START_TEST(rows_beyond_counting)
{
    static const struct {
        size_t batch, queries, rows;
    } cases[] = {{(size_t)1 << 31, (size_t)1 << 31, (size_t)1 << 62},
                 {(size_t)1 << 32, (size_t)1 << 32, SIZE_MAX},
                 {(size_t)1 << 31, ((size_t)1 << 33) - 1,
                  ((size_t)1 << 31) * (((size_t)1 << 33) - 1)},
                 {SIZE_MAX, 1, SIZE_MAX},
                 {SIZE_MAX, 2, SIZE_MAX},
                 {0, SIZE_MAX, 0}};
    struct made made = make("routing_mha", MODEL_6_2);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct attn_named_tensor inputs[] = {
            {"query", {ATTN_F32, 3, {cases[i].batch, cases[i].queries, 0}, NULL}},
            {"key", {ATTN_F32, 3, {cases[i].batch, 0, 0}, NULL}},
            {"value", {ATTN_F32, 3, {cases[i].batch, 0, 6}, NULL}}};
        const char *const attention = "attention";
        struct attn_error error = {0};
        attn_plan *plan = NULL;
        ck_assert_msg(
            !attn_plan_create(made.layer, NULL, inputs, 3, &attention, 1, &plan, &error),
            "%s", error.message);
        ck_assert_uint_eq(attn_plan_rows(plan), cases[i].rows);
        check_plan(plan);
        attn_plan_free(plan);
    }
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("huge");
    TCase *tcase = tcase_create("huge");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_loop_test(tcase, any_plan, 0, COUNT(forms));
    tcase_add_test(tcase, rows_beyond_counting);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
