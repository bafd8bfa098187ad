/* written_inputs.h - inputs of a call written as text: "query F32 2 3 8; mask BOOL 3 5". They have
 * no data: a plan reads shapes alone. */
#ifndef TESTS_UNIT_LIB_WRITTEN_INPUTS_H
#define TESTS_UNIT_LIB_WRITTEN_INPUTS_H

#include "unit/lib/layers.h"

/* An axis so long that four bytes an element are more than can be counted. */
#define HUGE_AXIS "4611686018427387904"

struct written {
    char text[512]; /* names are cut out of it */
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    size_t n;
};

static inline enum attn_dtype dtype_of(const char *name)
{
    for (int dtype = ATTN_F32; dtype <= ATTN_F8_E5M2; dtype++) {
        if (strcmp(attn_dtype_name((enum attn_dtype)dtype), name) == 0) {
            return (enum attn_dtype)dtype;
        }
    }
    return (enum attn_dtype)99;
}

/* text: at most 511 bytes. Axes past the eighth count, and are forgotten. */
static inline void read_written(struct written *written, const char *text)
{
    char *rest_of_text = NULL, *rest = NULL;
    *written = (struct written){.n = 0};
    snprintf(written->text, sizeof written->text, "%s", text);
    for (char *part = strtok_r(written->text, ";", &rest_of_text); part;
         part = strtok_r(NULL, ";", &rest_of_text)) {
        struct attn_named_tensor *input = &written->inputs[written->n++];
        input->name = strtok_r(part, " ", &rest);
        input->tensor.dtype = dtype_of(strtok_r(NULL, " ", &rest));
        for (char *axis; (axis = strtok_r(NULL, " ", &rest)); input->tensor.rank++) {
            if (input->tensor.rank < ATTN_MAX_RANK) {
                input->tensor.shape[input->tensor.rank] = strtoul(axis, NULL, 10);
            }
        }
    }
}

static inline struct made make(const char *kind, const struct attn_option *options,
                               size_t n)
{
    struct attn_spec spec = good_spec(kind, options, n);
    struct dice dice = {7};
    return make_layer(&spec, &dice);
}

static inline attn_plan *good_plan(const attn_layer *layer, const char *inputs,
                                   const char *const *outputs, size_t n_outputs)
{
    struct written written;
    read_written(&written, inputs);
    attn_plan *plan = NULL;
    struct attn_error error = {0};
    enum attn_status status = attn_plan_create(layer, NULL, written.inputs, written.n,
                                               outputs, n_outputs, &plan, &error);
    ck_assert_msg(status == ATTN_OK, "%s: %s", inputs, error.message);
    ck_assert_int_eq(error.status, ATTN_OK);
    return plan;
}

#define MODEL_6_2 LIST(attn_int("embedding_dim", 6), attn_int("n_heads", 2))
#define SPEECH_4_8 LIST(attn_int("num_heads", 4), attn_int("d_model", 8))
#define RELATIONAL_3_5_2_7                                                   \
    LIST(attn_int("num_heads", 3), attn_int("num_edge_types", 2),            \
         attn_int("key_query_dimension", 5), attn_int("value_dimension", 2), \
         attn_int("output_dimension", 7), attn_int("dropout_rate", 0))

#endif
