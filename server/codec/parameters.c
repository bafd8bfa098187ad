/* parameters.c - the `parameters` objects of an infer request.
 *
 * Three tables say which parameters are known where and what becomes of each. Runs on the worker
 * that decodes the request; keeps no state. */
#include "codec/parameters.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_SEQUENCE_ID 256

/* The parameters of shared memory, as far as they came. */
struct shared {
    struct ad_shared *place;
    bool offered, has_offset, has_size, wants_binary;
};

/* Where a parameter was found and what it may change. */
struct site {
    struct ad_request *request; /* of the request only */
    int64_t *size;              /* of an input only */
    bool *binary;               /* of an output only */
    struct shared *shared;      /* of an input or output */
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

static enum ad_status read_flag(const struct site *site, const char *name,
                                const json_t *value, bool *flag)
{
    if (!json_is_boolean(value)) {
        return fail_type(site, name, "a boolean", value);
    }
    *flag = json_is_true(value);
    return AD_OK;
}

static enum ad_status read_unsigned(const struct site *site, const char *name,
                                    const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value)) {
        return fail_type(site, name, "an integer", value);
    }
    if (json_integer_value(value) < 0) {
        return ad_fail(site->error, AD_INVALID,
                       "%sparameter %s must not be negative, got %" JSON_INTEGER_FORMAT,
                       site->owner, name, json_integer_value(value));
    }
    *number = (uint64_t)json_integer_value(value);
    return AD_OK;
}

/* ---- of the request -------------------------------------------------------------------- */

