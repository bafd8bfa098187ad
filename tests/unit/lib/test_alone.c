/* test_alone.c - a sample has the same bits alone and among others, however many: the cut into tasks
 * and rounds never shows. (Where projections go through BLAS, which promises no equal bits, there is
 * nothing to hold.) */
#include "kernels/kernels.h"
#include "unit/lib/layers.h"

#define MOST_SAMPLES 13

static const size_t queries[] = {1, 2, 3, 4, 5, 30}, keys[] = {1, 7, 40, 101},
                    widths[] = {1, 5, 8, 16, 17, 32, 64};

struct sizes {
    size_t n_queries, n_keys, width, n_heads;
};

/* The output of samples [first, first + n) of the inputs. */
static float *run(const attn_layer *layer, const struct sizes *s, float *const data[3],
                  const unsigned char *mask, size_t first, size_t n)
{
    size_t model = s->n_heads * s->width, of_query = s->n_queries * model,
           of_key = s->n_keys * model, n_bytes = 0;
    const struct attn_named_tensor inputs[] = {
        {"q", {ATTN_F32, 3, {n, s->n_queries, model}, data[0] + first * of_query}},
        {"k", {ATTN_F32, 3, {n, s->n_keys, model}, data[1] + first * of_key}},
        {"v", {ATTN_F32, 3, {n, s->n_keys, model}, data[2] + first * of_key}},
        {"mask", {ATTN_BOOL, 3, {n, 1, s->n_keys}, mask + first * s->n_keys}}};
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    ck_assert_msg(!attn_plan_create(layer, NULL, inputs, 4, NULL, 0, &plan, &error), "%s",
                  error.message);
    ck_assert(!attn_plan_scratch(plan, 1, &n_bytes));
    float *out = need_memory(n * of_query * sizeof *out);
    void *scratch = attn_alloc(n_bytes);
    ck_assert(!attn_forward(plan, &out, scratch, NULL, &error));
    attn_free(scratch);
    attn_plan_free(plan);
    return out;
}

static void check(struct dice *dice, const struct sizes *s)
{
    size_t model = s->n_heads * s->width, n_mask = MOST_SAMPLES * s->n_keys;
    struct attn_spec spec =
        good_spec("speech_mha", LIST(attn_int("num_heads", (int64_t)s->n_heads),
                                     attn_int("d_model", (int64_t)model)));
    struct made made = make_layer(&spec, dice);
    float *data[3];
    for (size_t i = 0; i < 3; i++) {
        size_t n = MOST_SAMPLES * (i == 0 ? s->n_queries : s->n_keys) * model;
        data[i] = need_memory(n * sizeof(float));
        dice_fill(dice, data[i], n, 1);
    }
    unsigned char *mask = need_memory(n_mask);
    for (size_t i = 0; i < n_mask; i++) {
        mask[i] = dice_below(dice, 3) != 0;
    }
    float *all = run(made.layer, s, data, mask, 0, MOST_SAMPLES);
    size_t each = s->n_queries * model;
    for (size_t first = 0, n = 1; first < MOST_SAMPLES; first += n, n = 1 + first % 9) {
        n = n < MOST_SAMPLES - first ? n : MOST_SAMPLES - first;
        float *some = run(made.layer, s, data, mask, first, n);
        ck_assert_msg(memcmp(some, all + first * each, n * each * sizeof *all) == 0,
                      "%zu samples from %zu: %zu queries, %zu keys, %zu heads of %zu", n,
                      first, s->n_queries, s->n_keys, s->n_heads, s->width);
        free(some);
    }
    free(all);
    free(mask);
    for (size_t i = 0; i < 3; i++) {
        free(data[i]);
    }
    made_free(&made);
}

START_TEST(samples_alone)
{
    struct dice dice = {1 + (size_t)_i};
    for (size_t i = 0; attni_kernels()->packs && i < COUNT(keys) * COUNT(widths); i++) {
        const struct sizes sizes = {queries[_i], keys[i % COUNT(keys)],
                                    widths[i / COUNT(keys)], 1 + dice_below(&dice, 9)};
        check(&dice, &sizes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alone");
    TCase *tcase = tcase_create("alone");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    tcase_add_loop_test(tcase, samples_alone, 0, (int)COUNT(queries));
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
