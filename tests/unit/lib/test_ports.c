/* test_ports.c - what a client is told of each layer in each mode: inputs and outputs, with type, shape
 * and whether they may be left out. */
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
    check_ports(ports, attn_layer_inputs(made.layer, NULL, ports), inputs, n_inputs);
    check_ports(ports, attn_layer_outputs(made.layer, NULL, ports), outputs, n_outputs);
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

/* ---- modes ----------------------------------------------------------------------------------- */

/* A port in one line: "name F32 -1 2", with "?" after the name of what is optional. */
static void check_line(const struct attn_port *port, const char *expected)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%s%s %s", port->name, port->optional ? "?" : "",
                     attn_dtype_name(port->dtype));
    for (size_t i = 0; i < port->rank; i++) {
        n += snprintf(line + n, sizeof line - (size_t)n, " %lld",
                      (long long)port->shape[i]);
    }
    ck_assert_str_eq(line, expected);
}

static void check_lines(const struct attn_port *ports, size_t n, const char *const *lines)
{
    for (size_t i = 0; i < n && lines[i]; i++) {
        check_line(&ports[i], lines[i]);
    }
    ck_assert_msg(lines[n] == NULL, "%zu ports, then %s is missing", n, lines[n]);
}

/* The ports of a mode; both lists end with NULL. */
static void check_mode(const attn_layer *layer, const struct attn_mode *mode,
                       const char *const *inputs, const char *const *outputs)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    check_lines(ports, attn_layer_inputs(layer, mode, ports), inputs);
    check_lines(ports, attn_layer_outputs(layer, mode, ports), outputs);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct attn_mode inference = {.size = sizeof inference},
                              training = {.size = sizeof training, .training = true},
                              draws = {.size = sizeof draws,
                                       .training = true,
                                       .n_draws = 3},
                              gradient = {.size = sizeof gradient, .gradient = true},
                              both = {.size = sizeof both,
                                      .training = true,
                                      .gradient = true};

/* Scores alone have one output, so its cotangent is needed, and nothing to drop. */
START_TEST(modes_of_scores)
{
    const char *query = "query F32 -1 -1 -1", *key = "key F32 -1 -1 -1",
               *mask = "mask? BOOL -1 -1 -1", *logits = "logits F32 -1 -1 -1";
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    check_mode(made.layer, &inference, LINES(query, key, mask), LINES(logits));
    check_mode(made.layer, &training, LINES(query, key, mask), LINES(logits));
    check_mode(made.layer, &draws, LINES(query, key, mask),
               LINES("logits F32 -1 -1 -1 -1", "logits.mean? F32 -1 -1 -1",
                     "logits.variance? F32 -1 -1 -1"));
    check_mode(made.layer, &gradient, LINES(query, key, mask, "grad_output F32 -1 -1 -1"),
               LINES("logits? F32 -1 -1 -1", "grad_query F32 -1 -1 -1",
                     "grad_key F32 -1 -1 -1"));
    made_free(&made);
}
END_TEST

START_TEST(modes_of_rows)
{
    const char *q = "q F32 -1 -1 6", *h = "h? F32 -1 -1 6", *mask = "mask? BOOL -1 -1 -1";
    struct attn_spec spec = good_spec(
        "routing_mha_proj", LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2)));
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    check_mode(made.layer, &training,
               LINES(q, h, mask, "dropout_uniform? F32 -1 2 -1 -1"),
               LINES("out F32 -1 -1 6", "attention? F32 -1 2 -1 -1"));
    check_mode(made.layer, &draws, LINES(q, h, mask),
               LINES("out F32 -1 -1 -1 6", "attention? F32 -1 -1 2 -1 -1",
                     "out.mean? F32 -1 -1 6", "out.variance? F32 -1 -1 6",
                     "attention.mean? F32 -1 2 -1 -1",
                     "attention.variance? F32 -1 2 -1 -1"));
    check_mode(
        made.layer, &gradient,
        LINES(q, h, mask, "grad_output? F32 -1 -1 6", "grad_attention? F32 -1 2 -1 -1"),
        LINES("out? F32 -1 -1 6", "attention? F32 -1 2 -1 -1", "grad_q F32 -1 -1 6",
              "grad_h F32 -1 -1 6", "grad.queryEncoder.weight F32 6 6",
              "grad.keyEncoder.weight F32 6 6", "grad.valueEncoder.weight F32 6 6",
              "grad.MHA.project_out.weight F32 6 6"));
    made_free(&made);
}
END_TEST

