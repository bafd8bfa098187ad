/* test_rows.c - rows that are blocked, infinite or NaN: what stays in a row, what reaches the output,
 * what is zero. And edges that point outside. */
#include "unit/lib/run_call.h"

/* ---- a layer whose output is its values ------------------------------------------------------- */

#define WIDTH 2

/* Queries and keys: few and many, one tile of either and several. */
static const size_t row_sizes[][2] = {{2, 5},     {4, 15},    {5, 16},    {6, 17},
                                      {111, 128}, {112, 127}, {113, 129}, {225, 257}};

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

/* Queries of ones, keys of zeros, values of ones, nothing blocked. */
struct rows {
    size_t n_queries, n_keys;
    size_t spot; /* a key that is neither the first nor the last */
    struct call call;
    float *query, *key, *value;
    unsigned char *mask; /* [queries, keys] */
    struct results results;
    const float *attention, *out;
};

static struct rows make_rows(size_t size)
{
    struct rows rows = {.n_queries = row_sizes[size][0], .n_keys = row_sizes[size][1]};
    const size_t queries[] = {1, rows.n_queries, WIDTH}, keys[] = {1, rows.n_keys, WIDTH};
    rows.spot = rows.n_keys * 2 / 3;
    rows.query = call_add(&rows.call, "query", ATTN_F32, 3, queries);
    rows.key = call_add(&rows.call, "key", ATTN_F32, 3, keys);
    rows.value = call_add(&rows.call, "value", ATTN_F32, 3, keys);
    for (size_t i = 0; i < rows.n_queries * WIDTH; i++) {
        rows.query[i] = 1;
    }
    for (size_t i = 0; i < rows.n_keys * WIDTH; i++) {
        rows.value[i] = 1;
    }
    return rows;
}

static void add_mask(struct rows *rows)
{
    const size_t shape[] = {rows->n_queries, rows->n_keys};
    rows->mask = call_add(&rows->call, "mask", ATTN_BOOL, 2, shape);
}

/* Block a key for the queries from `first` on. */
static void block_key(struct rows *rows, size_t first, size_t key)
{
    for (size_t i = first; i < rows->n_queries; i++) {
        rows->mask[i * rows->n_keys + key] = 1;
    }
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

/* Shares are sums of up to 257 floats: right to 1e-6. */
static void all_equal(const float *x, size_t n, float expected)
{
    for (size_t i = 0; i < n; i++) {
        if (!(isnan(expected) ? isnan(x[i]) : fabsf(x[i] - expected) < 1e-6f)) {
            ck_abort_msg("at %zu: expected %g, got %g", i, (double)expected,
                         (double)x[i]);
        }
    }
}

/* The first row and the last have every key blocked. */
START_TEST(blocked_row)
{
    for (int nan = 0; nan < 2; nan++) {
        struct rows rows = make_rows((size_t)_i);
        size_t n_keys = rows.n_keys, last = rows.n_queries - 1;
        add_mask(&rows);
        memset(rows.mask, 1, n_keys);
        memset(rows.mask + last * n_keys, 1, n_keys);
        run_rows(&rows, nan ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO);
        all_equal(rows.attention, n_keys, nan ? NAN : 0);
        all_equal(rows.out, WIDTH, nan ? NAN : 0);
        all_equal(rows.attention + n_keys, (last - 1) * n_keys, 1 / (float)n_keys);
        all_equal(rows.out + WIDTH, (last - 1) * WIDTH, 1);
        all_equal(rows.attention + last * n_keys, n_keys, nan ? NAN : 0);
        all_equal(rows.out + last * WIDTH, WIDTH, nan ? NAN : 0);
        rows_free(&rows);
    }
}
END_TEST

/* All keys blocked but one, wherever it is: whole tiles of blocked keys before it and behind. */
START_TEST(one_open_key)
{
    for (size_t open = 0; open < row_sizes[_i][1]; open += 1 + open / 3) {
        struct rows rows = make_rows((size_t)_i);
        add_mask(&rows);
        memset(rows.mask, 1, rows.n_queries * rows.n_keys);
        for (size_t i = 0; i < rows.n_queries; i++) {
            rows.mask[i * rows.n_keys + open] = 0;
        }
        rows.value[open * WIDTH] = 7;
        run_rows(&rows, ATTN_EMPTY_NAN);
        for (size_t i = 0; i < rows.n_queries; i++) {
            const float *row = rows.attention + i * rows.n_keys;
            all_equal(row, open, 0);
            all_equal(row + open, 1, 1);
            all_equal(row + open + 1, rows.n_keys - open - 1, 0);
            all_equal(rows.out + i * WIDTH, 1, 7);
        }
        rows_free(&rows);
    }
}
END_TEST

/* Padding may hold anything: a blocked key's value does not reach the output, nor does its score. */
START_TEST(garbage_in_blocked_keys)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < COUNT(garbage); k++) {
        struct rows rows = make_rows((size_t)_i);
        add_mask(&rows);
        for (size_t d = 0; d < WIDTH; d++) {
            rows.key[rows.spot * WIDTH + d] = garbage[k];
            rows.value[rows.spot * WIDTH + d] = garbage[(k + d) % 3];
        }
        block_key(&rows, 0, rows.spot);
        run_rows(&rows, ATTN_EMPTY_NAN);
        for (size_t i = 0; i < rows.n_queries; i++) {
            const float *row = rows.attention + i * rows.n_keys;
            ck_assert_float_eq(row[rows.spot], 0);
            all_equal(row, rows.spot, 1 / (float)(rows.n_keys - 1));
        }
        all_equal(rows.out, rows.n_queries * WIDTH, 1);
        rows_free(&rows);
    }
}
END_TEST

