/* fuzz_layer.c - any bytes as a layer and a call to it: preset, options, weights, mode, inputs, outputs.
 * Most of what the bytes choose is possible and some is not; what is refused has a reason, and what runs
 * gives the same bits in whatever order its tasks run, and about the same numbers, outputs and gradients,
 * with every table of kernels as with the plain one. */
#include "fuzz/kernel_choice.h"
#include "fuzz/layer_choices.h"
#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bounds of what is really computed. */
#define MOST_SCRATCH (1 << 22)
#define MOST_WORK 4e6
#define MOST_CLIP 100
#define BF16_MARK 0xa0 /* of the first byte */

/* ---- the call ------------------------------------------------------------------------------ */

struct call {
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    void *owned[ATTN_MAX_PORTS];
    size_t n;
    bool whole; /* every input has its data */
    size_t batch, queries, keys, edges, width;
    struct attn_tensor output,
        attention; /* shapes of the outputs, where they are known */
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

/* Draws and cotangents: as the outputs that they belong to. */
static void shape_of_output(const struct call *call, const struct attn_spec *spec,
                            enum attni_role role, struct attn_tensor *tensor)
{
    bool of_attention = role == ATTNI_DROPOUT_UNIFORM || role == ATTNI_GRAD_ATTENTION;
    *tensor = of_attention ? call->attention : call->output;
    if (role != ATTNI_GRAD_OUTPUT && !of_attention && spec->squeeze_output) {
        tensor->shape[tensor->rank++] = 1;
    }
    tensor->data = NULL;
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
        shape_axes(call, bytes, spec, "BQKHV", tensor);
        break;
    default:
        shape_of_output(call, spec, role, tensor);
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
    bool draws = role >= ATTNI_DROPOUT_UNIFORM && role < ATTNI_GRAD_OUTPUT;
    if (draws && tensor->dtype == ATTN_F32 && !rarely(bytes)) {
        for (size_t i = 0; i < count; i++) {
            float draw = fabsf(dice_real(dice)) * 0.999f;
            memcpy(data + i * sizeof draw, &draw, sizeof draw);
        }
        return;
    }
    if (!indices || rarely(bytes)) {
        fill_elements(dice, choose_fill(bytes), tensor->dtype, data, count);
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

/* The shapes of the outputs, once the inputs of inference are there, if they are good. */
static void learn_outputs(struct call *call, const attn_layer *layer)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const char *const names[] = {spec->output, spec->attention};
    attn_plan *plan = NULL;
    if (attn_plan_create(layer, NULL, call->inputs, call->n, names,
                         spec->attention[0] ? 2 : 1, &plan, NULL)) {
        return;
    }
    call->output = attn_plan_output(plan, 0)->tensor;
    if (spec->attention[0]) {
        call->attention = attn_plan_output(plan, 1)->tensor;
    }
    attn_plan_free(plan);
}

static void choose_call(struct call *call, struct bytes *bytes, struct dice *dice,
                        const attn_layer *layer, const struct attn_mode *mode)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    struct attn_port ports[ATTN_MAX_PORTS];
    enum attni_role roles[ATTN_MAX_PORTS];
    size_t n_ports = attni_ports_inputs(layer, mode, ports, roles);
    call->whole = true;
    call->batch = choose(bytes, 4);
    call->queries =
        spec->length && choose(bytes, 2) ? spec->length : choose_length(bytes);
    call->keys = choose_length(bytes);
    call->edges = choose(bytes, 24);
    call->width = spec->n_heads * choose(bytes, 18);
    bool knows = false;
    for (size_t i = 0; i < n_ports; i++) {
        if (roles[i] >= ATTNI_DROPOUT_UNIFORM && !knows) {
            learn_outputs(call, layer);
            knows = true;
        }
        if (!(ports[i].optional ? choose(bytes, 2) : rarely(bytes) && rarely(bytes))) {
            add_input(call, bytes, dice, spec, &ports[i], roles[i]);
        }
    }
}

/* ---- the mode ------------------------------------------------------------------------------ */

#define MODE_MARK 0xc0

/* Inference, unless the last byte says otherwise; some modes contradict themselves. */
static struct attn_mode choose_mode(struct bytes *bytes)
{
    struct attn_mode mode = {.size = sizeof mode};
    if (bytes->n == 0 || bytes->data[bytes->n - 1] < MODE_MARK) {
        return mode;
    }
    size_t what = choose_last(bytes, 256);
    mode.training = what & 1;
    mode.gradient = what & 2;
    mode.reduction = (enum attn_reduction)(what >> 2 & 3);
    mode.n_draws = what & 0x10 ? choose_last(bytes, 5) : 0;
    mode.seed = what & 0x20 ? UINT64_MAX - choose_last(bytes, 256) : 0;
    return mode;
}

/* Training drops something, whatever the options say. */
static void choose_dropout(struct bytes *bytes, const struct attn_mode *mode,
                           struct attn_spec *spec)
{
    static const double rates[] = {0, 0.5, 1, 0.1};
    if (mode->training) {
        spec->dropout = rates[choose_last(bytes, sizeof rates / sizeof *rates)];
    }
}

/* ---- running ------------------------------------------------------------------------------- */

/* What a plan computes: memory that is to be freed. */
struct outputs {
    unsigned char *data[ATTN_MAX_PORTS];
};

/* Two workers that take turns, from the last task to the first. */
static void run_backwards(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    (void)context;
    for (size_t i = n_tasks; i-- > 0;) {
        task(argument, i, i % 2);
    }
}

#define GUARD_BYTES 32

/* One run, with memory whose end is watched. */
static enum attn_status run(const attn_plan *plan, const struct attn_parallel *parallel,
                            int before, struct outputs *outputs, const size_t *n_bytes,
                            struct attn_error *error)
{
    /* exactly as large as it has to be where nobody looks for guards: the sanitizers do */
    size_t guard = parallel ? GUARD_BYTES : 0, n_scratch = 0,
           n = attn_plan_n_outputs(plan);
    float *memory[ATTN_MAX_PORTS];
    require(attn_plan_scratch(plan, parallel ? 2 : 1, &n_scratch) == ATTN_OK);
    unsigned char *scratch = need_memory(n_scratch + guard);
    memset(scratch, before, n_scratch + guard);
    for (size_t i = 0; i < n; i++) {
        outputs->data[i] = need_memory(n_bytes[i] + guard);
        memset(outputs->data[i], before, n_bytes[i] + guard);
        memory[i] = (float *)(void *)outputs->data[i];
    }
    enum attn_status status = (plan->mode.gradient ? attn_backward : attn_forward)(
        plan, memory, scratch, parallel, error);
    for (size_t i = 0; i < guard; i++) {
        require(scratch[n_scratch + i] == (unsigned char)before);
        for (size_t k = 0; k < n; k++) {
            require(outputs->data[k][n_bytes[k] + i] == (unsigned char)before);
        }
    }
    free(scratch);
    return status;
}

/* The outputs of the first run are the caller's: in results. */
static void run_both_ways(const attn_plan *plan, const size_t *n_bytes,
                          struct results *results)
{
    static const struct attn_parallel backwards = {2, run_backwards, NULL};
    struct attn_error errors[2] = {{.status = ATTN_OK}, {.status = ATTN_OK}};
    struct outputs outputs[2];
    /* what was there before differs, so that an element left out shows */
    enum attn_status status = run(plan, NULL, 0xff, &outputs[0], n_bytes, &errors[0]);
    require(run(plan, &backwards, 0x5a, &outputs[1], n_bytes, &errors[1]) == status);
    failed(status, &errors[0]);
    require(status == ATTN_OK || status == ATTN_RANGE);
    require(strcmp(errors[0].message, errors[1].message) == 0);
    for (size_t i = 0; i < attn_plan_n_outputs(plan); i++) {
        require(status || n_bytes[i] == 0 ||
                memcmp(outputs[0].data[i], outputs[1].data[i], n_bytes[i]) == 0);
        free(outputs[1].data[i]);
        results_add(results, outputs[0].data[i], n_bytes[i]);
    }
    results->status = status;
}

/* Whether a plan is small enough to be run here; n_bytes: of its outputs. */
static bool is_small(const attn_plan *plan, size_t n_bytes[ATTN_MAX_PORTS])
{
    size_t n_scratch = 0, n_all = 0;
    bool small_enough =
        attn_plan_scratch(plan, 2, &n_scratch) == ATTN_OK && n_scratch <= MOST_SCRATCH;
    for (size_t i = 0; i < attn_plan_n_outputs(plan); i++) {
        require(attn_tensor_bytes(&attn_plan_output(plan, i)->tensor, &n_bytes[i]) ==
                ATTN_OK);
        small_enough = small_enough && n_bytes[i] <= 4 * MOST_BYTES;
        n_all += n_bytes[i] != 0;
    }
    double work =
        (double)plan->n_batch * (double)plan->n_queries * (double)plan->n_keys *
        (double)(plan->layer->spec.n_heads * (1 + plan->head_width + plan->value_width)) *
        (double)(plan->mode.n_draws + (plan->mode.gradient ? 3 : 1));
    return small_enough && (n_all == 0 || work <= MOST_WORK);
}

/* The outputs of inference by name, one that there is not, or none. */
static size_t choose_own_outputs(struct bytes *bytes, const struct attn_spec *spec,
                                 const char **names)
{
    const char *all[] = {spec->output, spec->attention, "no such output"};
    size_t first = choose(bytes, 2), n = choose(bytes, 4 - first);
    all[1] = rarely(bytes) ? all[0] : all[1];
    memcpy(names, all + first, n * sizeof *names);
    return n;
}

/* Some of those of the mode, seldom one twice. */
static size_t choose_outputs(struct bytes *bytes, const attn_layer *layer,
                             const struct attn_mode *mode, const char **names)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    size_t n = 0, n_ports = attn_layer_outputs(layer, mode, ports);
    bool chooses = choose(bytes, 2);
    for (size_t i = 0; chooses && i < n_ports; i++) {
        if (choose(bytes, 2)) {
            names[n++] = ports[rarely(bytes) ? choose(bytes, n_ports) : i].name;
        }
    }
    return n;
}

