/* test_outputs.c - which outputs a plan computes, and that it can: outputs too large to count, axes
 * without elements however long the others are, scratch for many workers. */
#include "unit/lib/written_inputs.h"

#define SPEECH "q F32 2 3 8; k F32 2 5 8; v F32 2 5 8"

/* ---- choice -------------------------------------------------------------------------------- */

START_TEST(chosen_and_ordered)
{
    static const char *const names[] = {"attention", "output"};
    static const size_t output_shape[] = {2, 3, 8}, attention_shape[] = {2, 4, 3, 5};
    struct made made = make("speech_mha", SPEECH_4_8);
    attn_plan *plan = good_plan(made.layer, SPEECH, NULL, 0);
    ck_assert_uint_eq(attn_plan_n_outputs(plan), 1);
    const struct attn_named_tensor *output = attn_plan_output(plan, 0);
    ck_assert_str_eq(output->name, "output");
    ck_assert(output->tensor.dtype == ATTN_F32 && output->tensor.rank == 3);
    ck_assert_mem_eq(output->tensor.shape, output_shape, sizeof output_shape);
    ck_assert_ptr_null(output->tensor.data);
    ck_assert_ptr_null(attn_plan_output(plan, 1));
    attn_plan_free(plan);

    plan = good_plan(made.layer, SPEECH, names, 2);
    ck_assert_uint_eq(attn_plan_n_outputs(plan), 2);
    output = attn_plan_output(plan, 0);
    ck_assert_str_eq(output->name, "attention");
    ck_assert_uint_eq(output->tensor.rank, 4);
    ck_assert_mem_eq(output->tensor.shape, attention_shape, sizeof attention_shape);
    ck_assert_str_eq(attn_plan_output(plan, 1)->name, "output");
    attn_plan_free(plan);
    plan = good_plan(made.layer, SPEECH, names, 1);
    ck_assert_uint_eq(attn_plan_n_outputs(plan), 1);
    attn_plan_free(plan);
    attn_plan_free(NULL);
    made_free(&made);
}
END_TEST

static void refused(const attn_layer *layer, const char *inputs, const char *const *names,
                    size_t n, enum attn_status status, const char *field,
                    const char *part)
{
    struct written written;
    read_written(&written, inputs);
    attn_plan *plan = NULL;
    struct attn_error error = {0};
    ck_assert_int_eq(
        attn_plan_create(layer, NULL, written.inputs, written.n, names, n, &plan, &error),
        status);
    ck_assert_msg(strcmp(error.field, field) == 0, "%s: %s", error.field, error.message);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
    ck_assert_ptr_null(plan);
}

START_TEST(refused_by_name)
{
    const char *unknown = "unknown to speech_mha, which gives output, attention";
    struct made made = make("speech_mha", SPEECH_4_8);
    refused(made.layer, SPEECH, (const char *[]){"out"}, 1, ATTN_UNKNOWN, "out", unknown);
    refused(made.layer, SPEECH, (const char *[]){"output", ""}, 2, ATTN_UNKNOWN, "",
            unknown);
    refused(made.layer, SPEECH, (const char *[]){"output", "attention", "output"}, 3,
            ATTN_INVALID, "output", "asked for twice");
    refused(made.layer, SPEECH, (const char *[]){"attention", "attention"}, 2,
            ATTN_INVALID, "attention", "asked for twice");
    made_free(&made);
    made = make("routing_score", NULL, 0);
    refused(made.layer, "query F32 2 3; key F32 2 3", (const char *[]){"attention"}, 1,
            ATTN_UNKNOWN, "attention", "which gives logits");
    made_free(&made);
}
END_TEST

/* ---- sizes --------------------------------------------------------------------------------- */

/* Rows without width cost nothing to send, so outputs must be counted before they are built; the
 * output is named, not the memory that it would take to compute it. */
