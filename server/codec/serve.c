/* serve.c - a worker's whole job: decode, plan, compute, encode.
 *
 * Coordinates and computes nothing itself. Runs on a worker, which holds the request. */
#include "codec/serve.h"
#include "codec/decode.h"
#include "codec/encode.h"
#include "codec/text.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Multiply-adds from which a call is spread over idle workers: some 300 microseconds
 * with AVX-512, more with less. Measured with two workers on a virtual machine, where a
 * wake-up costs its waker 29 microseconds and takes 60: what takes 60 alone took 90 in
 * the median, 150 took 150, 200 took 190, 360 took 280. */
#define SPREAD_FROM 3e7

/* Gradients take as long as so many forwards, roughly: theirs, and two products for each of its own. */
#define GRADIENT_COST 3.3

/* What the library says, in the daemon's terms. */
static enum ad_status fail_attn(struct ad_error *error, enum attn_status status,
                                const struct attn_error *fault)
{
    enum ad_status code = AD_INVALID;
    switch (status) {
    case ATTN_OK:
    case ATTN_INVALID:
    case ATTN_SHAPE:
    case ATTN_DTYPE:
    case ATTN_MISSING:
    case ATTN_UNKNOWN:
    case ATTN_RANGE:
    case ATTN_FORMAT:
        break;
    case ATTN_TOO_LARGE:
        code = AD_TOO_LARGE;
        break;
    case ATTN_NO_MEMORY:
    case ATTN_IO:
        code = AD_INTERNAL;
        break;
    }
    return ad_fail(error, code, "%s",
                   fault->message[0] ? fault->message : attn_status_text(status));
}

static enum ad_status create_plan(const struct ad_request *request, attn_plan **plan,
                                  struct ad_error *error)
{
    const char *names[ATTN_MAX_PORTS];
    for (size_t i = 0; i < request->n_wanted; i++) {
        names[i] = request->wanted[i].name;
    }
    struct attn_error fault = {0};
    enum attn_status status =
        attn_plan_create(request->version->layer, &request->mode, request->inputs,
                         request->n_inputs, names, request->n_wanted, plan, &fault);
    return status ? fail_attn(error, status, &fault) : AD_OK;
}

/* Refuse what is too large to build before any of it is. */
static enum ad_status check_size(const struct ad_request *request,
                                 const struct attn_named_tensor *output, size_t *total,
                                 struct ad_error *error)
{
    size_t n_bytes = SIZE_MAX;
    if (attn_tensor_bytes(&output->tensor, &n_bytes) == ATTN_OK &&
        !__builtin_add_overflow(*total, n_bytes, total) &&
        *total <= request->max_output_bytes) {
        return AD_OK;
    }
    struct ad_text shape = {0};
    ad_text_add_shape(&shape, output->tensor.shape, output->tensor.rank);
    return ad_fail(error, AD_TOO_LARGE,
                   "output '%s' of shape %s takes %zu bytes; all outputs of a request "
                   "together may take %llu (--http-max-output-size)",
                   output->name, shape.bytes, n_bytes,
                   (unsigned long long)request->max_output_bytes);
}

