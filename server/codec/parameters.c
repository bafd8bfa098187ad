/* parameters.c - the `parameters` objects of an infer request.
 *
 * Three tables say which parameters are known where and what becomes of each. Runs on the worker
 * that decodes the request; keeps no state. */
#include "codec/parameters.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* Where a parameter was found and what it may change. */
struct site {
    struct ad_request *request; /* of the request only */
    int64_t *size;              /* of an input only */
    bool *binary;               /* of an output only */
    const char *owner;          /* "input 'x': " for messages; "" for the request */
    struct ad_error *error;
};

typedef enum ad_status read_parameter(const struct site *site, const char *name,
                                      const json_t *value);

struct parameter {
    const char *name;
    read_parameter *read;
};

const char *ad_json_kind(const json_t *value)
{
    if (!value) {
        return "nothing";
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown kind of value";
}

static enum ad_status fail_type(const struct site *site, const char *name,
                                const char *expected, const json_t *value)
{
    return ad_fail(site->error, AD_INVALID, "%sparameter %s must be %s, got %s",
                   site->owner, name, expected, ad_json_kind(value));
}

static enum ad_status fail_unsupported(const struct site *site, const char *name,
                                       const char *what)
{
    return ad_fail(site->error, AD_UNSUPPORTED, "%sparameter %s: %s", site->owner, name,
                   what);
}

/* ---- of the request -------------------------------------------------------------------- */

static enum ad_status read_binary_data_output(const struct site *site, const char *name,
                                              const json_t *value)
{
    if (!json_is_boolean(value)) {
        return fail_type(site, name, "a boolean", value);
    }
    site->request->binary_default = json_is_true(value);
    return AD_OK;
}

static enum ad_status read_nonfinite(const struct site *site, const char *name,
                                     const json_t *value)
{
    static const struct {
        const char *text;
        enum ad_nonfinite policy;
    } policies[] = {{"error", AD_NONFINITE_ERROR},
                    {"null", AD_NONFINITE_NULL},
                    {"literal", AD_NONFINITE_LITERAL}};
    static const char expected[] = "\"error\", \"null\" or \"literal\"";
    const char *text = json_string_value(value);
    if (!text) {
        return fail_type(site, name, expected, value);
    }
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        if (strcmp(text, policies[i].text) == 0) {
            site->request->nonfinite = policies[i].policy;
            return AD_OK;
        }
    }
    return ad_fail(site->error, AD_INVALID, "parameter %s must be %s, got \"%.100s\"",
                   name, expected, text);
}

static enum ad_status read_training(const struct site *site, const char *name,
                                    const json_t *value)
{
    if (!json_is_boolean(value)) {
        return fail_type(site, name, "a boolean", value);
    }
    site->request->mode.training = json_is_true(value);
    return AD_OK;
}

static enum ad_status read_samples(const struct site *site, const char *name,
                                   const json_t *value)
{
    if (!json_is_integer(value)) {
        return fail_type(site, name, "an integer", value);
    }
    json_int_t samples = json_integer_value(value);
    if (samples < 1 || samples > ATTN_MAX_DRAWS) {
        return ad_fail(site->error, AD_INVALID,
                       "parameter %s must be 1 to %d, got %" JSON_INTEGER_FORMAT, name,
                       ATTN_MAX_DRAWS, samples);
    }
    site->request->mode.n_draws = (size_t)samples;
    return AD_OK;
}

/* Without training a seed changes nothing. */
static enum ad_status read_seed(const struct site *site, const char *name,
                                const json_t *value)
{
    if (!json_is_integer(value)) {
        return fail_type(site, name, "an integer", value);
    }
    if (json_integer_value(value) < 0) {
        return ad_fail(site->error, AD_INVALID,
                       "parameter %s must not be negative, got %" JSON_INTEGER_FORMAT,
                       name, json_integer_value(value));
    }
    site->request->mode.seed = (uint64_t)json_integer_value(value);
    site->request->seed_given = true;
    return AD_OK;
}

/* Without gradients it changes nothing. */
static enum ad_status read_gradient_reduction(const struct site *site, const char *name,
                                              const json_t *value)
{
    static const char expected[] = "\"mean\" or \"sum\"";
    const char *text = json_string_value(value);
    if (!text) {
        return fail_type(site, name, expected, value);
    }
    bool mean = strcmp(text, "mean") == 0;
    if (!mean && strcmp(text, "sum") != 0) {
        return ad_fail(site->error, AD_INVALID, "parameter %s must be %s, got \"%.100s\"",
                       name, expected, text);
    }
    site->request->mode.reduction = mean ? ATTN_REDUCTION_MEAN : ATTN_REDUCTION_SUM;
    return AD_OK;
}

/* 0 and "" mean no sequence. */
static enum ad_status read_sequence(const struct site *site, const char *name,
                                    const json_t *value)
{
    if (!json_is_integer(value) && !json_is_string(value)) {
        return fail_type(site, name, "an integer or a string", value);
    }
    bool none = json_is_integer(value) ? json_integer_value(value) == 0
                                       : json_string_length(value) == 0;
    return none ? AD_OK : fail_unsupported(site, name, "sequences are not offered");
}

