/* layer_choices.h - any bytes as the options and weights of a layer: most of what they choose is
 * possible, and some is not. */
#ifndef TESTS_FUZZ_LAYER_CHOICES_H
#define TESTS_FUZZ_LAYER_CHOICES_H

#include "spec.h"
#include "unit/lib/weights_file.h"

#include <math.h>

/* Bound of what a tensor holds. */
#define MOST_BYTES 65536

static inline void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* The bytes that choose; zeros once they are used up. */
struct bytes {
    const uint8_t *data;
    size_t n;
    bool wild; /* numbers were chosen whose sums depend on their order, or overflow */
};

static inline size_t choose(struct bytes *bytes, size_t n)
{
    if (bytes->n == 0) {
        return 0;
    }
    bytes->n--;
    return *bytes->data++ % n;
}

/* The last of the bytes. */
static inline size_t choose_last(struct bytes *bytes, size_t n)
{
    return bytes->n == 0 ? 0 : bytes->data[--bytes->n] % n;
}

static inline bool rarely(struct bytes *bytes)
{
    return choose(bytes, 16) == 15;
}

/* Whether a step failed; if so, with a reason that is fit to be shown. */
static inline bool failed(enum attn_status status, const struct attn_error *error)
{
    require(error->status == status);
    if (status == ATTN_OK) {
        require(error->message[0] == '\0' && error->field[0] == '\0');
        return false;
    }
    require(error->message[0] != '\0' && !strpbrk(error->message, "\n\r"));
    require(memchr(error->message, '\0', sizeof error->message) != NULL);
    return true;
}

/* ---- options ------------------------------------------------------------------------------- */

struct options {
    struct attn_option list[10];
    struct attn_option of_modules[2];
    size_t n;
};

static inline void add(struct options *options, struct attn_option option)
{
    options->list[options->n++] = option;
}

/* A small size: most are good. */
static inline int64_t small(struct bytes *bytes, size_t most)
{
    static const int64_t odd[] = {0,         -1,       32, 1 << 24, (1 << 24) + 1,
                                  INT64_MAX, INT64_MIN};
    return rarely(bytes) ? odd[choose(bytes, sizeof odd / sizeof *odd)]
                         : 1 + (int64_t)choose(bytes, most);
}

/* The width of all heads together; wraps where one head is huge. */
static inline int64_t all_heads(int64_t heads, struct bytes *bytes)
{
    return (int64_t)((uint64_t)heads * (uint64_t)small(bytes, 6));
}

static inline double real(struct bytes *bytes)
{
    static const double reals[] = {0, 0.5, 0.25, 10, -2.5, 1, 1e300, (double)NAN};
    return reals[choose(bytes, sizeof reals / sizeof *reals)];
}

static inline void add_module(struct options *options, struct bytes *bytes,
                              const char *role)
{
    static const char *const types[] = {
        "GroupNorm", "BatchNorm", "LayerNorm", "InstanceNorm", "Dropout",
        "ReLU",      "Sigmoid",   "SoftMax",   "Tanh",         "GELU"};
    size_t type = choose(bytes, 12), own = choose(bytes, 4);
    if (type >= 10) {
        return;
    }
    struct attn_option *inner = &options->of_modules[role[0] == 'a'];
    *inner = own == 0   ? attn_int("num_groups", small(bytes, 4))
             : own == 1 ? attn_int("dim", (int64_t)choose(bytes, 7) - 3)
                        : attn_real(type == 4 ? "p" : "patience", real(bytes));
    add(options, (struct attn_option){.name = role,
                                      .type = ATTN_OPTION_MODULE,
                                      .module = types[type],
                                      .options = inner,
                                      .n_options = own != 3});
}

static inline void add_clip(struct options *options, struct bytes *bytes)
{
    add(options, attn_bool("use_tanh", choose(bytes, 2)));
    add(options, attn_real("C", real(bytes)));
}

static inline void causal_options(struct options *options, struct bytes *bytes,
                                  int64_t heads)
{
    struct attn_option shape = {.name = "output_shape", .type = ATTN_OPTION_INTS};
    shape.n_integers = rarely(bytes) ? choose(bytes, 4) : 2 - choose(bytes, 8) / 7;
    shape.integers[0] = small(bytes, 40);
    shape.integers[1] = all_heads(heads, bytes);
    add(options, shape);
    add(options, attn_int("n_heads", heads));
    add(options, attn_bool("use_mask", choose(bytes, 2)));
    add_module(options, bytes, "normalisation");
    add_module(options, bytes, "activation");
}

static inline void relational_options(struct options *options, struct bytes *bytes,
                                      int64_t heads)
{
    add(options, attn_int("num_heads", heads));
    add(options, attn_int("num_edge_types", (int64_t)choose(bytes, 5) - 1));
    add(options, attn_int("key_query_dimension", small(bytes, 20)));
    add(options, attn_int("value_dimension", small(bytes, 6)));
    add(options, attn_int("output_dimension", small(bytes, 6)));
    add(options, attn_real("dropout_rate", rarely(bytes) ? real(bytes) : 0));
    add(options, attn_bool("use_edge_value_biases", choose(bytes, 2)));
    add(options, attn_bool("edge_attention_bias_is_scalar", choose(bytes, 2)));
}

