/* test_gradients_rows.c - gradients where there is little to differentiate: keys that nobody sees, axes
 * without elements, and rows of queries without an open key.
 *
 * Which gradients such rows make NaN:
 * Under ATTN_EMPTY_ZERO none: such a row is a constant. Under ATTN_EMPTY_NAN those that automatic
 * differentiation of the originals makes so (found by running them):
 *  - the row's probabilities p are NaN, so everything that they weigh has NaN for a gradient, whatever
 *    the cotangent: that head's values in that sample and what these were projected from; the row's dense
 *    value relations; the value biases of its edges; the output projection's columns of that head;
 *  - its scores pass on p * (g - sum p g), which is NaN, where a dense relation of -inf was added: to the
 *    query, the keys, the relation and the biases of edges; but 0 where a mask replaced the score. A row
 *    that a mask blocks in full thus passes nothing to queries and keys. */
#include "unit/lib/gradient_problem.h"
#include "unit/lib/written_inputs.h"

/* From first to below end. */
struct range {
    size_t first, end;
};

/* NaN in these ranges of the output's axes, and nowhere else; ranges NULL: nowhere. */
static void check_nan(const struct outcome *outcome, const char *name,
                      const struct range *ranges)
{
    size_t at = 0;
    while (at < outcome->n && strcmp(outcome->names[at], name) != 0) {
        at++;
    }
    ck_assert_msg(at < outcome->n, "no output %s", name);
    const struct attn_tensor *tensor = &outcome->tensors[at];
    for (size_t i = 0; i < count_of(tensor); i++) {
        bool inside = ranges != NULL;
        size_t rest = i;
        for (size_t axis = tensor->rank; inside && axis-- > 0;
             rest /= tensor->shape[axis]) {
            size_t index = rest % tensor->shape[axis];
            inside = index >= ranges[axis].first && index < ranges[axis].end;
        }
        ck_assert_msg(isnan(outcome->values[at][i]) == inside, "%s[%zu] is %g", name, i,
                      (double)outcome->values[at][i]);
    }
}

#define RANGES(...) ((const struct range[]){__VA_ARGS__})

static const size_t queries[] = {3, 7}; /* few, and many */

/* ---- blocked by a mask ------------------------------------------------------------------------- */

#define MODEL 6 /* two heads of 3 */
#define KEYS 4

/* which: of the cotangents, as problem_pose has it. */
static struct outcome run_blocked_head(struct problem *p, enum attn_empty_rows rule,
                                       size_t n_queries, unsigned which)
{
    const size_t q[] = {2, n_queries, MODEL}, h[] = {2, KEYS, MODEL},
                 mask_shape[] = {2, 2, n_queries, KEYS};
    p->dice.state = n_queries;
    p->spec = good_spec("routing_mha_proj",
                        LIST(attn_int("embedding_dim", MODEL), attn_int("n_heads", 2)));
    p->spec.empty_rows = rule;
    problem_make(p);
    call_add_reals(&p->call, &p->dice, "q", 3, q);
    call_add_reals(&p->call, &p->dice, "h", 3, h);
    unsigned char *mask = call_add(&p->call, "mask", ATTN_BOOL, 4, mask_shape);
    /* head 1, sample 0, query 1 */
    memset(mask + ((1 * 2 + 0) * n_queries + 1) * KEYS, 1, KEYS);
    problem_pose(p, which);
    return run_mode(p->made.layer, &p->mode, &p->call, NULL, 0, INLINE);
}

START_TEST(blocked_in_one_head)
{
    struct problem p = {.dice = {0}};
    struct outcome outcome = run_blocked_head(&p, ATTN_EMPTY_NAN, queries[_i], 1);
    check_nan(&outcome, "grad_q", NULL);
    check_nan(&outcome, "grad_h", RANGES({0, 1}, {0, KEYS}, {0, MODEL}));
    check_nan(&outcome, "grad.queryEncoder.weight", NULL);
    check_nan(&outcome, "grad.keyEncoder.weight", NULL);
    check_nan(&outcome, "grad.valueEncoder.weight", RANGES({3, MODEL}, {0, MODEL}));
    check_nan(&outcome, "grad.MHA.project_out.weight", RANGES({0, MODEL}, {3, MODEL}));
    outcome_free(&outcome);
    problem_free(&p);
    p = (struct problem){.dice = {0}};
    outcome = run_blocked_head(&p, ATTN_EMPTY_ZERO, queries[_i], 1);
    for (size_t i = 0; i < outcome.n; i++) {
        check_nan(&outcome, outcome.names[i], NULL);
    }
    outcome_free(&outcome);
    problem_free(&p);
}
END_TEST