/* Memory for the plan's outputs: outputs[i] describes what floats[i] will hold. */
static enum ad_status allocate_outputs(struct ad_request *request, const attn_plan *plan,
                                       struct attn_named_tensor outputs[ATTN_MAX_PORTS],
                                       float *floats[ATTN_MAX_PORTS],
                                       struct ad_error *error)
{
    size_t n = attn_plan_n_outputs(plan), total = 0;
    assert(n <= ATTN_MAX_PORTS);
    for (size_t i = 0; i < n; i++) {
        outputs[i] = *attn_plan_output(plan, i);
        enum ad_status status = check_size(request, &outputs[i], &total, error);
        if (status) {
            return status;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t count;
        floats[i] = attn_tensor_count(&outputs[i].tensor, &count) == ATTN_OK
                        ? ad_arena_array(&request->arena, count, sizeof(float))
                        : NULL;
        if (!floats[i]) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        outputs[i].tensor.data = floats[i];
    }
    return AD_OK;
}

/* An input by name; NULL: not given. */
static const struct attn_tensor *find_input(const struct ad_request *request,
                                            const char *name)
{
    for (size_t i = 0; i < request->n_inputs; i++) {
        if (strcmp(request->inputs[i].name, name) == 0) {
            return &request->inputs[i].tensor;
        }
    }
    return NULL;
}

/* The elements of a tensor's last n axes. In a double, which cannot overflow here. */
static double last_axes(const struct attn_tensor *tensor, size_t n)
{
    double product = 1;
    for (size_t i = 0; i < n && i < tensor->rank; i++) {
        product *= (double)tensor->shape[tensor->rank - 1 - i];
    }
    return product;
}

/* Whether a call takes long enough to be worth other workers' while. The multiply-adds of a
 * forward, roughly: each row of queries meets every parameter once, and every key twice (for
 * its score and for its value). */
static bool is_worth_spreading(const struct ad_request *request)
{
    const attn_layer *layer = request->version->layer;
    const struct attn_spec *spec = attn_layer_spec(layer);
    const struct attn_tensor *query = find_input(request, spec->query);
    const struct attn_tensor *key = find_input(request, spec->key);
    if (!query) {
        return false;
    }
    key = key ? key : query;
    /* a row is one axis, or two where heads are apart: [batch, length, heads, width] */
    size_t row_axes = query->rank == 4 && !spec->scores_only ? 2 : 1;
    double width = last_axes(query, row_axes);
    double n_rows = width > 0 ? last_axes(query, query->rank) / width : 0;
    double n_parameters = (double)attn_layer_bytes(layer) / sizeof(float);
    double forward = n_rows * (n_parameters + 2 * last_axes(key, row_axes + 1));
    double n_draws = request->mode.n_draws > 0 ? (double)request->mode.n_draws : 1;
    double n_forwards = request->mode.gradient ? GRADIENT_COST : n_draws;
    return forward * n_forwards >= SPREAD_FROM;
}

static enum ad_status compute(const struct ad_request *request, const attn_plan *plan,
                              float *const *floats, struct ad_worker *worker,
                              struct ad_error *error)
{
    struct attn_parallel parallel = ad_team_parallel(&worker->team);
    bool spread = parallel.n_workers > 1 && is_worth_spreading(request);
    struct attn_error fault = {0};
    size_t n_bytes;
    enum attn_status status =
        attn_plan_scratch(plan, spread ? parallel.n_workers : 1, &n_bytes);
    if (status) {
        return fail_attn(error, status, &fault);
    }
    void *memory = ad_scratch_get(&worker->scratch, n_bytes);
    if (!memory) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    const struct attn_parallel *spreading = spread ? &parallel : NULL;
    status = request->mode.gradient
                 ? attn_backward(plan, floats, memory, spreading, &fault)
                 : attn_forward(plan, floats, memory, spreading, &fault);
    return status ? fail_attn(error, status, &fault) : AD_OK;
}

static enum ad_status run_plan(struct ad_request *request, const attn_plan *plan,
                               struct ad_worker *worker, struct ad_error *error)
{
    struct attn_named_tensor outputs[ATTN_MAX_PORTS];
    float *floats[ATTN_MAX_PORTS];
    enum ad_status status = allocate_outputs(request, plan, outputs, floats, error);
    if (!status) {
        status = compute(request, plan, floats, worker, error);
    }
    if (!status) {
        status = ad_encode_infer(request, outputs, attn_plan_n_outputs(plan), error);
    }
    return status;
}

void ad_serve_infer(struct ad_request *request, struct ad_worker *worker)
{
    attn_plan *plan = NULL;
    enum ad_status status = ad_decode_infer(request, &request->error);
    if (!status) {
        status = create_plan(request, &plan, &request->error);
    }
    if (!status) {
        status = run_plan(request, plan, worker, &request->error);
    }
    attn_plan_free(plan);
    if (status) {
        ad_buffer_reset(&request->reply);
    }
}