/* Meaningless without sequence_id, which is refused on its own. */
static enum ad_status read_sequence_flag(const struct site *site, const char *name,
                                         const json_t *value)
{
    return json_is_boolean(value) ? AD_OK : fail_type(site, name, "a boolean", value);
}

static const struct parameter of_request[] = {
    {"binary_data_output", read_binary_data_output},
    {"nonfinite", read_nonfinite},
    {"training", read_training},
    {"samples", read_samples},
    {"seed", read_seed},
    {"gradient_reduction", read_gradient_reduction},
    {"sequence_id", read_sequence},
    {"sequence_fork", read_sequence},
    {"sequence_start", read_sequence_flag},
    {"sequence_end", read_sequence_flag},
    {NULL, NULL},
};

/* ---- of inputs and outputs ------------------------------------------------------------- */

static enum ad_status read_shared_memory(const struct site *site, const char *name,
                                         const json_t *value)
{
    (void)value;
    return fail_unsupported(site, name, "shared memory is not offered");
}

static enum ad_status read_binary_data_size(const struct site *site, const char *name,
                                            const json_t *value)
{
    if (!json_is_integer(value)) {
        return fail_type(site, name, "an integer", value);
    }
    *site->size = json_integer_value(value);
    if (*site->size < 0) {
        return ad_fail(site->error, AD_INVALID,
                       "%sparameter %s must not be negative, got %" JSON_INTEGER_FORMAT,
                       site->owner, name, json_integer_value(value));
    }
    return AD_OK;
}

static enum ad_status read_binary_data(const struct site *site, const char *name,
                                       const json_t *value)
{
    if (!json_is_boolean(value)) {
        return fail_type(site, name, "a boolean", value);
    }
    *site->binary = json_is_true(value);
    return AD_OK;
}

static enum ad_status read_classification(const struct site *site, const char *name,
                                          const json_t *value)
{
    if (!json_is_integer(value)) {
        return fail_type(site, name, "an integer", value);
    }
    return fail_unsupported(site, name, "classification is not offered");
}

static const struct parameter of_input[] = {
    {"binary_data_size", read_binary_data_size},
    {"shared_memory_region", read_shared_memory},
    {"shared_memory_offset", read_shared_memory},
    {"shared_memory_byte_size", read_shared_memory},
    {NULL, NULL},
};

static const struct parameter of_output[] = {
    {"binary_data", read_binary_data},
    {"classification", read_classification},
    {"shared_memory_region", read_shared_memory},
    {"shared_memory_offset", read_shared_memory},
    {"shared_memory_byte_size", read_shared_memory},
    {NULL, NULL},
};

/* ---- all three ------------------------------------------------------------------------- */

static enum ad_status read_one(const struct site *site, const struct parameter *table,
                               const struct ad_log *log, const char *name,
                               const json_t *value)
{
    if (json_is_object(value) || json_is_array(value) || json_is_null(value)) {
        return ad_fail(
            site->error, AD_INVALID,
            "%sparameter %.100s must be a string, a number or a boolean, got %s",
            site->owner, name, ad_json_kind(value));
    }
    if (strncmp(name, "triton_", strlen("triton_")) == 0) {
        return ad_fail(site->error, AD_INVALID,
                       "%sparameter %.100s: names that begin with triton_ are reserved",
                       site->owner, name);
    }
    for (; table->name; table++) {
        if (strcmp(table->name, name) == 0) {
            return table->read(site, table->name, value);
        }
    }
    const struct ad_log_field field = ad_log_text("parameter", name);
    ad_log_write(log, AD_LOG_DEBUG, "request parameter ignored", &field, 1);
    return AD_OK;
}

static enum ad_status read_all(const struct site *site, const struct parameter *table,
                               const struct ad_log *log, json_t *owner)
{
    json_t *parameters = json_object_get(owner, "parameters");
    if (!parameters) {
        return AD_OK;
    }
    if (!json_is_object(parameters)) {
        return ad_fail(site->error, AD_INVALID, "%sparameters must be an object, got %s",
                       site->owner, ad_json_kind(parameters));
    }
    const char *name;
    json_t *value;
    json_object_foreach(parameters, name, value)
    {
        enum ad_status status = read_one(site, table, log, name, value);
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

enum ad_status ad_parameters_of_request(struct ad_request *request, json_t *root,
                                        struct ad_error *error)
{
    const struct site site = {.request = request, .owner = "", .error = error};
    return read_all(&site, of_request, request->log, root);
}

enum ad_status ad_parameters_of_input(const struct ad_request *request, json_t *input,
                                      const char *name, int64_t *size,
                                      struct ad_error *error)
{
    char owner[ATTN_NAME_SIZE + 16];
    snprintf(owner, sizeof owner, "input '%s': ", name);
    const struct site site = {.size = size, .owner = owner, .error = error};
    *size = -1;
    return read_all(&site, of_input, request->log, input);
}

enum ad_status ad_parameters_of_output(const struct ad_request *request, json_t *output,
                                       const char *name, bool *binary,
                                       struct ad_error *error)
{
    char owner[ATTN_NAME_SIZE + 16];
    snprintf(owner, sizeof owner, "output '%s': ", name);
    const struct site site = {.binary = binary, .owner = owner, .error = error};
    return read_all(&site, of_output, request->log, output);
}
