/* test_mode.c - training and gradients: what parameters make of a request, its inputs and outputs. */
#include "codec/decode.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <stdint.h>

static struct ad_version *relations, *tokens, *scores;
static struct ad_request *request;
static struct ad_error error;

static void setup(void)
{
    relations = fixture_relational();
    tokens = fixture_causal();
    scores = fixture_scores();
    request = NULL;
}

static void teardown(void)
{
    ad_request_free(request);
    ad_version_release(relations);
    ad_version_release(tokens);
    ad_version_release(scores);
}

/* Decode `members` beside no inputs at all. */
static enum ad_status try_members(struct ad_version *version, bool gradient,
                                  const char *members)
{
    char json[512];
    snprintf(json, sizeof json, "{\"inputs\":[],%s}", members);
    ad_request_free(request);
    request = fixture_json(version, json);
    request->mode.gradient = gradient;
    error = (struct ad_error){.status = AD_OK};
    return ad_decode_infer(request, &error);
}

static void decode(struct ad_version *version, bool gradient, const char *members)
{
    ck_assert_msg(try_members(version, gradient, members) == AD_OK, "%s: %s", members,
                  error.message);
}

static void refuse(struct ad_version *version, bool gradient, const char *members,
                   const char *message)
{
    ck_assert_msg(try_members(version, gradient, members) == AD_INVALID, "%s: %s",
                  members, error.message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s: %s", members,
                  error.message);
}

START_TEST(test_inference)
{
    decode(relations, false, "\"parameters\":{\"training\":false,\"seed\":3}");
    ck_assert_uint_eq(request->mode.size, sizeof request->mode);
    ck_assert(!request->mode.training && !request->mode.gradient);
    ck_assert_uint_eq(request->mode.n_draws, 0);
    ck_assert_ptr_eq(request->input_ports, relations->inputs);
    ck_assert_ptr_eq(request->output_ports, relations->outputs);
    ck_assert_uint_eq(request->n_input_ports, relations->n_inputs);
    ck_assert_uint_eq(request->n_output_ports, relations->n_outputs);
}
END_TEST

START_TEST(test_parameters)
{
    decode(relations, false,
           "\"parameters\":{\"seed\":9223372036854775807,"
           "\"samples\":1024,\"training\":true}");
    ck_assert(request->mode.training && request->seed_given);
    ck_assert_uint_eq(request->mode.seed, INT64_MAX);
    ck_assert_uint_eq(request->mode.n_draws, ATTN_MAX_DRAWS);
    ck_assert_int_eq(request->mode.reduction, ATTN_REDUCTION_DEFAULT);

    decode(relations, true, "\"parameters\":{\"gradient_reduction\":\"mean\"}");
    ck_assert(request->mode.gradient && !request->mode.training);
    ck_assert_int_eq(request->mode.reduction, ATTN_REDUCTION_MEAN);
    decode(relations, false, "\"parameters\":{\"gradient_reduction\":\"sum\"}");
    ck_assert_int_eq(request->mode.reduction, ATTN_REDUCTION_SUM);

    decode(relations, true, "\"parameters\":{\"training\":true,\"seed\":0}");
    ck_assert(request->mode.gradient && request->mode.training && request->seed_given);
    ck_assert_uint_eq(request->mode.seed, 0);
}
END_TEST

/* Any reader of JSON keeps the seed, and those of its draws. */
START_TEST(test_chosen_seeds)
{
    uint64_t together = 0, first = 0;
    for (int i = 0; i < 100; i++) {
        decode(relations, false, "\"parameters\":{\"training\":true}");
        ck_assert(!request->seed_given);
        ck_assert_uint_le(request->mode.seed + ATTN_MAX_DRAWS, UINT64_C(1) << 53);
        first = i == 0 ? request->mode.seed : first;
        together |= request->mode.seed ^ first;
    }
    ck_assert_uint_ge(together, UINT64_C(1) << 51);
    decode(relations, false, "\"parameters\":{\"seed\":3}");
    ck_assert(request->seed_given);
}
END_TEST

#define OUTPUTS(list) "\"outputs\":[" list "]"
#define NAME(name) "{\"name\":\"" name "\"}"
#define TRAINING "\"parameters\":{\"training\":true}"
#define SAMPLES "\"parameters\":{\"training\":true,\"samples\":2}"

START_TEST(test_outputs)
{
    decode(relations, true,
           OUTPUTS(NAME("grad_queries") "," NAME("grad._out_proj.weight") "," NAME(
               "output") "," NAME("grad_dense_relations_kv")));
    ck_assert_uint_eq(request->n_wanted, 4);
    ck_assert_str_eq(request->wanted[0].name, "grad_queries");
    ck_assert_str_eq(request->wanted[1].name, "grad._out_proj.weight");
    decode(relations, false,
           OUTPUTS(NAME("output.mean") "," NAME("attention.variance")) "," SAMPLES);
    ck_assert_uint_eq(request->n_wanted, 2);
    decode(tokens, false,
           TRAINING "," OUTPUTS(NAME("state.normalisation.running_mean") "," NAME(
               "state.normalisation.running_var") "," NAME("output")));
    ck_assert_uint_eq(request->n_wanted, 3);
    decode(tokens, true,
           TRAINING "," OUTPUTS(NAME("state.normalisation.running_var") "," NAME(
               "grad.normalisation.gamma") "," NAME("grad_input")));
    ck_assert_uint_eq(request->n_wanted, 3);
}
END_TEST