static void run_call(struct bytes *bytes, const attn_layer *layer,
                     const struct attn_mode *mode, const struct call *call,
                     struct results *results)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    const char *names[ATTN_MAX_PORTS];
    bool own = !mode->training && !mode->gradient && mode->n_draws == 0;
    size_t n_names = own ? choose_own_outputs(bytes, spec, names)
                         : choose_outputs(bytes, layer, mode, names);
    struct attn_error error = {0};
    attn_plan *plan = NULL;
    bool none = failed(attn_plan_create(layer, mode, call->inputs, call->n, names,
                                        n_names, &plan, &error),
                       &error);
    require(none == (plan == NULL));
    size_t n_bytes[ATTN_MAX_PORTS];
    if (plan && call->whole && is_small(plan, n_bytes)) {
        run_both_ways(plan, n_bytes, results);
    }
    attn_plan_free(plan);
}

/* Does the layer's result change by leaps where its inputs hardly do? */
static bool leaps(const struct attn_spec *spec, const struct attn_mode *mode)
{
    bool is_rough = spec->clip && !(fabs(spec->clip_value) <= MOST_CLIP);
    return is_rough || (mode->gradient && (spec->normalisation.kind == ATTN_POST_RELU ||
                                           spec->activation.kind == ATTN_POST_RELU));
}