/* An open key counts: NaN in its score makes the row NaN, blocked keys and all. The bits of a NaN do
 * not matter. */
START_TEST(nan_in_open_keys)
{
    static const uint32_t bits[] = {0x7fc00000, 0x7fc00001, 0xffc00155, 0x7f800001};
    for (size_t k = 0; k < COUNT(bits); k++) {
        struct rows rows = make_rows((size_t)_i);
        add_mask(&rows);
        memcpy(&rows.key[rows.spot * WIDTH], &bits[k], sizeof bits[k]);
        rows.mask[rows.n_keys - 1] = 1;
        block_key(&rows, 1, rows.spot); /* the other queries do not see it */
        run_rows(&rows, ATTN_EMPTY_ZERO);
        all_equal(rows.attention, rows.n_keys, NAN);
        all_equal(rows.out, WIDTH, NAN);
        all_equal(rows.out + WIDTH, (rows.n_queries - 1) * WIDTH, 1);
        rows_free(&rows);

        rows = make_rows((size_t)_i);
        memcpy(&rows.value[rows.spot * WIDTH], &bits[k], sizeof bits[k]);
        run_rows(&rows, ATTN_EMPTY_ZERO);
        all_equal(rows.attention, rows.n_queries * rows.n_keys, 1 / (float)rows.n_keys);
        for (size_t i = 0; i < rows.n_queries; i++) {
            ck_assert(isnan(rows.out[i * WIDTH]));
        }
        rows_free(&rows);
    }
}
END_TEST

/* Scores that are -inf by themselves are as good as blocked; +inf has no share that is a number. */
START_TEST(infinite_scores)
{
    struct rows rows = make_rows((size_t)_i);
    for (size_t j = 0; j < rows.n_keys * WIDTH; j++) {
        rows.key[j] = -INFINITY;
    }
    run_rows(&rows, ATTN_EMPTY_ZERO);
    all_equal(rows.attention, rows.n_queries * rows.n_keys, 0);
    all_equal(rows.out, rows.n_queries * WIDTH, 0);
    rows_free(&rows);
    rows = make_rows((size_t)_i);
    rows.key[0] = INFINITY;
    run_rows(&rows, ATTN_EMPTY_ZERO);
    all_equal(rows.attention, rows.n_queries * rows.n_keys, NAN);
    all_equal(rows.out, rows.n_queries * WIDTH, NAN);
    rows_free(&rows);
}
END_TEST

/* Scores far apart: the share of all but the largest is 0, and nothing overflows, whether the scores
 * are scaled on the way (no mask) or before. Equal ones have equal shares however large they are. */
