/* test_ports.c - what a client is told of each layer: inputs and outputs, with type, shape and
 * whether they may be left out. */
#include "unit/lib/layers.h"

static void check_ports(const struct attn_port *ports, size_t n,
                        const struct attn_port *expected, size_t n_expected)
{
    ck_assert_uint_eq(n, n_expected);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(ports[i].name, expected[i].name);
        ck_assert_msg(ports[i].dtype == expected[i].dtype, "%s", ports[i].name);
        ck_assert_msg(ports[i].optional == expected[i].optional, "%s", ports[i].name);
        ck_assert_uint_eq(ports[i].rank, expected[i].rank);
        for (size_t k = 0; k < ports[i].rank; k++) {
            ck_assert_msg(ports[i].shape[k] == expected[i].shape[k],
                          "%s: axis %zu is %lld", ports[i].name, k,
                          (long long)ports[i].shape[k]);
        }
    }
}

static void check_layer(const struct attn_spec *spec, const struct attn_port *inputs,
                        size_t n_inputs, const struct attn_port *outputs,
                        size_t n_outputs)
{
    struct dice dice = {1};
    struct made made = make_layer(spec, &dice);
    struct attn_port ports[ATTN_MAX_PORTS];
    check_ports(ports, attn_layer_inputs(made.layer, ports), inputs, n_inputs);
    check_ports(ports, attn_layer_outputs(made.layer, ports), outputs, n_outputs);
    made_free(&made);
}

START_TEST(routing)
{
    static const struct attn_port score_in[] = {
        {"query", ATTN_F32, 3, {-1, -1, -1}, false},
        {"key", ATTN_F32, 3, {-1, -1, -1}, false},
        {"mask", ATTN_BOOL, 3, {-1, -1, -1}, true}};
    static const struct attn_port score_out[] = {
        {"logits", ATTN_F32, 3, {-1, -1, -1}, false}};
    static const struct attn_port mha_in[] = {{"query", ATTN_F32, 3, {-1, -1, -1}, false},
                                              {"key", ATTN_F32, 3, {-1, -1, -1}, false},
                                              {"value", ATTN_F32, 3, {-1, -1, 6}, false},
                                              {"mask", ATTN_BOOL, 3, {-1, -1, -1}, true}};
    static const struct attn_port proj_in[] = {
        {"q", ATTN_F32, 3, {-1, -1, 6}, false},
        {"h", ATTN_F32, 3, {-1, -1, 6}, true},
        {"mask", ATTN_BOOL, 3, {-1, -1, -1}, true}};
    static const struct attn_port out[] = {
        {"out", ATTN_F32, 3, {-1, -1, 6}, false},
        {"attention", ATTN_F32, 4, {-1, 2, -1, -1}, true}};
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    check_layer(&spec, score_in, COUNT(score_in), score_out, COUNT(score_out));
    spec = good_spec("routing_mha",
                     LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2)));
    check_layer(&spec, mha_in, COUNT(mha_in), out, COUNT(out));
    spec = good_spec("routing_mha_proj",
                     LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2)));
    check_layer(&spec, proj_in, COUNT(proj_in), out, COUNT(out));
}
END_TEST

START_TEST(speech)
{
    static const struct attn_port in[] = {{"q", ATTN_F32, 3, {-1, -1, 8}, false},
                                          {"k", ATTN_F32, 3, {-1, -1, 8}, false},
                                          {"v", ATTN_F32, 3, {-1, -1, 8}, false},
                                          {"mask", ATTN_BOOL, 3, {-1, -1, -1}, true}};
    static const struct attn_port out[] = {
        {"output", ATTN_F32, 3, {-1, -1, 8}, false},
        {"attention", ATTN_F32, 4, {-1, 4, -1, -1}, true}};
    struct attn_spec spec =
        good_spec("speech_mha", LIST(attn_int("num_heads", 4), attn_int("d_model", 8)));
    check_layer(&spec, in, COUNT(in), out, COUNT(out));
}
END_TEST

START_TEST(causal)
{
    static const struct attn_port in[] = {{"input", ATTN_F32, 3, {-1, -1, 4}, false}};
    static const struct attn_port out[] = {
        {"output", ATTN_F32, 3, {-1, -1, 4}, false},
        {"attention", ATTN_F32, 4, {-1, 2, -1, -1}, true}};
    static const struct attn_port exact_in[] = {
        {"input", ATTN_F32, 3, {-1, 6, 4}, false}};
    static const struct attn_port exact_out[] = {
        {"output", ATTN_F32, 3, {-1, 6, 4}, false},
        {"attention", ATTN_F32, 4, {-1, 2, -1, -1}, true}};
    static const struct attn_port single_in[] = {
        {"input", ATTN_F32, 3, {-1, -1, 1}, false}};
    static const struct attn_port single_out[] = {
        {"output", ATTN_F32, 2, {-1, -1}, false},
        {"attention", ATTN_F32, 4, {-1, 1, -1, -1}, true}};
    const struct attn_option shape = ints_option("output_shape", 2, 6, 4),
                             heads = attn_int("n_heads", 2);
    struct attn_spec spec = good_spec("causal_mha", LIST(shape, heads));
    check_layer(&spec, in, 1, out, COUNT(out));
    spec = good_spec("causal_mha",
                     LIST(shape, heads, module_option("activation", "ReLU", NULL, 0)));
    check_layer(&spec, in, 1, out, COUNT(out));
    /* parameters of single positions: no other length will do */
    spec =
        good_spec("causal_mha",
                  LIST(shape, heads, module_option("activation", "LayerNorm", NULL, 0)));
    check_layer(&spec, exact_in, 1, exact_out, COUNT(exact_out));
    spec = good_spec("causal_mha", LIST(ints_option("output_shape", 1, 6, 0)));
    check_layer(&spec, single_in, 1, single_out, COUNT(single_out));
}
END_TEST

START_TEST(relational)
{
    static const struct attn_port in[] = {
        {"queries", ATTN_F32, 4, {-1, -1, 3, 5}, false},
        {"keys", ATTN_F32, 4, {-1, -1, 3, 5}, false},
        {"values", ATTN_F32, 4, {-1, -1, 3, 4}, false},
        {"masked_elements", ATTN_BOOL, 3, {-1, -1, -1}, true},
        {"edges", ATTN_I64, 2, {-1, 3}, true},
        {"edge_types", ATTN_I64, 1, {-1}, true},
        {"dense_relations_kq", ATTN_F32, 4, {-1, -1, -1, 3}, true},
        {"dense_relations_kv", ATTN_F32, 5, {-1, -1, -1, 3, 4}, true}};
    static const struct attn_port out[] = {
        {"output", ATTN_F32, 3, {-1, -1, 7}, false},
        {"attention", ATTN_F32, 4, {-1, 3, -1, -1}, true}};
    struct attn_spec spec =
        good_spec("relational_mha",
                  LIST(attn_int("num_heads", 3), attn_int("num_edge_types", 2),
                       attn_int("key_query_dimension", 5), attn_int("value_dimension", 4),
                       attn_int("output_dimension", 7), attn_real("dropout_rate", 0.5)));
    check_layer(&spec, in, COUNT(in), out, COUNT(out));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ports");
    TCase *tcase = tcase_create("ports");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, routing);
    tcase_add_test(tcase, speech);
    tcase_add_test(tcase, causal);
    tcase_add_test(tcase, relational);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