/* With the kernels that are chosen now. */
static void run_layer(const uint8_t *data, size_t size, struct results *results)
{
    struct bytes bytes = {data, size, false};
    struct options options = {.n = 0};
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {0};
    struct attn_mode mode = choose_mode(&bytes);
    bool stores_bf16 = bytes.n > 0 && bytes.data[0] >= BF16_MARK;
    size_t preset = choose(&bytes, 6);
    struct dice dice = {choose(&bytes, 256)};
    choose_options(&options, &bytes, preset);
    if (failed(attn_spec_preset(&spec, attn_preset_name(preset), options.list, options.n,
                                &error),
               &error)) {
        return;
    }
    spec.empty_rows = choose(&bytes, 2) ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
    spec.weights_dtype = stores_bf16 ? ATTN_STORE_BF16 : ATTN_STORE_F32;
    choose_dropout(&bytes, &mode, &spec);
    attn_layer *layer = make_layer(&bytes, &dice, &spec);
    if (layer) {
        struct call call = {.n = 0};
        choose_call(&call, &bytes, &dice, layer, &mode);
        run_call(&bytes, layer, &mode, &call, results);
        results->tame = !bytes.wild && !leaps(&spec, &mode);
        results->tolerance = stores_bf16 ? TOLERANCE_BF16 : TOLERANCE;
        while (call.n > 0) {
            free(call.owned[--call.n]);
        }
    }
    attn_layer_free(layer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct results plain = {.n = 0};
    kernels_choose(0);
    run_layer(data, size, &plain);
    for (size_t i = 1; kernels_choose(i); i++) {
        struct results results = {.n = 0};
        run_layer(data, size, &results);
        results_compare(&plain, &results);
        results_reset(&results);
    }
    results_reset(&plain);
    return 0;
}
