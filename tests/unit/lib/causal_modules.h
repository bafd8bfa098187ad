/* causal_modules.h - causal layers with every normalisation and activation. */
#ifndef TESTS_UNIT_LIB_CAUSAL_MODULES_H
#define TESTS_UNIT_LIB_CAUSAL_MODULES_H

#include "unit/lib/layers.h"

/* The first are normalisations, which may be activations too. */
struct module {
    const char *type;          /* NULL: none */
    struct attn_option option; /* its own, unless the name is NULL */
};

#define N_NORMS 6
#define N_MODULES 12

static inline struct module module_at(size_t index)
{
    const struct module modules[N_MODULES] = {{NULL, {.name = NULL}},
                                              {"BatchNorm", attn_real("patience", 0.7)},
                                              {"Dropout", attn_real("p", 0.25)},
                                              {"GroupNorm", attn_int("num_groups", 2)},
                                              {"InstanceNorm", {.name = NULL}},
                                              {"LayerNorm", {.name = NULL}},
                                              {"ReLU", {.name = NULL}},
                                              {"Sigmoid", {.name = NULL}},
                                              {"SoftMax", attn_int("dim", 0)},
                                              {"SoftMax", attn_int("dim", 1)},
                                              {"SoftMax", attn_int("dim", 2)},
                                              {"Tanh", {.name = NULL}}};
    return modules[index];
}

/* Of width heads * width; the length must be even. */
static inline struct attn_spec causal_spec(size_t length, size_t heads, size_t width,
                                           double dropout, bool mask,
                                           const struct module *normalisation,
                                           const struct module *activation)
{
    const struct module *modules[] = {normalisation, activation};
    static const char *const roles[] = {"normalisation", "activation"};
    struct attn_option options[6] = {
        ints_option("output_shape", 2, (int64_t)length, (int64_t)(heads * width)),
        attn_int("n_heads", (int64_t)heads), attn_real("dropout", dropout),
        attn_bool("use_mask", mask)};
    size_t n = 4;
    for (size_t i = 0; i < 2; i++) {
        if (modules[i]->type) {
            options[n++] = module_option(roles[i], modules[i]->type, &modules[i]->option,
                                         modules[i]->option.name != NULL);
        }
    }
    return good_spec("causal_mha", options, n);
}

/* Whether the module lets a sequence grow. */
static inline bool is_apart(const struct module *module)
{
    return !module->type ||
           (strcmp(module->type, "GroupNorm") != 0 &&
            strcmp(module->type, "LayerNorm") != 0 &&
            (strcmp(module->type, "SoftMax") != 0 || module->option.integer != 1));
}

#endif
