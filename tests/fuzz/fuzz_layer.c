/* fuzz_layer.c - any bytes as a layer and a call to it: preset, options, weights, inputs, outputs. Most
 * of what the bytes choose is possible and some is not; what is refused has a reason, and what runs
 * gives the same bits in whatever order its tasks run. */
#include "plan.h"
#include "unit/lib/weights_file.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bounds of what is really computed. */
#define MOST_BYTES 65536
#define MOST_SCRATCH (1 << 22)
#define MOST_WORK 4e6

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* The bytes that choose; zeros once they are used up. */
struct bytes {
    const uint8_t *data;
    size_t n;
};

static size_t choose(struct bytes *bytes, size_t n)
{
    if (bytes->n == 0) {
        return 0;
    }
    bytes->n--;
    return *bytes->data++ % n;
}

static bool rarely(struct bytes *bytes)
{
    return choose(bytes, 16) == 15;
}

/* Whether a step failed; if so, with a reason that is fit to be shown. */
static bool failed(enum attn_status status, const struct attn_error *error)
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

static void add(struct options *options, struct attn_option option)
{
    options->list[options->n++] = option;
}

/* A small size: most are good. */
static int64_t small(struct bytes *bytes, size_t most)
{
    static const int64_t odd[] = {0,         -1,       32, 1 << 24, (1 << 24) + 1,
                                  INT64_MAX, INT64_MIN};
    return rarely(bytes) ? odd[choose(bytes, sizeof odd / sizeof *odd)]
                         : 1 + (int64_t)choose(bytes, most);
}

/* The width of all heads together; wraps where one head is huge. */
static int64_t all_heads(int64_t heads, struct bytes *bytes)
{
    return (int64_t)((uint64_t)heads * (uint64_t)small(bytes, 6));
}

static double real(struct bytes *bytes)
{
    static const double reals[] = {0, 0.5, 0.25, 10, -2.5, 1, 1e300, (double)NAN};
    return reals[choose(bytes, sizeof reals / sizeof *reals)];
}

static void add_module(struct options *options, struct bytes *bytes, const char *role)
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

static void add_clip(struct options *options, struct bytes *bytes)
{
    add(options, attn_bool("use_tanh", choose(bytes, 2)));
    add(options, attn_real("C", real(bytes)));
}

static void causal_options(struct options *options, struct bytes *bytes, int64_t heads)
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

