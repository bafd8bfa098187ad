/* test_rows.c - rows that are blocked, infinite or NaN: what stays in a row, what reaches the output,
 * what is zero. And edges that point outside. */
#include "unit/lib/run_call.h"

/* ---- a layer whose output is its values ------------------------------------------------------- */

#define N_KEYS 5
#define WIDTH 2

/* routing_mha of one head whose output projection is the identity; scores of a query of ones are the
 * keys' sums over sqrt(2). */
static attn_layer *identity_layer(enum attn_empty_rows empty_rows)
{
    static const float identity[WIDTH * WIDTH] = {1, 0, 0, 1};
    const struct attn_named_tensor tensor = {"project_out.weight",
                                             {ATTN_F32, 2, {WIDTH, WIDTH}, identity}};
    struct attn_spec spec = good_spec(
        "routing_mha", LIST(attn_int("embedding_dim", WIDTH), attn_int("n_heads", 1)));
    spec.empty_rows = empty_rows;
    size_t n_bytes;
    unsigned char *file = weights_file(&tensor, 1, &n_bytes);
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    ck_assert_int_eq(attn_weights_parse(file, n_bytes, &weights, NULL), ATTN_OK);
    ck_assert_int_eq(attn_layer_create(&spec, weights, &layer, NULL), ATTN_OK);
    attn_weights_free(weights);
    free(file);
    return layer;
}

/* Two queries of ones, keys of zeros, values of ones, nothing blocked. */
struct rows {
    struct call call;
    float *query, *key, *value;
    unsigned char *mask; /* [2, N_KEYS] */
    struct results results;
    const float *attention, *out;
};

static struct rows make_rows(void)
{
    struct rows rows = {0};
    const size_t two[] = {1, 2, WIDTH}, keys[] = {1, N_KEYS, WIDTH}, mask[] = {2, N_KEYS};
    rows.query = call_add(&rows.call, "query", ATTN_F32, 3, two);
    rows.key = call_add(&rows.call, "key", ATTN_F32, 3, keys);
    rows.value = call_add(&rows.call, "value", ATTN_F32, 3, keys);
    rows.mask = call_add(&rows.call, "mask", ATTN_BOOL, 2, mask);
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        rows.query[i] = 1;
    }
    for (size_t i = 0; i < N_KEYS * WIDTH; i++) {
        rows.value[i] = 1;
    }
    return rows;
}

static void run_rows(struct rows *rows, enum attn_empty_rows empty_rows)
{
    static const char *const names[] = {"attention", "out"};
    attn_layer *layer = identity_layer(empty_rows);
    rows->results = run_call(layer, &rows->call, names, 2, INLINE);
    check_same_bits(layer, &rows->call, names, 2, &rows->results);
    rows->attention = rows->results.outputs[0];
    rows->out = rows->results.outputs[1];
    attn_layer_free(layer);
}

static void rows_free(struct rows *rows)
{
    results_free(&rows->results);
    call_free(&rows->call);
}

static void all_equal(const float *x, size_t n, float expected)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(isnan(expected) ? isnan(x[i]) : fabsf(x[i] - expected) < 1e-6f,
                      "at %zu: expected %g, got %g", i, (double)expected, (double)x[i]);
    }
}

START_TEST(blocked_row)
{
    for (int nan = 0; nan < 2; nan++) {
        struct rows rows = make_rows();
        memset(rows.mask, 1, N_KEYS);
        run_rows(&rows, nan ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO);
        all_equal(rows.attention, N_KEYS, nan ? NAN : 0);
        all_equal(rows.out, WIDTH, nan ? NAN : 0);
        all_equal(rows.attention + N_KEYS, N_KEYS, 1.0f / N_KEYS);
        all_equal(rows.out + WIDTH, WIDTH, 1);
        rows_free(&rows);
    }
}
END_TEST

/* Padding may hold anything: a blocked key's value does not reach the output, nor does its score. */
START_TEST(garbage_in_blocked_keys)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < COUNT(garbage); k++) {
        struct rows rows = make_rows();
        for (size_t d = 0; d < WIDTH; d++) {
            rows.key[3 * WIDTH + d] = garbage[k];
            rows.value[3 * WIDTH + d] = garbage[(k + d) % 3];
        }
        rows.mask[3] = rows.mask[N_KEYS + 3] = 1;
        run_rows(&rows, ATTN_EMPTY_NAN);
        ck_assert_float_eq(rows.attention[3], 0);
        all_equal(rows.attention, 3, 0.25f);
        all_equal(rows.out, 2 * WIDTH, 1);
        rows_free(&rows);
    }
}
END_TEST