/* A cotangent of the probabilities alone passes nothing through values, whose weights are NaN, and
 * nothing through scores that a mask has set. */
START_TEST(blocked_with_attention_alone)
{
    struct problem p = {.dice = {0}};
    struct outcome outcome = run_blocked_head(&p, ATTN_EMPTY_NAN, queries[_i], 2);
    for (size_t i = 0; i < outcome.n; i++) {
        check_nan(&outcome, outcome.names[i], NULL);
    }
    outcome_free(&outcome);
    problem_free(&p);
}
END_TEST

/* ---- blocked by a mask or by -inf ---------------------------------------------------------------- */

#define TYPES 3
#define WIDTH 2
#define VALUE_WIDTH 3
#define OUTPUT 5

static struct attn_spec relational_spec(void)
{
    return good_spec("relational_mha",
                     LIST(attn_int("num_heads", 2), attn_int("num_edge_types", TYPES),
                          attn_int("key_query_dimension", WIDTH),
                          attn_int("value_dimension", VALUE_WIDTH),
                          attn_int("output_dimension", OUTPUT),
                          attn_int("dropout_rate", 0),
                          attn_bool("use_edge_value_biases", true)));
}

static void add_relations(struct problem *p, size_t n_queries, bool by_mask)
{
    static const int64_t edges[][3] = {{0, 1, 2}, {0, 1, 2}, {1, 0, 0}, {0, 0, 1}};
    static const int64_t types[] = {0, 1, 2, 2};
    const size_t edges_shape[] = {4, 3}, mask_shape[] = {2, n_queries, KEYS},
                 kq_shape[] = {2, n_queries, KEYS, 2},
                 kv_shape[] = {2, n_queries, KEYS, 2, VALUE_WIDTH};
    memcpy(call_add(&p->call, "edges", ATTN_I64, 2, edges_shape), edges, sizeof edges);
    memcpy(call_add(&p->call, "edge_types", ATTN_I64, 1, edges_shape), types,
           sizeof types);
    float *kq = call_add_reals(&p->call, &p->dice, "dense_relations_kq", 4, kq_shape);
    call_add_reals(&p->call, &p->dice, "dense_relations_kv", 5, kv_shape);
    unsigned char *mask = call_add(&p->call, "masked_elements", ATTN_BOOL, 3, mask_shape);
    /* query 1 of sample 0: by the mask alone; or its first key, and all others in head 1 by -inf */
    memset(mask + KEYS, 1, by_mask ? KEYS : 1);
    for (size_t j = 0; !by_mask && j < KEYS; j++) {
        kq[(KEYS + j) * 2 + 1] = -INFINITY;
    }
}

static struct outcome run_related(struct problem *p, size_t n_queries, bool by_mask)
{
    const size_t q[] = {2, n_queries, 2, WIDTH}, k[] = {2, KEYS, 2, WIDTH},
                 v[] = {2, KEYS, 2, VALUE_WIDTH};
    p->dice.state = n_queries;
    p->spec = relational_spec();
    p->spec.empty_rows = ATTN_EMPTY_NAN;
    problem_make(p);
    call_add_reals(&p->call, &p->dice, "queries", 4, q);
    call_add_reals(&p->call, &p->dice, "keys", 4, k);
    call_add_reals(&p->call, &p->dice, "values", 4, v);
    add_relations(p, n_queries, by_mask);
    problem_pose(p, 1);
    return run_mode(p->made.layer, &p->mode, &p->call, NULL, 0, INLINE);
}

START_TEST(blocked_by_mask)
{
    struct problem p = {.dice = {0}};
    struct outcome outcome = run_related(&p, queries[_i], true);
    check_nan(&outcome, "grad_queries", NULL);
    check_nan(&outcome, "grad_keys", NULL);
    check_nan(&outcome, "grad_dense_relations_kq", NULL);
    check_nan(&outcome, "grad._edge_attention_biases.weight", NULL);
    check_nan(&outcome, "grad_values",
              RANGES({0, 1}, {0, KEYS}, {0, 2}, {0, VALUE_WIDTH}));
    check_nan(&outcome, "grad_dense_relations_kv",
              RANGES({0, 1}, {1, 2}, {0, KEYS}, {0, 2}, {0, VALUE_WIDTH}));
    check_nan(&outcome, "grad._edge_value_biases.weight",
              RANGES({0, 2}, {0, 2 * VALUE_WIDTH}));
    check_nan(&outcome, "grad._out_proj.weight",
              RANGES({0, OUTPUT}, {0, 2 * VALUE_WIDTH}));
    outcome_free(&outcome);
    problem_free(&p);
}
END_TEST