static void relational_options(struct options *options, struct bytes *bytes,
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

static void choose_options(struct options *options, struct bytes *bytes, size_t preset)
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

/* n elements. Types of 16 bits have small finite values unless they are to be any bits. */
static void fill_elements(struct dice *dice, enum fill fill, enum attn_dtype dtype,
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
static size_t choose_weights(struct bytes *bytes, struct dice *dice,
                             const struct attn_spec *spec,
                             struct attni_parameter parameters[ATTNI_MAX_PARAMETERS],
                             struct attn_named_tensor *tensors, void **owned)
{
    static const enum attn_dtype dtypes[] = {ATTN_F32, ATTN_F32, ATTN_F64, ATTN_F16,
                                             ATTN_BF16};
    size_t n = 0, n_parameters = attni_spec_parameters(spec, parameters);
    enum fill fill = (enum fill)choose(bytes, N_FILLS);
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

static attn_layer *make_layer(struct bytes *bytes, struct dice *dice,
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

/* ---- the call ------------------------------------------------------------------------------ */

struct call {
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    void *owned[ATTN_MAX_PORTS];
    size_t n;
    bool whole; /* every input has its data */
    size_t batch, queries, keys, edges, width;
};

static size_t choose_length(struct bytes *bytes)
{
    static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 17, 113, 129, 258};
    return lengths[choose(bytes, sizeof lengths / sizeof *lengths)];
}

static size_t axis_of(const struct call *call, const struct attn_spec *spec, char letter)
{
    return letter == 'B'   ? call->batch
           : letter == 'H' ? spec->n_heads
           : letter == 'Q' ? call->queries
                           : call->keys;
}

/* Rows: [batch, length, ...], or some leading axes where the layer takes any. */
static void shape_rows(const struct call *call, struct bytes *bytes,
                       const struct attn_spec *spec, size_t length,
                       struct attn_tensor *tensor)
{
    size_t n = 0;
    if (spec->scores_only) {
        for (size_t k = choose(bytes, 4); k > 0; k--) {
            tensor->shape[n++] = choose(bytes, 2) ? 1 : call->batch;
        }
    } else {
        tensor->shape[n++] = rarely(bytes) ? 1 : call->batch;
    }
    if (!rarely(bytes)) {
        tensor->shape[n++] = length;
    }
    if (spec->layout == ATTN_LAYOUT_HEADS) {
        tensor->shape[n++] = spec->n_heads;
    }
    tensor->shape[n++] = call->width;
    tensor->rank = n;
}

/* [batch, queries, keys, ...] by letters, each axis full or 1. */
static void shape_axes(const struct call *call, struct bytes *bytes,
                       const struct attn_spec *spec, const char *letters,
                       struct attn_tensor *tensor)
{
    tensor->rank = strlen(letters);
    for (size_t i = 0; i < tensor->rank; i++) {
        tensor->shape[i] = letters[i] == 'V'       ? spec->value_head_width
                           : choose(bytes, 3) == 2 ? 1
                                                   : axis_of(call, spec, letters[i]);
    }
}

static void choose_shape(const struct call *call, struct bytes *bytes,
                         const struct attn_spec *spec, enum attni_role role,
                         struct attn_tensor *tensor)
{
    static const char *const any_mask[] = {"", "K", "QK", "BQK", "HBQK"};
    size_t rank = choose(bytes, 5);
    const char *form = spec->scores_only ? any_mask[rank] : spec->mask.axes[rank];
    switch (role) {
    case ATTNI_QUERY:
        shape_rows(call, bytes, spec, call->queries, tensor);
        break;
    case ATTNI_KEY:
    case ATTNI_VALUE:
        shape_rows(call, bytes, spec, call->keys, tensor);
        break;
    case ATTNI_MASK:
        shape_axes(call, bytes, spec, form[0] == '-' ? "BQK" : form, tensor);
        break;
    case ATTNI_EDGES:
        tensor->rank = 2;
        tensor->shape[1] = 3;
        tensor->shape[0] = call->edges;
        break;
    case ATTNI_EDGE_TYPES:
        tensor->rank = 1;
        tensor->shape[0] = call->edges;
        break;
    case ATTNI_DENSE_KQ:
        shape_axes(call, bytes, spec, "BQKH", tensor);
        break;
    case ATTNI_DENSE_KV:
    case ATTNI_N_ROLES:
        shape_axes(call, bytes, spec, "BQKHV", tensor);
        break;
    }
}

/* Sometimes another type, rank or axis than it should have. */
static void spoil(struct bytes *bytes, struct attn_tensor *tensor)
{
    static const size_t sizes[] = {
        0, 1, 2, 7, SIZE_MAX, (size_t)1 << 62, 1 << 24, (size_t)1 << 31, (size_t)1 << 40};
    size_t what = choose(bytes, 32);
    if (what == 31) {
        tensor->dtype = (enum attn_dtype)choose(bytes, ATTN_F8_E5M2 + 2);
    } else if (what == 30) {
        tensor->rank = choose(bytes, ATTN_MAX_RANK + 2);
    } else if (what >= 28) {
        tensor->shape[choose(bytes, ATTN_MAX_RANK)] =
            sizes[choose(bytes, sizeof sizes / sizeof *sizes)];
    }
}

/* Numbers for an input; indices are small, and seldom outside. */
static void fill_input(struct bytes *bytes, struct dice *dice, const struct call *call,
                       enum attni_role role, const struct attn_tensor *tensor,
                       unsigned char *data, size_t count)
{
    size_t bytes_each = attn_dtype_size(tensor->dtype);
    bool indices = role == ATTNI_EDGES || role == ATTNI_EDGE_TYPES;
    if (!indices || rarely(bytes)) {
        fill_elements(dice, (enum fill)choose(bytes, N_FILLS), tensor->dtype, data,
                      count);
        return;
    }
    const size_t below[] = {call->batch, call->queries, call->keys};
    size_t n_types = 1 + choose(bytes, 3);
    for (size_t i = 0; i < count; i++) {
        size_t bound = role == ATTNI_EDGES ? below[i % 3] : n_types;
        uint64_t index = dice_below(dice, bound + (bound == 0));
        memcpy(data + i * bytes_each, &index, bytes_each);
    }
}

static void add_input(struct call *call, struct bytes *bytes, struct dice *dice,
                      const struct attn_spec *spec, const struct attn_port *port,
                      enum attni_role role)
{
    size_t count, at = call->n++;
    struct attn_tensor *tensor = &call->inputs[at].tensor;
    *tensor = (struct attn_tensor){.dtype = port->dtype};
    call->inputs[at].name = rarely(bytes) && rarely(bytes) ? "no such input" : port->name;
    if (role <= ATTNI_VALUE) {
        int64_t width = port->shape[port->rank - 1];
        call->width = width >= 0 ? (size_t)width : call->width;
    }
    if (port->dtype == ATTN_I64 && choose(bytes, 2)) {
        tensor->dtype = ATTN_I32;
    }
    choose_shape(call, bytes, spec, role, tensor);
    spoil(bytes, tensor);
    size_t size = attn_dtype_size(tensor->dtype);
    if (attn_tensor_count(tensor, &count) || count > MOST_BYTES / 8) {
        call->whole = false;
    } else if (count > 0 && size > 0) {
        tensor->data = call->owned[at] = malloc(count * size);
        require(tensor->data != NULL);
        memset(call->owned[at], 0, count * size);
        fill_input(bytes, dice, call, role, tensor, call->owned[at], count);
    }
}

static void choose_call(struct call *call, struct bytes *bytes, struct dice *dice,
                        const struct attn_spec *spec)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    enum attni_role roles[ATTN_MAX_PORTS];
    size_t n_ports = attni_spec_inputs(spec, ports, roles);
    call->whole = true;
    call->batch = choose(bytes, 4);
    call->queries =
        spec->length && choose(bytes, 2) ? spec->length : choose_length(bytes);
    call->keys = choose_length(bytes);
    call->edges = choose(bytes, 24);
    call->width = spec->n_heads * choose(bytes, 18);
    for (size_t i = 0; i < n_ports; i++) {
        if (!(ports[i].optional ? choose(bytes, 2) : rarely(bytes) && rarely(bytes))) {
            add_input(call, bytes, dice, spec, &ports[i], roles[i]);
        }
    }
}

/* ---- forward ------------------------------------------------------------------------------- */

/* Two workers that take turns, from the last task to the first. */
static void run_backwards(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    (void)context;
    for (size_t i = n_tasks; i-- > 0;) {
        task(argument, i, i % 2);
    }
}

#define GUARD_BYTES 32

/* One run, with memory whose end is watched; outputs are for the caller to free. */
static enum attn_status run(const attn_plan *plan, const struct attn_parallel *parallel,
                            int before, unsigned char *outputs[2],
                            const size_t n_bytes[2], struct attn_error *error)
{
    /* exactly as large as it has to be where nobody looks for guards: the sanitizers do */
    size_t guard = parallel ? GUARD_BYTES : 0, n_scratch = 0,
           n = attn_plan_n_outputs(plan);
    require(attn_plan_scratch(plan, parallel ? 2 : 1, &n_scratch) == ATTN_OK);
    unsigned char *scratch = need_memory(n_scratch + guard);
    memset(scratch, before, n_scratch + guard);
    for (size_t i = 0; i < n; i++) {
        outputs[i] = need_memory(n_bytes[i] + guard);
        memset(outputs[i], before, n_bytes[i] + guard);
    }
    float *memory[2] = {(float *)(void *)outputs[0], (float *)(void *)outputs[1]};
    enum attn_status status = attn_forward(plan, memory, scratch, parallel, error);
    for (size_t i = 0; i < guard; i++) {
        require(scratch[n_scratch + i] == (unsigned char)before);
        for (size_t k = 0; k < n; k++) {
            require(outputs[k][n_bytes[k] + i] == (unsigned char)before);
        }
    }
    free(scratch);
    return status;
}

static void run_both_ways(const attn_plan *plan, const size_t n_bytes[2])
{
    static const struct attn_parallel backwards = {2, run_backwards, NULL};
    struct attn_error errors[2] = {{.status = ATTN_OK}, {.status = ATTN_OK}};
    unsigned char *outputs[2][2] = {{NULL, NULL}, {NULL, NULL}};
    /* what was there before differs, so that an element left out shows */
    enum attn_status status = run(plan, NULL, 0xff, outputs[0], n_bytes, &errors[0]);
    require(run(plan, &backwards, 0x5a, outputs[1], n_bytes, &errors[1]) == status);
    failed(status, &errors[0]);
    require(status == ATTN_OK || status == ATTN_RANGE);
    require(strcmp(errors[0].message, errors[1].message) == 0);
    for (size_t i = 0; i < 2; i++) {
        require(status || n_bytes[i] == 0 ||
                memcmp(outputs[0][i], outputs[1][i], n_bytes[i]) == 0);
        free(outputs[0][i]);
        free(outputs[1][i]);
    }
}

/* Whether a plan is small enough to be run here; n_bytes: of its outputs. */
static bool is_small(const attn_plan *plan, size_t n_bytes[2])
{
    size_t n_scratch = 0;
    bool small_enough =
        attn_plan_scratch(plan, 2, &n_scratch) == ATTN_OK && n_scratch <= MOST_SCRATCH;
    for (size_t i = 0; i < attn_plan_n_outputs(plan); i++) {
        require(attn_tensor_bytes(&attn_plan_output(plan, i)->tensor, &n_bytes[i]) ==
                ATTN_OK);
        small_enough = small_enough && n_bytes[i] <= 4 * MOST_BYTES;
    }
    double work =
        (double)plan->n_batch * (double)plan->n_queries * (double)plan->n_keys *
        (double)(plan->layer->spec.n_heads * (1 + plan->head_width + plan->value_width));
    return small_enough && (n_bytes[0] + n_bytes[1] == 0 || work <= MOST_WORK);
}

static void run_call(struct bytes *bytes, const attn_layer *layer,
                     const struct call *call)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const char *names[3] = {spec->output, spec->attention, "no such output"};
    size_t first = choose(bytes, 2), n_names = choose(bytes, 4 - first);
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    if (rarely(bytes)) {
        names[1] = names[0];
    }
    bool none = failed(attn_plan_create(layer, call->inputs, call->n, names + first,
                                        n_names, &plan, &error),
                       &error);
    require(none == (plan == NULL));
    size_t n_bytes[2] = {0, 0};
    if (plan && call->whole && is_small(plan, n_bytes)) {
        run_both_ways(plan, n_bytes);
    }
    attn_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    struct options options = {.n = 0};
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {0};
    size_t preset = choose(&bytes, 6);
    struct dice dice = {choose(&bytes, 256)};
    choose_options(&options, &bytes, preset);
    if (failed(attn_spec_preset(&spec, attn_preset_name(preset), options.list, options.n,
                                &error),
               &error)) {
        return 0;
    }
    spec.empty_rows = choose(&bytes, 2) ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
    attn_layer *layer = make_layer(&bytes, &dice, &spec);
    if (layer) {
        struct call call = {.n = 0};
        choose_call(&call, &bytes, &dice, &spec);
        run_call(&bytes, layer, &call);
        while (call.n > 0) {
            free(call.owned[--call.n]);
        }
    }
    attn_layer_free(layer);
    return 0;
}