static enum ad_status read_binary_data_output(const struct site *site, const char *name,
                                              const json_t *value)
{
    return read_flag(site, name, value, &site->request->binary_default);
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
    return read_flag(site, name, value, &site->request->mode.training);
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
    site->request->seed_given = true;
    return read_unsigned(site, name, value, &site->request->mode.seed);
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

/* ---- of its waiting and its sequence --------------------------------------------------- */

static enum ad_status read_timeout(const struct site *site, const char *name,
                                   const json_t *value)
{
    return read_unsigned(site, name, value, &site->request->timeout_us);
}

static enum ad_status read_priority(const struct site *site, const char *name,
                                    const json_t *value)
{
    return read_unsigned(site, name, value, &site->request->priority);
}

/* An integer is its digits. 0 and "" mean no sequence. */
static enum ad_status read_sequence(const struct site *site, const char *name,
                                    const json_t *value, const char **id)
{
    char digits[24];
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    if (json_is_integer(value)) {
        uint64_t number = 0;
        enum ad_status status = read_unsigned(site, name, value, &number);
        if (status) {
            return status;
        }
        n = number == 0 ? 0 : (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number);
        text = digits;
    } else if (!text) {
        return fail_type(site, name, "an integer or a string", value);
    }
    if (n > MAX_SEQUENCE_ID || (text && strlen(text) < n && !json_is_integer(value))) {
        return ad_fail(site->error, AD_INVALID,
                       "parameter %s must be at most %d bytes without NUL, got %zu", name,
                       MAX_SEQUENCE_ID, n);
    }
    *id = n == 0 ? NULL : ad_arena_strndup(&site->request->arena, text, n);
    return n == 0 || *id ? AD_OK : ad_fail(site->error, AD_INTERNAL, "out of memory");
}

static enum ad_status read_sequence_id(const struct site *site, const char *name,
                                       const json_t *value)
{
    return read_sequence(site, name, value, &site->request->sequence_call.id);
}

static enum ad_status read_sequence_fork(const struct site *site, const char *name,
                                         const json_t *value)
{
    return read_sequence(site, name, value, &site->request->sequence_call.fork);
}

static enum ad_status read_sequence_start(const struct site *site, const char *name,
                                          const json_t *value)
{
    return read_flag(site, name, value, &site->request->sequence_call.start);
}

static enum ad_status read_sequence_end(const struct site *site, const char *name,
                                        const json_t *value)
{
    return read_flag(site, name, value, &site->request->sequence_call.end);
}

static const struct parameter of_request[] = {
    {"binary_data_output", read_binary_data_output},
    {"nonfinite", read_nonfinite},
    {"training", read_training},
    {"samples", read_samples},
    {"seed", read_seed},
    {"gradient_reduction", read_gradient_reduction},
    {"timeout", read_timeout},
    {"priority", read_priority},
    {"sequence_id", read_sequence_id},
    {"sequence_fork", read_sequence_fork},
    {"sequence_start", read_sequence_start},
    {"sequence_end", read_sequence_end},
    {NULL, NULL},
};

/* ---- of inputs and outputs ------------------------------------------------------------- */

static enum ad_status check_offered(const struct site *site, const char *name)
{
    return site->shared->offered
               ? AD_OK
               : fail_unsupported(site, name,
                                  "shared memory is not offered (--allow-client-shm)");
}

static enum ad_status read_region(const struct site *site, const char *name,
                                  const json_t *value)
{
    enum ad_status status = check_offered(site, name);
    if (status) {
        return status;
    }
    const char *region = json_string_value(value);
    if (!region || region[0] == '\0') {
        return fail_type(site, name, "the name of a region", value);
    }
    site->shared->place->region = region;
    return AD_OK;
}

static enum ad_status read_region_offset(const struct site *site, const char *name,
                                         const json_t *value)
{
    enum ad_status status = check_offered(site, name);
    site->shared->has_offset = true;
    return status ? status
                  : read_unsigned(site, name, value, &site->shared->place->offset);
}

static enum ad_status read_region_size(const struct site *site, const char *name,
                                       const json_t *value)
{
    enum ad_status status = check_offered(site, name);
    site->shared->has_size = true;
    return status ? status
                  : read_unsigned(site, name, value, &site->shared->place->n_bytes);
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
    enum ad_status status = read_flag(site, name, value, site->binary);
    site->shared->wants_binary = !status && *site->binary;
    return status;
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
    {"shared_memory_region", read_region},
    {"shared_memory_offset", read_region_offset},
    {"shared_memory_byte_size", read_region_size},
    {NULL, NULL},
};

static const struct parameter of_output[] = {
    {"binary_data", read_binary_data},
    {"classification", read_classification},
    {"shared_memory_region", read_region},
    {"shared_memory_offset", read_region_offset},
    {"shared_memory_byte_size", read_region_size},
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

/* Do those of shared memory make up a place? */
static enum ad_status check_shared(const struct site *site)
{
    const struct shared *shared = site->shared;
    if (!shared->place->region) {
        return shared->has_offset || shared->has_size
                   ? ad_fail(site->error, AD_INVALID,
                             "%sparameter %s needs parameter shared_memory_region",
                             site->owner,
                             shared->has_offset ? "shared_memory_offset"
                                                : "shared_memory_byte_size")
                   : AD_OK;
    }
    if (!shared->has_size) {
        return ad_fail(site->error, AD_INVALID,
                       "%sparameter shared_memory_region needs parameter "
                       "shared_memory_byte_size",
                       site->owner);
    }
    return shared->wants_binary
               ? ad_fail(site->error, AD_INVALID,
                         "%sexpected parameter binary_data or shared_memory_region, got "
                         "both",
                         site->owner)
               : AD_OK;
}

/* Do the parameters of a sequence agree with each other, the header and the mode? */
static enum ad_status check_sequence(const struct ad_request *request,
                                     struct ad_error *error)
{
    const struct ad_sequence_call *call = &request->sequence_call;
    const char *header = request->sequence_header;
    if (header && (!call->id || strcmp(header, call->id) != 0)) {
        return ad_fail(error, AD_INVALID,
                       "header X-Sequence-Id is '%.100s', but parameter sequence_id is "
                       "%s%.100s%s: they must agree",
                       header, call->id ? "'" : "", call->id ? call->id : "not given",
                       call->id ? "'" : "");
    }
    if (!call->id && (call->start || call->end || call->fork)) {
        return ad_fail(error, AD_INVALID, "parameter %s needs parameter sequence_id",
                       call->fork    ? "sequence_fork"
                       : call->start ? "sequence_start"
                                     : "sequence_end");
    }
    if (call->fork && (!call->start || strcmp(call->fork, call->id) == 0)) {
        return ad_fail(error, AD_INVALID,
                       "parameter sequence_fork needs parameter sequence_start to be "
                       "true and names another sequence, got '%.100s'",
                       call->fork);
    }
    if (call->id && (request->mode.training || request->mode.gradient)) {
        return ad_fail(error, AD_INVALID,
                       "parameter sequence_id: a sequence is for inference, not for %s",
                       request->mode.gradient ? "gradients" : "training");
    }
    return AD_OK;
}

enum ad_status ad_parameters_of_request(struct ad_request *request, json_t *root,
                                        struct ad_error *error)
{
    const struct site site = {.request = request, .owner = "", .error = error};
    enum ad_status status = read_all(&site, of_request, request->log, root);
    return status ? status : check_sequence(request, error);
}

enum ad_status ad_parameters_none(struct ad_request *request, struct ad_error *error)
{
    return check_sequence(request, error);
}

enum ad_status ad_parameters_of_input(const struct ad_request *request, json_t *input,
                                      const char *name, int64_t *size,
                                      struct ad_shared *place, struct ad_error *error)
{
    char owner[ATTN_NAME_SIZE + 16];
    snprintf(owner, sizeof owner, "input '%s': ", name);
    struct shared shared = {.place = place, .offered = request->regions != NULL};
    const struct site site = {
        .size = size, .shared = &shared, .owner = owner, .error = error};
    *size = -1;
    enum ad_status status = read_all(&site, of_input, request->log, input);
    return status ? status : check_shared(&site);
}

enum ad_status ad_parameters_of_output(const struct ad_request *request, json_t *output,
                                       const char *name, bool *binary,
                                       struct ad_shared *place, struct ad_error *error)
{
    char owner[ATTN_NAME_SIZE + 16];
    snprintf(owner, sizeof owner, "output '%s': ", name);
    struct shared shared = {.place = place, .offered = request->regions != NULL};
    const struct site site = {
        .binary = binary, .shared = &shared, .owner = owner, .error = error};
    enum ad_status status = read_all(&site, of_output, request->log, output);
    if (!status) {
        status = check_shared(&site);
    }
    *binary = *binary && !place->region;
    return status;
}