/* An open key counts: NaN in its score makes the row NaN, blocked keys and all. */
START_TEST(nan_in_open_keys)
{
    struct rows rows = make_rows();
    rows.key[2 * WIDTH] = NAN;
    rows.mask[4] = 1;
    rows.mask[N_KEYS + 2] = 1; /* the second query does not see it */
    run_rows(&rows, ATTN_EMPTY_ZERO);
    all_equal(rows.attention, N_KEYS, NAN);
    all_equal(rows.out, WIDTH, NAN);
    all_equal(rows.out + WIDTH, WIDTH, 1);
    rows_free(&rows);

    rows = make_rows();
    rows.value[2 * WIDTH] = NAN;
    run_rows(&rows, ATTN_EMPTY_ZERO);
    all_equal(rows.attention, 2 * N_KEYS, 1.0f / N_KEYS);
    ck_assert(isnan(rows.out[0]) && isnan(rows.out[WIDTH]));
    rows_free(&rows);
}
END_TEST

/* Scores that are -inf by themselves are as good as blocked; +inf has no share that is a number. */
START_TEST(infinite_scores)
{
    struct rows rows = make_rows();
    for (size_t j = 0; j < N_KEYS * WIDTH; j++) {
        rows.key[j] = -INFINITY;
    }
    run_rows(&rows, ATTN_EMPTY_ZERO);
    all_equal(rows.attention, 2 * N_KEYS, 0);
    all_equal(rows.out, 2 * WIDTH, 0);
    rows_free(&rows);
    rows = make_rows();
    rows.key[0] = INFINITY;
    run_rows(&rows, ATTN_EMPTY_ZERO);
    ck_assert(isnan(rows.attention[0]) && isnan(rows.out[0]));
    rows_free(&rows);
}
END_TEST

/* Scores far apart: the share of all but the largest is 0, and nothing overflows. */
START_TEST(huge_scores)
{
    struct rows rows = make_rows();
    for (size_t j = 0; j < N_KEYS; j++) {
        rows.key[j * WIDTH] = j == 2 ? 3e38f : -3e38f;
        rows.value[j * WIDTH] = j == 2 ? 7 : 1e30f;
    }
    run_rows(&rows, ATTN_EMPTY_NAN);
    all_equal(rows.attention + 2, 1, 1);
    all_equal(rows.out, 1, 7);
    rows_free(&rows);
}
END_TEST

/* The causal bound is a mask like any other: NaN in a later position stays there, and a row that is
 * NaN is NaN throughout. */
START_TEST(causal_nan)
{
    static const char *const names[] = {"attention", "output"};
    struct attn_spec spec =
        good_spec("causal_mha", LIST(ints_option("output_shape", 2, 40, 3)));
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    for (size_t spoilt = 0; spoilt < 40; spoilt += 13) {
        struct call call = {.n = 0};
        const size_t shape[] = {1, 40, 3};
        float *input = call_add_reals(&call, &dice, "input", 3, shape);
        input[spoilt * 3] = NAN;
        struct results results = run_call(made.layer, &call, names, 2, INLINE);
        for (size_t i = 0; i < 40 * 40; i++) {
            bool nan = i / 40 >= spoilt, later = i % 40 > i / 40;
            float p = results.outputs[0][i];
            ck_assert_msg(nan     ? isnan(p)
                          : later ? p == 0
                                  : p > 0,
                          "NaN at %zu: query %zu, key %zu: %g", spoilt, i / 40, i % 40,
                          (double)p);
        }
        for (size_t i = 0; i < 40 * 3; i++) {
            ck_assert(isnan(results.outputs[1][i]) == (i / 3 >= spoilt));
        }
        check_same_bits(made.layer, &call, names, 2, &results);
        results_free(&results);
        call_free(&call);
    }
    made_free(&made);
}
END_TEST

/* ---- relations ------------------------------------------------------------------------------- */

#define N_EDGES 4

/* One sample more than the first, 2 queries, 3 keys, 2 heads, edges all at (0, 0, 0) of type 0. */
struct related {
    struct made made;
    struct call call;
    int64_t *edges;
    int32_t *types;
};

static struct related make_related(void)
{
    struct related r = {0};
    struct dice dice = {1};
    struct attn_spec spec =
        good_spec("relational_mha",
                  LIST(attn_int("num_heads", 2), attn_int("num_edge_types", 3),
                       attn_int("key_query_dimension", 2), attn_int("value_dimension", 2),
                       attn_int("output_dimension", 2), attn_int("dropout_rate", 0),
                       attn_bool("use_edge_value_biases", true)));
    const size_t queries[] = {2, 2, 2, 2}, keys[] = {2, 3, 2, 2}, edges[] = {N_EDGES, 3};
    r.made = make_layer(&spec, &dice);
    call_add_reals(&r.call, &dice, "queries", 4, queries);
    call_add_reals(&r.call, &dice, "keys", 4, keys);
    call_add_reals(&r.call, &dice, "values", 4, keys);
    r.edges = call_add(&r.call, "edges", ATTN_I64, 2, edges);
    r.types = call_add(&r.call, "edge_types", ATTN_I32, 1, edges);
    return r;
}

