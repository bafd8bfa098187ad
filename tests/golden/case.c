/* case.c - read one golden case and say what it asks for. One thread. */
#include "golden/case.h"

#include "golden/guarded.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 16
#define MAX_MODULE_OPTIONS 4

static unsigned char *file_read(const char *path, size_t *n_bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        die("golden: cannot read %s", path);
    }
    long size = ftell(file);
    if (size < 0) {
        die("golden: cannot read %s", path);
    }
    rewind(file);
    *n_bytes = (size_t)size;
    unsigned char *bytes = malloc(*n_bytes + 1);
    if (!bytes || fread(bytes, 1, *n_bytes, file) != *n_bytes) {
        die("golden: cannot read %s", path);
    }
    fclose(file);
    return bytes;
}

/* What follows prefix in name, or NULL when name begins otherwise. */
static const char *after(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

static const json_t *case_get(const struct test_case *c, const char *key)
{
    return json_object_get(c->description, key);
}

static bool case_says(const struct test_case *c, const char *key, const char *text)
{
    const char *value = json_string_value(case_get(c, key));
    return value && strcmp(value, text) == 0;
}

/* ---- passes ------------------------------------------------------------------------------ */

/* Passes backward after the one forward. */
static json_int_t backward_calls(const struct test_case *c)
{
    return json_integer_value(json_object_get(case_get(c, "call"), "backward_calls"));
}

static void pass_add(const struct test_case *c, struct pass *pass,
                     const struct attn_tensor *input, const char *name)
{
    if (pass->n_inputs == ATTN_MAX_PORTS || pass->n_outputs == ATTN_MAX_PORTS) {
        die("golden: %s has too many inputs or outputs", c->name);
    }
    if (input) {
        pass->inputs[pass->n_inputs++] = (struct attn_named_tensor){name, *input};
    } else {
        pass->outputs[pass->n_outputs++] = name;
    }
}

/* Sort a tensor of the file by what it is for. Over several backward passes the original adds up the
 * gradients of its parameters: those of one pass are not in the file. */
static void case_add_tensor(struct test_case *c, const struct attn_named_tensor *named)
{
    const char *input = after(named->name, "inputs.");
    const char *output = after(named->name, "outputs.");
    if (after(named->name, "weights.")) {
        c->has_weights = true;
    } else if (input) {
        pass_add(c, &c->passes[BACKWARD], &named->tensor, input);
        if (!after(input, "grad_")) {
            pass_add(c, &c->passes[FORWARD], &named->tensor, input);
        }
    } else if (output && !ends_with(output, ".f64")) {
        if (backward_calls(c) < 2 || !after(output, "grad.")) {
            pass_add(c, &c->passes[BACKWARD], NULL, output);
        }
        if (!after(output, "grad")) {
            pass_add(c, &c->passes[FORWARD], NULL, output);
        }
    }
}

static size_t axis_of(const json_t *shape, size_t axis)
{
    return (size_t)json_integer_value(json_array_get(shape, axis));
}

/* The original wants every sequence as long as the layer; one without per-position parameters
 * serves a shorter one. */
static bool is_shorter_input(const struct test_case *c)
{
    const struct pass *pass = &c->passes[FORWARD];
    const json_t *options = case_get(c, "options");
    const json_t *built = json_object_get(options, "output_shape");
    const json_t *normalisation = json_object_get(options, "normalisation");
    return case_says(c, "layer", "causal") && pass->n_inputs == 1 &&
           pass->inputs[0].tensor.rank == 3 && json_array_size(built) == 2 &&
           pass->inputs[0].tensor.shape[1] < axis_of(built, 0) &&
           pass->inputs[0].tensor.shape[2] == axis_of(built, 1) &&
           (!normalisation || json_is_null(normalisation));
}

/* Whether the case is served, its passes being what they may be. Three have another verdict than the
 * original's by decision: an edge never counts from the end, one sample is enough for stored
 * statistics, and a backward pass does the forward one itself. */
static bool case_is_served(const struct test_case *c)
{
    if (strcmp(c->name, "relational-negative-index") == 0) {
        return false;
    }
    return !case_says(c, "expect", "error") || json_is_true(case_get(c, "serves")) ||
           is_shorter_input(c) ||
           strcmp(c->name, "causal-err-batchnorm-one-sample") == 0 ||
           strcmp(c->name, "causal-err-back-after-eval-dropout") == 0;
}

/* An error that the original raises in its backward pass says nothing about the forward one. */
static void case_set_passes(struct test_case *c)
{
    bool backward = backward_calls(c) > 0,
         training = json_is_true(json_object_get(case_get(c, "call"), "training"));
    bool by_backward = backward && case_says(c, "expect", "error") &&
                       !json_is_true(case_get(c, "serves"));
    enum expectation verdict = case_is_served(c) ? EXPECT_SERVED : EXPECT_REFUSED;
    struct pass *passes = c->passes;
    for (size_t i = 0; i < N_PASSES; i++) {
        passes[i].mode =
            (struct attn_mode){.size = sizeof passes[i].mode, .training = training};
    }
    passes[FORWARD].name = "forward";
    passes[FORWARD].expectation = by_backward ? EXPECT_NOTHING : verdict;
    passes[BACKWARD].name = "backward";
    passes[BACKWARD].expectation = backward ? verdict : EXPECT_NOTHING;
    passes[BACKWARD].mode.gradient = true;
    passes[BACKWARD].mode.reduction = case_says(c, "gradient_reduction", "sum")
                                          ? ATTN_REDUCTION_SUM
                                          : ATTN_REDUCTION_DEFAULT;
}

void case_open(struct test_case *c, const char *folder, const char *name)
{
    memset(c, 0, sizeof *c);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    json_error_t where;
    c->description = json_load_file(path, 0, &where);
    if (!c->description) {
        die("golden: %s: %s", path, where.text);
    }
    c->name = json_string_value(json_object_get(c->description, "name"));
    if (!c->name || strcmp(c->name, name) != 0) {
        die("golden: %s: its name is not that of its file", path);
    }
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    c->bytes = file_read(path, &c->n_bytes);
    struct attn_error error = {0};
    if (attn_weights_parse(c->bytes, c->n_bytes, &c->file, &error) != ATTN_OK) {
        die("golden: %s: %s", path, error.message);
    }
    for (size_t i = 0; i < attn_weights_count(c->file); i++) {
        case_add_tensor(c, attn_weights_at(c->file, i));
    }
    case_set_passes(c);
}

void case_close(struct test_case *c)
{
    attn_weights_free(c->file);
    free(c->bytes);
    json_decref(c->description);
}

/* ---- options ----------------------------------------------------------------------------- */

/* One option from its JSON; module holds the options of a module, if it is one. */
static struct attn_option option_read(const char *name, const json_t *value,
                                      struct attn_option *module)
{
    if (json_is_boolean(value)) {
        return attn_bool(name, json_is_true(value));
    }
    if (json_is_integer(value)) {
        return attn_int(name, json_integer_value(value));
    }
    if (json_is_real(value)) {
        return attn_real(name, json_real_value(value));
    }
    struct attn_option option = {.name = name, .type = ATTN_OPTION_NULL};
    if (json_is_array(value) && json_array_size(value) <= ATTN_MAX_RANK) {
        option.type = ATTN_OPTION_INTS;
        option.n_integers = json_array_size(value);
        for (size_t i = 0; i < option.n_integers; i++) {
            option.integers[i] = json_integer_value(json_array_get(value, i));
        }
    } else if (json_is_object(value) && json_object_size(value) <= MAX_MODULE_OPTIONS) {
        option.type = ATTN_OPTION_MODULE;
        option.module = json_string_value(json_object_get(value, "type"));
        option.options = module;
        const char *key;
        json_t *inner;
        json_object_foreach((json_t *)(uintptr_t)value, key, inner)
        {
            if (strcmp(key, "type") != 0) {
                module[option.n_options++] = option_read(key, inner, NULL);
            }
        }
    } else if (!json_is_null(value)) {
        die("golden: option %s has a value of no known kind", name);
    }
    return option;
}

static const char *case_preset(const struct test_case *c)
{
    static const char *const presets[][3] = {
        {"routing", "AttentionScore", "routing_score"},
        {"routing", "MultiHeadAttention", "routing_mha"},
        {"routing", "MultiHeadAttentionProj", "routing_mha_proj"},
        {"speech", "MultiHeadedAttention", "speech_mha"},
        {"causal", "MultiHeadAttention", "causal_mha"},
        {"relational", "RelationalMultiheadAttention", "relational_mha"},
    };
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (case_says(c, "layer", presets[i][0]) &&
            case_says(c, "module", presets[i][1])) {
            return presets[i][2];
        }
    }
    die("golden: %s: no preset for its module", c->name);
}

