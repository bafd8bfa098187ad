/* layers.h - layers with known weights, and calls to them, for the unit tests. */
#ifndef TESTS_UNIT_LIB_LAYERS_H
#define TESTS_UNIT_LIB_LAYERS_H

#include "attention.h"
#include "spec.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Options as two arguments: the list and its length. */
#define LIST(...)                        \
    (struct attn_option[]){__VA_ARGS__}, \
        sizeof((struct attn_option[]){__VA_ARGS__}) / sizeof(struct attn_option)

/* ---- options ------------------------------------------------------------------------------- */

static inline struct attn_option ints_option(const char *name, size_t n, int64_t first,
                                             int64_t second)
{
    return (struct attn_option){.name = name,
                                .type = ATTN_OPTION_INTS,
                                .n_integers = n,
                                .integers = {first, second}};
}

static inline struct attn_option module_option(const char *name, const char *module,
                                               const struct attn_option *options,
                                               size_t n_options)
{
    return (struct attn_option){.name = name,
                                .type = ATTN_OPTION_MODULE,
                                .module = module,
                                .options = options,
                                .n_options = n_options};
}

static inline struct attn_spec
good_spec(const char *kind, const struct attn_option *options, size_t n_options)
{
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {0};
    enum attn_status status = attn_spec_preset(&spec, kind, options, n_options, &error);
    ck_assert_msg(status == ATTN_OK, "%s: %s", kind, error.message);
    return spec;
}

/* ---- layers -------------------------------------------------------------------------------- */

/* A layer and the numbers that its parameters were given. */
struct made {
    attn_layer *layer;
    size_t n;
    struct attni_parameter parameters[ATTNI_MAX_PARAMETERS];
    float *values[ATTNI_MAX_PARAMETERS]; /* NULL: left out */
};

/* The values of one parameter, or NULL where the layer has none or it was left out. */
static inline const float *made_values(const struct made *made, const char *name)
{
    for (size_t i = 0; i < made->n; i++) {
        if (strcmp(made->parameters[i].name, name) == 0) {
            return made->values[i];
        }
    }
    return NULL;
}

static inline bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) &&
           strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Numbers small enough that sums over a row stay near 1; variances are positive. */
static inline float *parameter_values(struct dice *dice,
                                      const struct attni_parameter *parameter)
{
    size_t rows = parameter->shape[0],
           columns = parameter->rank == 2 ? parameter->shape[1] : 1;
    float *values = need_memory(rows * columns * sizeof *values);
    dice_fill(dice, values, rows * columns, parameter->rank == 2 ? 0.5f : 1.0f);
    for (size_t i = 0; i < rows * columns; i++) {
        if (ends_with(parameter->name, "running_var")) {
            values[i] = fabsf(values[i]) + 0.25f;
        } else if (ends_with(parameter->name, "weight") ||
                   ends_with(parameter->name, "weights")) {
            values[i] *= 3 / sqrtf((float)(rows < columns ? rows : columns));
        }
    }
    return values;
}

/* Make a layer with values from the dice; optional parameters are there or not as they fall. */
static inline struct made make_layer(const struct attn_spec *spec, struct dice *dice)
{
    struct made made = {0};
    struct attn_named_tensor tensors[ATTNI_MAX_PARAMETERS];
    size_t n_tensors = 0, n_bytes;
    made.n = attni_spec_parameters(spec, made.parameters);
    for (size_t i = 0; i < made.n; i++) {
        const struct attni_parameter *parameter = &made.parameters[i];
        if (parameter->optional && dice_bool(dice)) {
            continue;
        }
        made.values[i] = parameter_values(dice, parameter);
        tensors[n_tensors++] =
            (struct attn_named_tensor){parameter->name,
                                       {ATTN_F32,
                                        parameter->rank,
                                        {parameter->shape[0], parameter->shape[1]},
                                        made.values[i]}};
    }
    unsigned char *file = weights_file(tensors, n_tensors, &n_bytes);
    attn_weights *weights = NULL;
    struct attn_error error = {0};
    enum attn_status status = attn_weights_parse(file, n_bytes, &weights, &error);
    if (status == ATTN_OK) {
        status = attn_layer_create(spec, weights, &made.layer, &error);
    }
    ck_assert_msg(status == ATTN_OK, "%s: %s", spec->kind, error.message);
    attn_weights_free(weights);
    free(file);
    return made;
}

static inline void made_free(struct made *made)
{
    for (size_t i = 0; i < made->n; i++) {
        free(made->values[i]);
    }
    attn_layer_free(made->layer);
}

/* ---- calls --------------------------------------------------------------------------------- */

/* The inputs of a call; owns their data. */
struct call {
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    void *data[ATTN_MAX_PORTS];
    size_t n;
};

static inline size_t count_of(const struct attn_tensor *tensor)
{
    size_t n = 0;
    ck_assert_int_eq(attn_tensor_count(tensor, &n), ATTN_OK);
    return n;
}

/* Add an input of zeros and return its data. */
static inline void *call_add(struct call *call, const char *name, enum attn_dtype dtype,
                             size_t rank, const size_t *shape)
{
    struct attn_named_tensor *input = &call->inputs[call->n];
    *input = (struct attn_named_tensor){name, {.dtype = dtype, .rank = rank}};
    for (size_t i = 0; i < rank; i++) {
        input->tensor.shape[i] = shape[i];
    }
    void *data = need_memory(count_of(&input->tensor) * attn_dtype_size(dtype));
    input->tensor.data = call->data[call->n++] = data;
    return data;
}

/* The same for floats, filled with numbers from -1 to 1. */
static inline float *call_add_reals(struct call *call, struct dice *dice,
                                    const char *name, size_t rank, const size_t *shape)
{
    float *data = call_add(call, name, ATTN_F32, rank, shape);
    dice_fill(dice, data, count_of(&call->inputs[call->n - 1].tensor), 1);
    return data;
}

static inline const struct attn_tensor *call_find(const struct call *call,
                                                  const char *name)
{
    for (size_t i = 0; i < call->n; i++) {
        if (strcmp(call->inputs[i].name, name) == 0) {
            return &call->inputs[i].tensor;
        }
    }
    return NULL;
}

static inline void call_free(struct call *call)
{
    for (size_t i = 0; i < call->n; i++) {
        free(call->data[i]);
    }
    call->n = 0;
}

#endif