/* What is kept of a batch comes when it is asked for; draws are taken wherever something is dropped. */
START_TEST(modes_of_modules)
{
    const char *input = "input F32 -1 6 4", *output = "output F32 -1 6 4",
               *attention = "attention? F32 -1 2 -1 -1",
               *mean = "state.normalisation.running_mean? F32 6 4",
               *variance = "state.normalisation.running_var? F32 6 4",
               *of_attention = "dropout_uniform? F32 -1 2 -1 -1",
               *of_activation = "activation_uniform? F32 -1 6 4";
    struct attn_spec spec = good_spec(
        "causal_mha", LIST(ints_option("output_shape", 2, 6, 4), attn_int("n_heads", 2),
                           module_option("normalisation", "BatchNorm", NULL, 0),
                           module_option("activation", "Dropout", NULL, 0)));
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    check_mode(made.layer, &inference, LINES(input), LINES(output, attention));
    check_mode(made.layer, &training, LINES(input, of_attention, of_activation),
               LINES(output, attention, mean, variance));
    check_mode(made.layer, &draws, LINES(input),
               LINES("output F32 -1 -1 6 4", "attention? F32 -1 -1 2 -1 -1",
                     "output.mean? F32 -1 6 4", "output.variance? F32 -1 6 4",
                     "attention.mean? F32 -1 2 -1 -1",
                     "attention.variance? F32 -1 2 -1 -1"));
    check_mode(made.layer, &both,
               LINES(input, of_attention, of_activation, "grad_output? F32 -1 6 4",
                     "grad_attention? F32 -1 2 -1 -1"),
               LINES("output? F32 -1 6 4", attention, "grad_input F32 -1 6 4",
                     "grad.input_linear.weights F32 4 12",
                     "grad.input_linear.biases F32 12",
                     "grad.normalisation.gamma F32 6 4",
                     "grad.normalisation.beta F32 6 4", mean, variance));
    made_free(&made);
}
END_TEST

/* Of inputs, floats alone have a gradient. */
START_TEST(modes_of_relations)
{
    struct attn_spec spec =
        good_spec("relational_mha",
                  LIST(attn_int("num_heads", 3), attn_int("num_edge_types", 2),
                       attn_int("key_query_dimension", 5), attn_int("value_dimension", 4),
                       attn_int("output_dimension", 7), attn_real("dropout_rate", 0.5),
                       attn_bool("use_edge_value_biases", true)));
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    check_mode(
        made.layer, &both,
        LINES("queries F32 -1 -1 3 5", "keys F32 -1 -1 3 5", "values F32 -1 -1 3 4",
              "masked_elements? BOOL -1 -1 -1", "edges? I64 -1 3", "edge_types? I64 -1",
              "dense_relations_kq? F32 -1 -1 -1 3",
              "dense_relations_kv? F32 -1 -1 -1 3 4", "dropout_uniform? F32 -1 3 -1 -1",
              "grad_output? F32 -1 -1 7", "grad_attention? F32 -1 3 -1 -1"),
        LINES("output? F32 -1 -1 7", "attention? F32 -1 3 -1 -1",
              "grad_queries F32 -1 -1 3 5", "grad_keys F32 -1 -1 3 5",
              "grad_values F32 -1 -1 3 4", "grad_dense_relations_kq F32 -1 -1 -1 3",
              "grad_dense_relations_kv F32 -1 -1 -1 3 4",
              "grad._out_proj.weight F32 7 12",
              "grad._edge_attention_biases.weight F32 2 15",
              "grad._edge_value_biases.weight F32 2 12"));
    made_free(&made);
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
    tcase_add_test(tcase, modes_of_scores);
    tcase_add_test(tcase, modes_of_rows);
    tcase_add_test(tcase, modes_of_modules);
    tcase_add_test(tcase, modes_of_relations);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