static void related_free(struct related *r)
{
    call_free(&r->call);
    made_free(&r->made);
}

static void out_of_range(const struct related *r, const char *field, const char *part)
{
    static const enum way ways[] = {INLINE, THREADS};
    for (size_t w = 0; w < COUNT(ways); w++) {
        attn_plan *plan = NULL;
        struct attn_error error = {0};
        struct results results;
        ck_assert_int_eq(attn_plan_create(r->made.layer, r->call.inputs, r->call.n, NULL,
                                          0, &plan, &error),
                         ATTN_OK);
        ck_assert_int_eq(run_plan(plan, ways[w], &results, &error), ATTN_RANGE);
        ck_assert_int_eq(error.status, ATTN_RANGE);
        ck_assert_str_eq(error.field, field);
        ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
        results_free(&results);
        attn_plan_free(plan);
    }
}

START_TEST(edges_outside)
{
    static const char *const columns[] = {"a sample", "a source (query)",
                                          "a target (key)"};
    static const int64_t sizes[] = {2, 2, 3};
    const int64_t outside[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 32, 0};
    for (size_t row = 0; row < N_EDGES; row++) {
        for (size_t column = 0; column < 3; column++) {
            for (size_t k = 0; k < COUNT(outside); k++) {
                struct related r = make_related();
                int64_t value = outside[k] ? outside[k] : sizes[column];
                char part[160];
                snprintf(part, sizeof part,
                         "row %zu: expected %s of at least 0 and below %lld, got %lld",
                         row, columns[column], (long long)sizes[column],
                         (long long)value);
                r.edges[row * 3 + column] = value;
                out_of_range(&r, "edges", part);
                related_free(&r);
            }
        }
    }
}
END_TEST

START_TEST(types_outside)
{
    static const int32_t outside[] = {-1, 3, INT32_MIN, INT32_MAX};
    for (size_t k = 0; k < COUNT(outside); k++) {
        struct related r = make_related();
        char part[128];
        snprintf(part, sizeof part,
                 "row 2: expected a type of at least 0 and below 3, got %d", outside[k]);
        r.types[2] = outside[k];
        r.types[3] = outside[k]; /* the first is named */
        out_of_range(&r, "edge_types", part);
        related_free(&r);
    }
}
END_TEST

/* An edge onto a blocked key adds nothing, and -inf in a relation blocks as a mask does. */
START_TEST(edges_onto_blocked_keys)
{
    static const char *const names[] = {"attention", "output"};
    struct related r = make_related();
    const size_t mask_shape[] = {2, 3}, kq_shape[] = {2, 2, 3, 2},
                 kv_shape[] = {1, 1, 3, 1, 1};
    unsigned char *mask = call_add(&r.call, "masked_elements", ATTN_BOOL, 2, mask_shape);
    float *kv = call_add(&r.call, "dense_relations_kv", ATTN_F32, 5, kv_shape);
    struct results before[2];
    mask[0] = 1; /* key 0 of sample 0, which every edge points at */
    for (int k = 0; k < 2; k++) {
        kv[0] = k ? NAN : 0; /* key 0 of both samples */
        mask[3] = (unsigned char)k;
        before[k] = run_call(r.made.layer, &r.call, names, 2, INLINE);
    }
    for (size_t i = 0; i < 2 * 2 * 2; i++) {
        ck_assert(isfinite(before[1].outputs[1][i]));
    }
    ck_assert_mem_eq(before[0].outputs[1], before[1].outputs[1], 4 * sizeof(float));
    /* the same by -inf in a dense relation */
    float *kq = call_add(&r.call, "dense_relations_kq", ATTN_F32, 4, kq_shape);
    for (size_t i = 0; i < 2 * 2 * 3 * 2; i++) {
        kq[i] = i / 2 % 3 == 0 ? -INFINITY : 0;
    }
    memset(mask, 0, 6);
    struct results after = run_call(r.made.layer, &r.call, names, 2, INLINE);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_mem_eq(after.outputs[i], before[1].outputs[i],
                         count_of(&after.tensors[i]) * sizeof(float));
    }
    results_free(&before[0]);
    results_free(&before[1]);
    results_free(&after);
    related_free(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, blocked_row);
    tcase_add_test(tcase, garbage_in_blocked_keys);
    tcase_add_test(tcase, nan_in_open_keys);
    tcase_add_test(tcase, infinite_scores);
    tcase_add_test(tcase, huge_scores);
    tcase_add_test(tcase, causal_nan);
    tcase_add_test(tcase, edges_outside);
    tcase_add_test(tcase, types_outside);
    tcase_add_test(tcase, edges_onto_blocked_keys);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