/* Every output that a mode has may be listed at once, whatever their number. */
START_TEST(test_all_outputs)
{
    decode(tokens, true, TRAINING);
    char members[4096];
    size_t n = request->n_output_ports;
    int at =
        snprintf(members, sizeof members, "{\"inputs\":[],%s,\"outputs\":[", TRAINING);
    for (size_t i = 0; i < n; i++) {
        at += snprintf(members + at, sizeof members - (size_t)at, "%s{\"name\":\"%s\"}",
                       i > 0 ? "," : "", request->output_ports[i].name);
    }
    snprintf(members + at, sizeof members - (size_t)at, "]}");
    ad_request_free(request);
    request = fixture_json(tokens, members);
    request->mode.gradient = true;
    ck_assert_msg(ad_decode_infer(request, &error) == AD_OK, "%s", error.message);
    ck_assert_uint_eq(request->n_wanted, n);
    ck_assert_uint_ge(n, 8);
}
END_TEST

START_TEST(test_unknown_outputs)
{
    refuse(relations, false, OUTPUTS(NAME("grad_queries")),
           "outputs[0]: unknown output 'grad_queries', which is for /gradient; model "
           "'relations' has output, attention");
    refuse(relations, true, OUTPUTS(NAME("grad_query")),
           "unknown output 'grad_query'; model 'relations' has output, attention, "
           "grad_queries, grad_keys, grad_values");
    refuse(relations, true, OUTPUTS(NAME("grad_edges")), "unknown output 'grad_edges'");
    refuse(relations, false, OUTPUTS(NAME("output.mean")),
           "unknown output 'output.mean', which is for training with samples;");
    refuse(relations, false, TRAINING "," OUTPUTS(NAME("output.mean")),
           "unknown output 'output.mean', which is for training with samples;");
    refuse(relations, true, TRAINING "," OUTPUTS(NAME("output.variance")),
           "unknown output 'output.variance', which is for training with samples;");
    refuse(tokens, false, OUTPUTS(NAME("state.normalisation.running_var")),
           "which is for training without samples;");
    refuse(tokens, false, SAMPLES "," OUTPUTS(NAME("state.normalisation.running_var")),
           "which is for training without samples;");
    refuse(tokens, true, OUTPUTS(NAME("grad.normalisation.running_var")),
           "unknown output 'grad.normalisation.running_var'; model");
    refuse(tokens, true, OUTPUTS(NAME("grad_input") "," NAME("grad_input")),
           "outputs[1]: output 'grad_input' is listed twice");
}
END_TEST

/* The request with one input of one element; the status. */
static enum ad_status try_input(struct ad_version *version, bool gradient,
                                const char *name, const char *datatype,
                                const char *parameters)
{
    char json[512];
    snprintf(json, sizeof json,
             "{\"inputs\":[{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[1],\"data\":"
             "[0.5]}],\"parameters\":%s}",
             name, datatype, parameters);
    ad_request_free(request);
    request = fixture_json(version, json);
    request->mode.gradient = gradient;
    error = (struct ad_error){.status = AD_OK};
    return ad_decode_infer(request, &error);
}

START_TEST(test_inputs)
{
    static const struct {
        bool gradient;
        const char *name, *parameters, *message; /* NULL: it is taken */
    } cases[] = {
        {true, "grad_output", "{}", NULL},
        {true, "grad_attention", "{\"training\":true}", NULL},
        {true, "dropout_uniform", "{\"training\":true}", NULL},
        {false, "dropout_uniform", "{\"training\":true}", NULL},
        {false, "grad_output", "{}",
         "inputs[0]: unknown input 'grad_output', which is for /gradient; model "
         "'relations' takes queries, keys, values"},
        {false, "grad_attention", "{\"training\":true}", "which is for /gradient;"},
        {false, "dropout_uniform", "{}", "which is for training without samples;"},
        {false, "dropout_uniform", "{\"training\":true,\"samples\":2}",
         "which is for training without samples;"},
        {true, "dropout_uniform", "{}", "which is for training without samples;"},
        {true, "normalisation_uniform", "{\"training\":true}",
         "unknown input 'normalisation_uniform'; model"},
        {true, "grad_queries", "{}", "unknown input 'grad_queries'; model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum ad_status status = try_input(relations, cases[i].gradient, cases[i].name,
                                          "FP32", cases[i].parameters);
        ck_assert_msg(status == (cases[i].message ? AD_INVALID : AD_OK), "%zu: %s", i,
                      error.message);
        ck_assert_msg(!cases[i].message || strstr(error.message, cases[i].message),
                      "%zu: %s", i, error.message);
        ck_assert_uint_eq(request->n_inputs, cases[i].message == NULL);
    }
    ck_assert_int_eq(try_input(relations, true, "grad_output", "INT64", "{}"),
                     AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "input 'grad_output': wrong datatype"));
}
END_TEST

START_TEST(test_samples_of_gradients)
{
    refuse(relations, true, SAMPLES,
           "parameter samples: /gradient does not take it, gradients are those of one "
           "draw");
    refuse(relations, true, "\"parameters\":{\"samples\":1}", "/gradient does not");
}
END_TEST

/* What draws nothing has all modes all the same. */
START_TEST(test_scores)
{
    decode(scores, false, SAMPLES "," OUTPUTS(NAME("logits.mean")));
    decode(scores, true, OUTPUTS(NAME("grad_query") "," NAME("grad_key")));
    ck_assert_int_eq(try_input(scores, true, "grad_attention", "FP32", "{}"), AD_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mode");
    TCase *tcase = tcase_create("mode");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_inference);
    tcase_add_test(tcase, test_parameters);
    tcase_add_test(tcase, test_chosen_seeds);
    tcase_add_test(tcase, test_outputs);
    tcase_add_test(tcase, test_all_outputs);
    tcase_add_test(tcase, test_unknown_outputs);
    tcase_add_test(tcase, test_inputs);
    tcase_add_test(tcase, test_samples_of_gradients);
    tcase_add_test(tcase, test_scores);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