START_TEST(too_large)
{
    static const char *const attention[] = {"attention"};
    struct made made = make("routing_mha", MODEL_6_2);
    refused(made.layer, "query F32 1 " HUGE_AXIS " 0; key F32 1 0 0; value F32 1 0 6",
            NULL, 0, ATTN_TOO_LARGE, "out",
            "output 'out': shape [1, " HUGE_AXIS ", 6] is too");
    /* counted in bytes */
    refused(made.layer,
            "query F32 1 400000000000000000 0; key F32 1 1 0; value F32 1 1 6", NULL, 0,
            ATTN_TOO_LARGE, "out", "is too large");
    refused(made.layer, "query F32 1 " HUGE_AXIS " 0; key F32 1 5 0; value F32 1 5 6",
            attention, 1, ATTN_TOO_LARGE, "attention",
            "[1, 2, " HUGE_AXIS ", 5] is too large");
    /* the output can be counted, what it takes to compute it cannot */
    refused(made.layer,
            "query F32 1 1152921504606846975 0; key F32 1 1 0; value F32 1 1 6",
            attention, 1, ATTN_TOO_LARGE, "query", "more memory than can be counted");
    made_free(&made);
}
END_TEST

/* Nothing may walk over the other axes: this returns at once, and needs next to no memory. */
static void run_empty(const attn_layer *layer, const char *inputs,
                      const char *const *outputs, size_t n_outputs)
{
    attn_plan *plan = good_plan(layer, inputs, outputs, n_outputs);
    size_t n_bytes = 0;
    ck_assert_int_eq(attn_plan_scratch(plan, 1, &n_bytes), ATTN_OK);
    ck_assert_uint_le(n_bytes, 4096);
    void *scratch = need_memory(n_bytes);
    float nothing, *memory[] = {&nothing, &nothing};
    struct attn_error error = {0};
    for (size_t i = 0; i < attn_plan_n_outputs(plan); i++) {
        ck_assert_uint_eq(count_of(&attn_plan_output(plan, i)->tensor), 0);
    }
    enum attn_status status = attn_forward(plan, memory, scratch, NULL, &error);
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    free(scratch);
    attn_plan_free(plan);
}

START_TEST(empty_axes)
{
    static const char *const both[] = {"out", "attention"};
    struct made made = make("routing_mha", MODEL_6_2);
    run_empty(made.layer,
              "query F32 0 " HUGE_AXIS " 8; key F32 0 " HUGE_AXIS
              " 8; value F32 0 " HUGE_AXIS " 6; mask BOOL 1 0 1 " HUGE_AXIS,
              both, 2);
    run_empty(made.layer,
              "query F32 " HUGE_AXIS " 0 8; key F32 " HUGE_AXIS
              " 0 8; value F32 " HUGE_AXIS " 0 6",
              both, 2);
    /* queries and keys of one sample, values of none */
    run_empty(made.layer,
              "query F32 1 5 0; key F32 1 " HUGE_AXIS " 0; value F32 0 " HUGE_AXIS " 6",
              both, 1);
    made_free(&made);
    made = make("routing_score", NULL, 0);
    run_empty(made.layer,
              "query F32 0 " HUGE_AXIS " 3; key F32 0 " HUGE_AXIS
              " 3; mask BOOL 0 " HUGE_AXIS " 1",
              NULL, 0);
    run_empty(made.layer, "query F32 " HUGE_AXIS " " HUGE_AXIS " 1 0; key F32 0 0", NULL,
              0);
    made_free(&made);
}
END_TEST