START_TEST(blocked_by_infinity)
{
    struct problem p = {.dice = {0}};
    struct outcome outcome = run_related(&p, queries[_i], false);
    check_nan(&outcome, "grad_queries", RANGES({0, 1}, {1, 2}, {1, 2}, {0, WIDTH}));
    check_nan(&outcome, "grad_keys", RANGES({0, 1}, {1, KEYS}, {1, 2}, {0, WIDTH}));
    check_nan(&outcome, "grad_dense_relations_kq",
              RANGES({0, 1}, {1, 2}, {1, KEYS}, {1, 2}));
    check_nan(&outcome, "grad._edge_attention_biases.weight",
              RANGES({0, 2}, {WIDTH, 2 * WIDTH}));
    check_nan(&outcome, "grad_values",
              RANGES({0, 1}, {0, KEYS}, {1, 2}, {0, VALUE_WIDTH}));
    check_nan(&outcome, "grad_dense_relations_kv",
              RANGES({0, 1}, {1, 2}, {0, KEYS}, {1, 2}, {0, VALUE_WIDTH}));
    check_nan(&outcome, "grad._edge_value_biases.weight",
              RANGES({0, 2}, {VALUE_WIDTH, 2 * VALUE_WIDTH}));
    check_nan(&outcome, "grad._out_proj.weight",
              RANGES({0, OUTPUT}, {VALUE_WIDTH, 2 * VALUE_WIDTH}));
    outcome_free(&outcome);
    problem_free(&p);
}
END_TEST

/* ---- padding ----------------------------------------------------------------------------------- */

#define PADDED \
    3 /* the key that is blocked for all queries of sample 0, and an edge points at */

static struct outcome run_padded(size_t n_queries, float garbage)
{
    struct problem p = {.dice = {n_queries}};
    const size_t q[] = {2, n_queries, 2, WIDTH}, k[] = {2, KEYS, 2, WIDTH},
                 v[] = {2, KEYS, 2, VALUE_WIDTH}, mask_shape[] = {2, KEYS},
                 edges_shape[] = {2, 3};
    static const int64_t edges[][3] = {{0, 1, PADDED}, {0, 1, 0}}, types[] = {1, 0};
    p.spec = relational_spec();
    problem_make(&p);
    call_add_reals(&p.call, &p.dice, "queries", 4, q);
    float *key = call_add_reals(&p.call, &p.dice, "keys", 4, k),
          *value = call_add_reals(&p.call, &p.dice, "values", 4, v);
    unsigned char *mask = call_add(&p.call, "masked_elements", ATTN_BOOL, 2, mask_shape);
    memcpy(call_add(&p.call, "edges", ATTN_I64, 2, edges_shape), edges, sizeof edges);
    memcpy(call_add(&p.call, "edge_types", ATTN_I64, 1, edges_shape), types,
           sizeof types);
    mask[PADDED] = 1;
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        key[PADDED * 2 * WIDTH + i] = garbage;
    }
    for (size_t i = 0; i < 2 * VALUE_WIDTH; i++) {
        value[PADDED * 2 * VALUE_WIDTH + i] = garbage;
    }
    problem_pose(&p, 3);
    struct outcome outcome = run_mode(p.made.layer, &p.mode, &p.call, NULL, 0, INLINE);
    problem_free(&p);
    return outcome;
}

/* What a blocked key holds reaches no gradient, and its own are 0: padding may hold anything, as in a
 * forward. (Automatic differentiation of the originals makes NaN of everything.) Sums may be formed in
 * another order. */
START_TEST(garbage_in_blocked_keys)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    struct outcome clean = run_padded(queries[_i], 0);
    for (size_t k = 0; k < COUNT(garbage); k++) {
        struct outcome outcome = run_padded(queries[_i], garbage[k]);
        for (size_t i = 0; i < outcome.n; i++) {
            for (size_t at = 0; at < count_of(&outcome.tensors[i]); at++) {
                double x = (double)outcome.values[i][at], y = (double)clean.values[i][at];
                ck_assert_msg(fabs(x - y) <= 1e-6, "%s[%zu]: %g, not %g",
                              outcome.names[i], at, x, y);
            }
        }
        outcome_free(&outcome);
    }
    outcome_free(&clean);
}
END_TEST

/* ---- axes without elements ----------------------------------------------------------------------- */

/* Nothing may walk over the other axes, however long: this returns at once, needs little memory,
 * and gradients of parameters are sums of nothing. */