static inline void choose_options(struct options *options, struct bytes *bytes,
                                  size_t preset)
{
    int64_t heads = 1 + (int64_t)choose(bytes, 4), width = all_heads(heads, bytes);
    switch (preset) {
    case 0:
        add_clip(options, bytes);
        break;
    case 1:
    case 2:
        add(options, attn_int("embedding_dim", width));
        add(options, attn_int("n_heads", heads));
        add_clip(options, bytes);
        break;
    case 3:
        add(options, attn_int("num_heads", heads));
        add(options, attn_int("d_model", width));
        add(options, attn_bool("scale_dp_by_head", choose(bytes, 2)));
        break;
    case 4:
        causal_options(options, bytes, heads);
        break;
    default:
        relational_options(options, bytes, heads);
        break;
    }
    if (rarely(bytes)) { /* one of another name or type, or given twice */
        struct attn_option odd = options->list[choose(bytes, options->n)];
        odd.type = (enum attn_option_type)choose(bytes, ATTN_OPTION_MODULE);
        odd.name = choose(bytes, 2) ? "dropout" : odd.name;
        size_t at = choose(bytes, options->n + 1);
        options->list[at] = odd;
        options->n += at == options->n;
        options->n -= choose(bytes, 2);
    }
}

/* ---- numbers ------------------------------------------------------------------------------- */

enum fill { FILL_ZERO, FILL_SMALL, FILL_HUGE, FILL_BITS, N_FILLS };

static inline enum fill choose_fill(struct bytes *bytes)
{
    enum fill fill = (enum fill)choose(bytes, N_FILLS);
    bytes->wild = bytes->wild || fill == FILL_HUGE || fill == FILL_BITS;
    return fill;
}

/* n elements. Types of 16 bits have small finite values unless they are to be any bits. */
static inline void fill_elements(struct dice *dice, enum fill fill, enum attn_dtype dtype,
                                 unsigned char *out, size_t n)
{
    size_t bytes = attn_dtype_size(dtype);
    for (size_t i = 0; i < n && fill != FILL_ZERO; i++) {
        uint64_t bits = dice_next(dice);
        float single = dice_real(dice) * (fill == FILL_HUGE ? 1e25f : 1.0f);
        double twice = (double)single;
        if (fill == FILL_BITS) {
            memcpy(out + i * bytes, &bits, bytes);
        } else if (dtype == ATTN_F32) {
            memcpy(out + i * bytes, &single, bytes);
        } else if (dtype == ATTN_F64) {
            memcpy(out + i * bytes, &twice, bytes);
        } else {
            bits &= bytes == 2 ? 0xbbff : 1;
            memcpy(out + i * bytes, &bits, bytes);
        }
    }
}

/* ---- the layer ----------------------------------------------------------------------------- */

/* One tensor for each parameter of spec, most as they should be. */
static inline size_t
choose_weights(struct bytes *bytes, struct dice *dice, const struct attn_spec *spec,
               struct attni_parameter parameters[ATTNI_MAX_PARAMETERS],
               struct attn_named_tensor *tensors, void **owned)
{
    static const enum attn_dtype dtypes[] = {ATTN_F32, ATTN_F32, ATTN_F64, ATTN_F16,
                                             ATTN_BF16};
    size_t n = 0, n_parameters = attni_spec_parameters(spec, parameters);
    enum fill fill = choose_fill(bytes);
    for (size_t i = 0; i < n_parameters; i++) {
        size_t count, what = choose(bytes, 32);
        if (what == 31 || (parameters[i].optional && what >= 16)) {
            continue;
        }
        struct attn_tensor tensor = {dtypes[what % 5],
                                     parameters[i].rank,
                                     {parameters[i].shape[0], parameters[i].shape[1]},
                                     NULL};
        if (what == 30) {
            tensor.shape[choose(bytes, 2)] = choose(bytes, 9);
        } else if (what == 29) {
            tensor.dtype = (enum attn_dtype)choose(bytes, ATTN_F8_E5M2 + 1);
        }
        if (attn_tensor_count(&tensor, &count) || count > MOST_BYTES / 8) {
            continue;
        }
        tensor.data = owned[n] = need_memory(count * attn_dtype_size(tensor.dtype));
        fill_elements(dice, fill, tensor.dtype, owned[n], count);
        tensors[n++] = (struct attn_named_tensor){parameters[i].name, tensor};
    }
    return n;
}

static inline attn_layer *make_layer(struct bytes *bytes, struct dice *dice,
                                     const struct attn_spec *spec)
{
    struct attni_parameter parameters[ATTNI_MAX_PARAMETERS];
    struct attn_named_tensor tensors[ATTNI_MAX_PARAMETERS];
    void *owned[ATTNI_MAX_PARAMETERS];
    struct attn_error error = {0};
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    size_t n = choose_weights(bytes, dice, spec, parameters, tensors, owned), n_bytes;
    unsigned char *file = weights_file(tensors, n, &n_bytes);
    require(!failed(attn_weights_parse(file, n_bytes, &weights, &error), &error));
    bool none = failed(attn_layer_create(spec, weights, &layer, &error), &error);
    require(none == (layer == NULL));
    attn_weights_free(weights);
    free(file);
    while (n > 0) {
        free(owned[--n]);
    }
    return layer;
}

#endif
