/* test_fingerprint.c - two layers have a fingerprint in common if they compute the same, and only then; on every
 * machine, whatever its kernels. */
#include "unit/lib/causal_modules.h"

#define N_FLOATS 256

/* A causal layer of 4 positions, width 4, whose weights are 0, 1, 2, ... in a file of that type. */
struct recipe {
    size_t heads;
    double dropout;
    bool mask;
    bool biases; /* zeros, as an absent bias is too */
    enum attn_dtype dtype;
    size_t changed; /* this weight is another one; N_FLOATS: none */
    enum attn_store store;
};

static const struct recipe usual = {2,        0,        true,          false,
                                    ATTN_F32, N_FLOATS, ATTN_STORE_F32};

static void fingerprint(const struct recipe *recipe, bool reversed, char text[33])
{
    const struct module none = module_at(0);
    struct attn_spec spec = causal_spec(4, recipe->heads, 4 / recipe->heads,
                                        recipe->dropout, recipe->mask, &none, &none);
    spec.weights_dtype = recipe->store;
    float floats[48], biases[12] = {0};
    double doubles[48];
    for (size_t i = 0; i < 48; i++) {
        floats[i] = (float)i + (i == recipe->changed ? 1 : 0);
        doubles[i] = (double)floats[i];
    }
    struct attn_named_tensor tensors[3] = {
        {"input_linear.weights",
         {recipe->dtype,
          2,
          {4, 12},
          recipe->dtype == ATTN_F64 ? (const void *)doubles : floats}},
        {"input_linear.biases", {ATTN_F32, 1, {12}, biases}},
        {"another", {ATTN_F32, 1, {1}, biases}}};
    size_t n = recipe->biases ? 2 : 1, n_bytes;
    if (reversed) { /* where in its file a parameter is, and what is beside it, is no matter */
        tensors[n++] = tensors[0];
        tensors[0] = tensors[2];
    }
    unsigned char *file = weights_file(tensors, n, &n_bytes);
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    struct attn_error error = {0};
    ck_assert(!attn_weights_parse(file, n_bytes, &weights, &error));
    ck_assert_msg(!attn_layer_create(&spec, weights, &layer, &error), "%s",
                  error.message);
    ck_assert_uint_eq(strlen(attn_layer_fingerprint(layer)), 32);
    strcpy(text, attn_layer_fingerprint(layer));
    attn_layer_free(layer);
    attn_weights_free(weights);
    free(file);
}

START_TEST(is_the_same_everywhere)
{
    char text[33];
    fingerprint(&usual, false, text);
    ck_assert_str_eq(text, "da6d908a2ce630105d5e5db6f4685ba5");
    fingerprint(&usual, true, text);
    ck_assert_str_eq(text, "da6d908a2ce630105d5e5db6f4685ba5");
}
END_TEST

START_TEST(tells_layers_apart)
{
    struct recipe recipes[] = {usual, usual, usual, usual, usual, usual, usual, usual};
    char texts[COUNT(recipes)][33];
    recipes[1].heads = 1;
    recipes[2].dropout = 0.5;
    recipes[3].mask = false;
    recipes[4].biases = true;
    recipes[5].dtype = ATTN_F64;
    recipes[6].changed = 47;
    recipes[7].store = ATTN_STORE_BF16;
    for (size_t i = 0; i < COUNT(recipes); i++) {
        fingerprint(&recipes[i], false, texts[i]);
        for (size_t j = 0; j < i; j++) {
            ck_assert_msg(strcmp(texts[i], texts[j]) != 0, "%zu and %zu", i, j);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fingerprint");
    TCase *tcase = tcase_create("fingerprint");
    tcase_add_test(tcase, is_the_same_everywhere);
    tcase_add_test(tcase, tells_layers_apart);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