START_TEST(huge_scores)
{
    static const float largest[] = {3e38f, 1e10f, 3e6f};
    for (size_t k = 0; k < 2 * COUNT(largest); k++) {
        struct rows rows = make_rows((size_t)_i);
        if (k % 2) {
            add_mask(&rows);
        }
        for (size_t j = 0; j < rows.n_keys; j++) {
            bool large = j == rows.spot || j == 0;
            rows.key[j * WIDTH] = large ? largest[k / 2] : -largest[k / 2];
            rows.value[j * WIDTH] = large ? 7 : 1e30f;
        }
        run_rows(&rows, ATTN_EMPTY_NAN);
        for (size_t i = 0; i < rows.n_queries; i++) {
            all_equal(rows.attention + i * rows.n_keys + rows.spot, 1, 0.5f);
            all_equal(rows.attention + i * rows.n_keys, 1, 0.5f);
            all_equal(rows.out + i * WIDTH, 1, 7);
        }
        rows_free(&rows);
    }
}
END_TEST

/* A share of 0 adds nothing even where it became 0 only later: the value, infinite or NaN, was seen
 * before the score that outweighs its own. */
START_TEST(outweighed)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < COUNT(garbage); k++) {
        struct rows rows = make_rows((size_t)_i);
        rows.value[0] = garbage[k];
        rows.key[(rows.n_keys - 1) * WIDTH] = 1000;
        rows.value[(rows.n_keys - 1) * WIDTH] = 5;
        run_rows(&rows, ATTN_EMPTY_ZERO);
        for (size_t i = 0; i < rows.n_queries; i++) {
            ck_assert_float_eq(rows.attention[i * rows.n_keys], 0);
            all_equal(rows.out + i * WIDTH, 1, 5);
        }
        rows_free(&rows);
    }
}
END_TEST

/* The causal bound is a mask like any other: NaN in a later position stays there, and a row that is
 * NaN is NaN throughout. */
static void check_causal_nan(const struct made *made, size_t length, size_t spoilt)
{
    static const char *const names[] = {"attention", "output"};
    struct call call = {.n = 0};
    struct dice dice = {spoilt};
    const size_t shape[] = {1, length, 3};
    float *input = call_add_reals(&call, &dice, "input", 3, shape);
    input[spoilt * 3] = NAN;
    struct results results = run_call(made->layer, &call, names, 2, INLINE);
    for (size_t i = 0; i < length * length; i++) {
        float p = results.outputs[0][i];
        bool later = i % length > i / length;
        if (!(i / length >= spoilt ? isnan(p) : later ? p == 0 : p > 0)) {
            ck_abort_msg("NaN at %zu: query %zu, key %zu: %g", spoilt, i / length,
                         i % length, (double)p);
        }
    }
    for (size_t i = 0; i < length * 3; i++) {
        ck_assert(isnan(results.outputs[1][i]) == (i / 3 >= spoilt));
    }
    check_same_bits(made->layer, &call, names, 2, &results);
    results_free(&results);
    call_free(&call);
}

START_TEST(causal_nan)
{
    static const size_t lengths[] = {4, 40, 112, 113, 128, 129, 257};
    size_t length = lengths[_i];
    struct attn_spec spec =
        good_spec("causal_mha", LIST(ints_option("output_shape", 2, (int64_t)length, 3)));
    struct dice dice = {1};
    struct made made = make_layer(&spec, &dice);
    for (size_t spoilt = 0; spoilt < length; spoilt += 1 + length / 4) {
        check_causal_nan(&made, length, spoilt);
    }
    check_causal_nan(&made, length, length - 1);
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
        ck_assert_int_eq(attn_plan_create(r->made.layer, NULL, r->call.inputs, r->call.n,
                                          NULL, 0, &plan, &error),
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
    int n = (int)COUNT(row_sizes);
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_loop_test(tcase, blocked_row, 0, n);
    tcase_add_loop_test(tcase, one_open_key, 0, n);
    tcase_add_loop_test(tcase, garbage_in_blocked_keys, 0, n);
    tcase_add_loop_test(tcase, nan_in_open_keys, 0, n);
    tcase_add_loop_test(tcase, infinite_scores, 0, n);
    tcase_add_loop_test(tcase, huge_scores, 0, n);
    tcase_add_loop_test(tcase, outweighed, 0, n);
    tcase_add_loop_test(tcase, causal_nan, 0, 7);
    tcase_add_test(tcase, edges_outside);
    tcase_add_test(tcase, types_outside);
    tcase_add_test(tcase, edges_onto_blocked_keys);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