static void run_empty(const attn_layer *layer, const char *inputs)
{
    const struct attn_mode mode = {.size = sizeof mode, .gradient = true};
    struct written written;
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    struct outcome outcome;
    static const float data[256];
    size_t n_bytes = 0;
    read_written(&written, inputs);
    for (size_t i = 0; i < written.n; i++) {
        ck_assert_uint_le(count_of(&written.inputs[i].tensor), COUNT(data));
        written.inputs[i].tensor.data = data;
    }
    enum attn_status status =
        attn_plan_create(layer, &mode, written.inputs, written.n, NULL, 0, &plan, &error);
    ck_assert_msg(status == ATTN_OK, "%s: %s", inputs, error.message);
    ck_assert_int_eq(attn_plan_scratch(plan, 1, &n_bytes), ATTN_OK);
    ck_assert_uint_le(n_bytes, 1 << 20);
    status = run_outcome(plan, INLINE, &outcome, &error);
    ck_assert_msg(status == ATTN_OK, "%s: %s", inputs, error.message);
    for (size_t i = 0; i < outcome.n; i++) {
        check_nan(&outcome, outcome.names[i], NULL);
        for (size_t k = 0; k < count_of(&outcome.tensors[i]); k++) {
            ck_assert_msg(outcome.values[i][k] == 0, "%s", outcome.names[i]);
        }
    }
    outcome_free(&outcome);
    attn_plan_free(plan);
}

#define H HUGE_AXIS

START_TEST(empty_axes)
{
    struct made made = make("routing_mha", MODEL_6_2);
    run_empty(made.layer, "query F32 0 " H " 8; key F32 0 " H " 8; value F32 0 " H
                          " 6; mask BOOL 1 0 1 " H "; grad_output F32 0 " H " 6");
    run_empty(made.layer, "query F32 " H " 0 8; key F32 " H " 0 8; value F32 " H
                          " 0 6; grad_attention F32 " H " 2 0 0");
    made_free(&made);
    made = make("routing_score", NULL, 0);
    run_empty(made.layer, "query F32 0 " H " 3; key F32 0 " H " 3; mask BOOL 0 " H
                          " 1; grad_output F32 0 " H " " H);
    run_empty(made.layer,
              "query F32 1 " H " 0 3; key F32 5 3; grad_output F32 1 " H " 0 5");
    run_empty(made.layer,
              "query F32 2 3; key F32 1 " H " 0 3; grad_output F32 1 " H " 2 0");
    made_free(&made);
    made = make("speech_mha", SPEECH_4_8);
    run_empty(made.layer, "q F32 2 0 8; k F32 2 5 8; v F32 2 5 8; grad_output F32 2 0 8");
    run_empty(made.layer,
              "q F32 0 " H " 8; k F32 0 " H " 8; v F32 0 " H " 8; grad_output F32 0 " H
              " 8; grad_attention F32 0 4 " H " " H);
    made_free(&made);
    made = make("causal_mha",
                LIST(ints_option("output_shape", 2, 6, 4),
                     module_option("activation", "SoftMax", LIST(attn_int("dim", 0)))));
    run_empty(made.layer, "input F32 " H " 0 4; grad_output F32 " H " 0 4");
    made_free(&made);
    made = make("relational_mha", RELATIONAL_3_5_2_7);
    run_empty(made.layer,
              "queries F32 " H " 0 3 5; keys F32 " H " 0 3 5; values F32 " H
              " 0 3 2; edges I64 0 3; edge_types I32 0; dense_relations_kv F32 " H
              " 0 0 3 2; grad_output F32 " H " 0 7");
    made_free(&made);
}
END_TEST

/* Without keys an output depends on nothing but its layer's bias. */
START_TEST(no_keys)
{
    for (size_t k = 0; k < COUNT(queries); k++) {
        const size_t q[] = {2, queries[k], 8}, kv[] = {2, 0, 8};
        struct problem p = {.dice = {k}};
        p.spec = good_spec("speech_mha", SPEECH_4_8);
        problem_make(&p);
        call_add_reals(&p.call, &p.dice, "q", 3, q);
        call_add_reals(&p.call, &p.dice, "k", 3, kv);
        call_add_reals(&p.call, &p.dice, "v", 3, kv);
        problem_pose(&p, 1);
        check_problem(&p, 100);
        problem_free(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients of blocked rows");
    TCase *tcase = tcase_create("blocked rows");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_loop_test(tcase, blocked_with_attention_alone, 0, COUNT(queries));
    tcase_add_loop_test(tcase, blocked_in_one_head, 0, (int)COUNT(queries));
    tcase_add_loop_test(tcase, blocked_by_mask, 0, (int)COUNT(queries));
    tcase_add_loop_test(tcase, blocked_by_infinity, 0, (int)COUNT(queries));
    tcase_add_loop_test(tcase, garbage_in_blocked_keys, 0, (int)COUNT(queries));
    tcase_add_test(tcase, empty_axes);
    tcase_add_test(tcase, no_keys);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