enum attn_status case_spec(const struct test_case *c, struct attn_spec *spec,
                           struct attn_error *error)
{
    struct attn_option options[MAX_OPTIONS];
    struct attn_option modules[MAX_OPTIONS][MAX_MODULE_OPTIONS];
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(c->description, "options"), key, value)
    {
        if (n == MAX_OPTIONS - 1) {
            die("golden: %s has too many options", c->name);
        }
        options[n] = option_read(key, value, modules[n]);
        n++;
    }
    const json_t *input_shape = case_get(c, "input_shape");
    if (input_shape) {
        options[n] = option_read("input_shape", input_shape, NULL);
        n++;
    }
    memset(spec, 0, sizeof *spec);
    spec->size = sizeof *spec;
    enum attn_status status = attn_spec_preset(spec, case_preset(c), options, n, error);
    if (status == ATTN_OK) {
        spec->empty_rows =
            case_says(c, "empty_rows", "zero") ? ATTN_EMPTY_ZERO : ATTN_EMPTY_NAN;
    }
    return status;
}

/* ---- expected values --------------------------------------------------------------------- */

const struct attn_tensor *case_expected(const struct test_case *c, const char *output)
{
    static const char *const endings[] = {".f64", ""};
    for (size_t e = 0; e < 2; e++) {
        char name[2 * ATTN_NAME_SIZE];
        snprintf(name, sizeof name, "outputs.%s%s", output, endings[e]);
        for (size_t i = 0; i < attn_weights_count(c->file); i++) {
            const struct attn_named_tensor *named = attn_weights_at(c->file, i);
            if (strcmp(named->name, name) == 0) {
                return &named->tensor;
            }
        }
    }
    return NULL;
}

void case_tolerance(const struct test_case *c, const char *output, double *absolute,
                    double *relative)
{
    const json_t *given = json_object_get(case_get(c, "tolerance"), output);
    const json_t *atol = json_object_get(given, "atol");
    const json_t *rtol = json_object_get(given, "rtol");
    *absolute = atol ? json_number_value(atol) : 1e-6;
    *relative = rtol ? json_number_value(rtol) : 1e-4;
}