START_TEST(empty_axes_with_projections)
{
    static const char *const both[] = {"attention", "output"};
    struct made made = make("speech_mha", SPEECH_4_8);
    run_empty(made.layer,
              "q F32 0 " HUGE_AXIS " 8; k F32 0 " HUGE_AXIS " 8; v F32 0 " HUGE_AXIS " 8",
              both, 2);
    made_free(&made);
    made = make("causal_mha",
                LIST(ints_option("output_shape", 2, 6, 4),
                     module_option("activation", "SoftMax", LIST(attn_int("dim", 0)))));
    run_empty(made.layer, "input F32 " HUGE_AXIS " 0 4", both, 2);
    made_free(&made);
    made = make("relational_mha", RELATIONAL_3_5_2_7);
    run_empty(made.layer,
              "queries F32 " HUGE_AXIS " 0 3 5; keys F32 " HUGE_AXIS
              " 0 3 5; values F32 " HUGE_AXIS
              " 0 3 2; edges I64 0 3; edge_types I32 0; dense_relations_kv F32 " HUGE_AXIS
              " 0 0 3 2",
              both, 2);
    made_free(&made);
}
END_TEST

/* An edge that cannot be right costs no memory for keys that nobody sent. */
START_TEST(edges_without_queries)
{
    static const char *const both[] = {"attention", "output"};
    struct made made = make("relational_mha", RELATIONAL_3_5_2_7);
    struct written written;
    read_written(&written,
                 "queries F32 0 4 3 5; keys F32 0 " HUGE_AXIS
                 " 3 5; values F32 0 " HUGE_AXIS " 3 2; edges I64 1 3; edge_types I32 1");
    const int64_t edge[3] = {0};
    for (size_t i = 0; i < written.n; i++) {
        size_t n = count_of(&written.inputs[i].tensor);
        written.inputs[i].tensor.data = n ? edge : NULL;
    }
    attn_plan *plan = NULL;
    struct attn_error error = {0};
    ck_assert_int_eq(attn_plan_create(made.layer, NULL, written.inputs, written.n, both,
                                      2, &plan, &error),
                     ATTN_OK);
    size_t n_bytes = 0;
    ck_assert_int_eq(attn_plan_scratch(plan, 1, &n_bytes), ATTN_OK);
    ck_assert_uint_le(n_bytes, 4096);
    void *scratch = need_memory(n_bytes);
    float nothing, *memory[] = {&nothing, &nothing};
    ck_assert_int_eq(attn_forward(plan, memory, scratch, NULL, &error), ATTN_RANGE);
    ck_assert_str_eq(error.field, "edges");
    free(scratch);
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

/* ---- scratch ------------------------------------------------------------------------------- */

START_TEST(scratch)
{
    struct made made = make("speech_mha", SPEECH_4_8);
    attn_plan *plan = good_plan(made.layer, SPEECH, NULL, 0);
    size_t none = 12345, one = 0, two = 0, many = 0;
    ck_assert_int_eq(attn_plan_scratch(plan, 0, &none), ATTN_INVALID);
    ck_assert_int_eq(attn_plan_scratch(plan, 1, &one), ATTN_OK);
    ck_assert_int_eq(attn_plan_scratch(plan, 2, &two), ATTN_OK);
    ck_assert_int_eq(attn_plan_scratch(plan, 1000, &many), ATTN_OK);
    ck_assert_int_eq(attn_plan_scratch(plan, SIZE_MAX, &none), ATTN_TOO_LARGE);
    ck_assert_int_eq(attn_plan_scratch(plan, SIZE_MAX / 64, &none), ATTN_TOO_LARGE);
    ck_assert_uint_eq(none, 12345);
    ck_assert_uint_gt(two, one);
    ck_assert_uint_eq(many - one, 999 * (two - one));
    /* rows of scores for each worker, projections once */
    ck_assert_uint_ge(two - one, 3 * 5 * sizeof(float));
    ck_assert_uint_ge(one, (3 + 5 + 5 + 3) * 2 * 8 * sizeof(float));
    attn_plan_free(plan);
    made_free(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outputs");
    TCase *tcase = tcase_create("outputs");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, chosen_and_ordered);
    tcase_add_test(tcase, refused_by_name);
    tcase_add_test(tcase, too_large);
    tcase_add_test(tcase, empty_axes);
    tcase_add_test(tcase, empty_axes_with_projections);
    tcase_add_test(tcase, edges_without_queries);
    tcase_add_test(tcase, scratch);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
