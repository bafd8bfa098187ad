/* modules.c - normalisations and activations by name; pure functions, any thread. */
#include "modules.h"

#include "spec.h"

#include <stdio.h>
#include <string.h>

/* Reads a module's own options. */
typedef void read_options(struct attn_post_spec *post, struct attni_options *options,
                          size_t length);

struct module {
    const char *type;
    enum attn_post_kind kind;
    bool normalisation;
    read_options *read; /* NULL: it has none */
};

static void read_layer_norm(struct attn_post_spec *post, struct attni_options *options,
                            size_t length)
{
    (void)options;
    (void)length;
    post->n_groups = 1;
}

static void read_instance_norm(struct attn_post_spec *post, struct attni_options *options,
                               size_t length)
{
    (void)options;
    post->n_groups = length;
}

static void read_group_norm(struct attn_post_spec *post, struct attni_options *options,
                            size_t length)
{
    post->n_groups =
        attni_options_size(options, "num_groups", 1, ATTNI_MAX_DIMENSION, 32);
    if (length % post->n_groups != 0) {
        attni_options_fail(options, ATTN_INVALID, "num_groups",
                           "expected a divisor of the length (%zu), got %zu", length,
                           post->n_groups);
    }
}

static void read_batch_norm(struct attn_post_spec *post, struct attni_options *options,
                            size_t length)
{
    (void)length;
    post->patience = attni_options_real(options, "patience", 0, 1, ATTNI_OPEN, 0.9);
}

static void read_dropout(struct attn_post_spec *post, struct attni_options *options,
                         size_t length)
{
    (void)length;
    post->probability = attni_options_real(options, "p", 0, 1, ATTNI_OPEN, 0.5);
}

static void read_softmax(struct attn_post_spec *post, struct attni_options *options,
                         size_t length)
{
    (void)length;
    int dim = attni_options_int(options, "dim", -3, 2, -1);
    post->axis = dim < 0 ? dim + 3 : dim;
}

static const struct module modules[] = {
    {"BatchNorm", ATTN_POST_BATCH_NORM, true, read_batch_norm},
    {"Dropout", ATTN_POST_DROPOUT, true, read_dropout},
    {"GroupNorm", ATTN_POST_GROUP_NORM, true, read_group_norm},
    {"InstanceNorm", ATTN_POST_GROUP_NORM, true, read_instance_norm},
    {"LayerNorm", ATTN_POST_GROUP_NORM, true, read_layer_norm},
    {"ReLU", ATTN_POST_RELU, false, NULL},
    {"Sigmoid", ATTN_POST_SIGMOID, false, NULL},
    {"SoftMax", ATTN_POST_SOFTMAX, false, read_softmax},
    {"Tanh", ATTN_POST_TANH, false, NULL},
};

bool attni_module_is_normalisation(const struct attn_post_spec *post)
{
    return post->kind == ATTN_POST_BATCH_NORM || post->kind == ATTN_POST_DROPOUT ||
           post->kind == ATTN_POST_GROUP_NORM;
}

static const struct module *find(const char *type, bool activation)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        if (strcmp(modules[i].type, type) == 0 &&
            (activation || modules[i].normalisation)) {
            return &modules[i];
        }
    }
    return NULL;
}

static void fail_type(struct attni_options *options, const char *name, bool activation,
                      const char *type)
{
    attni_options_fail(options, ATTN_INVALID, name,
                       "expected null or one of the types %s%s, got '%.64s'",
                       "BatchNorm, Dropout, GroupNorm, InstanceNorm, LayerNorm",
                       activation ? ", ReLU, Sigmoid, SoftMax, Tanh" : "", type);
}

void attni_module_read(struct attni_options *options, const char *name, bool activation,
                       size_t length, struct attn_post_spec *post)
{
    const struct attn_option *option =
        attni_options_find(options, name, ATTN_OPTION_MODULE);
    *post = (struct attn_post_spec){.kind = ATTN_POST_NONE};
    if (!option || options->status) {
        return;
    }
    const struct module *module = find(option->module, activation);
    if (!module) {
        fail_type(options, name, activation, option->module);
        return;
    }
    post->kind = module->kind;
    snprintf(post->prefix, sizeof post->prefix, "%s", name);
    char path[ATTN_NAME_SIZE];
    snprintf(path, sizeof path, "%s.", name);
    struct attni_options inner;
    attni_options_start(&inner, module->type, path, option->options, option->n_options,
                        options->error);
    if (module->read) {
        module->read(post, &inner, length);
    }
    options->status = attni_options_finish(&inner);
}
