/* serve.c - what a worker does with requests: decode and plan one, run many together, encode each.
 *
 * Coordinates and computes nothing itself. Runs on a worker, which holds the requests. */
#include "codec/serve.h"
#include "base/clock.h"
#include "codec/decode.h"
#include "codec/encode.h"
#include "codec/fault.h"
#include "codec/move.h"
#include "codec/pack.h"
#include "codec/predict.h"
#include "codec/shared.h"
#include "codec/text.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Multiply-adds from which a pass is spread over idle workers: some 300 microseconds
 * with AVX-512, more with less. Measured with two workers on a virtual machine, where a
 * wake-up costs its waker 29 microseconds and takes 60: what takes 60 alone took 90 in
 * the median, 150 took 150, 200 took 190, 360 took 280. */
#define SPREAD_FROM 3e7

/* ---- planning ------------------------------------------------------------------------------ */

static enum ad_status create_plan(struct ad_request *request, struct ad_error *error)
{
    const char *names[ATTN_MAX_PORTS];
    for (size_t i = 0; i < request->n_wanted; i++) {
        names[i] = request->wanted[i].name;
    }
    struct attn_error fault = {0};
    enum attn_status status =
        request->sequence ? attn_cache_plan(ad_sequence_cache(request->sequence),
                                            request->inputs, request->n_inputs, names,
                                            request->n_wanted, &request->plan, &fault)
                          : attn_plan_create(request->version->layer, &request->mode,
                                             request->inputs, request->n_inputs, names,
                                             request->n_wanted, &request->plan, &fault);
    return status ? ad_fail_attn(error, status, &fault) : AD_OK;
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

static enum ad_status check_sizes(const struct ad_request *request,
                                  struct ad_error *error)
{
    size_t total = 0;
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < attn_plan_n_outputs(request->plan); i++) {
        status = check_size(request, attn_plan_output(request->plan, i), &total, error);
    }
    return status;
}

/* Samples of the batch axis, the first of queries, keys and values, of which some may have one for
 * all. */
static size_t count_items(const struct ad_request *request)
{
    const struct attn_spec *spec = attn_layer_spec(request->version->layer);
    const char *const names[] = {spec->query, spec->key, spec->value};
    size_t n_items = 0;
    for (size_t i = 0; i < request->n_inputs; i++) {
        const struct attn_named_tensor *input = &request->inputs[i];
        size_t n = input->tensor.rank > 1 ? input->tensor.shape[0] : 1;
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            bool counts = strcmp(input->name, names[j]) == 0;
            n_items = counts && n > n_items ? n : n_items;
        }
    }
    return n_items;
}

static enum ad_status plan(const struct ad_serving *serving, struct ad_request *request,
                           struct ad_error *error)
{
    enum ad_status status = AD_OK;
    if (request->sequence_call.id) {
        status = ad_sequences_take(serving->sequences, request, ad_clock_now_ns(), error);
    }
    if (!status) {
        status = create_plan(request, error);
    }
    if (!status) {
        status = check_sizes(request, error);
    }
    if (!status) {
        status = ad_shared_check(request, error);
    }
    if (!status && request->sequence) {
        status = ad_sequences_make_room(serving->sequences, request->sequence,
                                        ad_clock_now_ns(), error);
    }
    if (status) {
        return status;
    }
    request->joins = attn_plan_joins(request->plan);
    request->n_rows = attn_plan_rows(request->plan);
    request->n_items = count_items(request);
    request->cost = attn_plan_cost(request->plan);
    return AD_OK;
}

enum ad_status ad_serve_decode(void *context, struct ad_request *request)
{
    const struct ad_serving *serving = context;
    if (request->move) {
        return ad_move_run(serving->sequences, request);
    }
    enum ad_status status = ad_decode_infer(request, &request->error);
    if (!status) {
        status = plan(serving, request, &request->error);
    }
    if (status) {
        ad_sequences_give(request, ad_clock_now_ns());
    }
    return status;
}

/* ---- running ------------------------------------------------------------------------------- */

/* A request in a pass. */
struct part {
    struct ad_request *request;
    struct attn_named_tensor outputs[ATTN_MAX_PORTS];
    float *floats[ATTN_MAX_PORTS];
    bool encoded; /* the reply is there, and floats are part of it */
};

static enum ad_status allocate_floats(struct part *part, size_t n, struct ad_error *error)
{
    for (size_t i = 0; i < n; i++) {
        struct attn_tensor *tensor = &part->outputs[i].tensor;
        size_t count;
        part->floats[i] =
            attn_tensor_count(tensor, &count) == ATTN_OK
                ? ad_arena_array(&part->request->arena, count, sizeof(float))
                : NULL;
        if (!part->floats[i]) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        tensor->data = part->floats[i];
    }
    return AD_OK;
}

/* Memory for the plan's outputs: outputs[i] describes what floats[i] will hold. What goes out as bytes
 * is computed where it goes out from. */
static enum ad_status allocate_outputs(struct part *part, struct ad_error *error)
{
    struct ad_request *request = part->request;
    size_t n = attn_plan_n_outputs(request->plan);
    assert(n <= ATTN_MAX_PORTS);
    for (size_t i = 0; i < n; i++) {
        part->outputs[i] = *attn_plan_output(request->plan, i);
    }
    part->encoded = ad_encode_is_binary(request, n);
    return part->encoded
               ? ad_encode_binary(request, part->outputs, part->floats, n, error)
               : allocate_floats(part, n, error);
}

/* The workers to spread a pass over; NULL: it is not worth their while. One alone cuts a long pass too,
 * to serve what is small in between. */
static const struct attn_parallel *spread_over(const struct ad_request *request,
                                               double cost)
{
    return cost >= SPREAD_FROM ? request->helpers : NULL;
}

static void compute_one(const struct part *part, struct ad_worker *worker)
{
    const struct ad_request *request = part->request;
    struct ad_error *error = &part->request->error;
    const struct attn_parallel *parallel = spread_over(request, request->cost);
    struct attn_error fault = {0};
    size_t n_bytes;
    enum attn_status status =
        attn_plan_scratch(request->plan, parallel ? parallel->n_workers : 1, &n_bytes);
    if (status) {
        ad_fail_attn(error, status, &fault);
        return;
    }
    void *memory = ad_scratch_get(&worker->scratch, n_bytes);
    if (!memory) {
        ad_fail(error, AD_INTERNAL, "out of memory");
        return;
    }
    status = request->mode.gradient
                 ? attn_backward(request->plan, part->floats, memory, parallel, &fault)
                 : attn_forward(request->plan, part->floats, memory, parallel, &fault);
    if (status) {
        ad_fail_attn(error, status, &fault);
    }
}

/* A pass of several: as we and as the library want it. Of this much memory a pass touches what it
 * needs. */
struct pass {
    struct part parts[AD_MAX_BATCH_REQUESTS];
    const attn_plan *plans[AD_MAX_BATCH_REQUESTS];
    float *const *floats[AD_MAX_BATCH_REQUESTS];
    struct attn_error faults[AD_MAX_BATCH_REQUESTS];
};

static enum ad_status compute_many(struct pass *pass, size_t n, struct ad_worker *worker,
                                   struct ad_error *error)
{
    double cost = 0;
    size_t n_bytes;
    for (size_t i = 0; i < n; i++) {
        pass->plans[i] = pass->parts[i].request->plan;
        pass->floats[i] = pass->parts[i].floats;
        attn_error_clear(&pass->faults[i]);
        cost += pass->parts[i].request->cost;
    }
    const struct attn_parallel *parallel = spread_over(pass->parts[0].request, cost);
    struct attn_error fault = {0};
    enum attn_status status =
        attn_many_scratch(pass->plans, n, parallel ? parallel->n_workers : 1, &n_bytes);
    if (status) {
        return ad_fail_attn(error, status, &fault);
    }
    void *memory = ad_scratch_get(&worker->scratch, n_bytes);
    if (!memory) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    attn_forward_many(pass->plans, n, pass->floats, memory, parallel, pass->faults);
    return AD_OK;
}

/* Run n parts in one pass; what goes wrong with one is its own. */
static void compute(struct pass *pass, size_t n, struct ad_worker *worker)
{
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = compute_many(pass, n, worker, &error);
    for (size_t i = 0; i < n; i++) {
        struct ad_error *own = &pass->parts[i].request->error;
        if (status) {
            ad_fail(own, status, "%s", error.message);
        } else if (pass->faults[i].status) {
            ad_fail_attn(own, pass->faults[i].status, &pass->faults[i]);
        }
    }
}

/* The parts whose outputs have memory, in *parts; their number. */
static size_t gather(const struct ad_requests *batch, struct part *parts)
{
    size_t n = 0;
    for (struct ad_request *request = batch->first; request; request = request->next) {
        parts[n].request = request;
        n += allocate_outputs(&parts[n], &request->error) == AD_OK;
    }
    return n;
}

static enum ad_status encode_form(struct part *part)
{
    struct ad_request *request = part->request;
    size_t n = attn_plan_n_outputs(request->plan);
    return request->form == AD_FORM_PREDICT
               ? ad_predict_encode(request, part->outputs, n, &request->error)
               : ad_encode_infer(request, part->outputs, n, &request->error);
}

static void encode(struct part *part)
{
    struct ad_request *request = part->request;
    enum ad_status status = request->error.status;
    request->advanced = !status && request->sequence;
    if (!status && !part->encoded) {
        status = encode_form(part);
    }
    if (status) {
        ad_buffer_reset(&request->reply);
    } else {
        ad_pack_reply(request);
    }
    request->times.encoded_ns = ad_clock_now_ns();
}

static void count_pass(const struct part *parts, size_t n)
{
    const struct ad_request *first = parts[0].request;
    int64_t input_ns = 0;
    uint64_t n_items = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ad_times *times = &parts[i].request->times;
        input_ns += ad_times_between(times->decoding_ns, times->decoded_ns);
        n_items += parts[i].request->n_items;
    }
    ad_stats_add_pass(
        first->version->stats, n, n_items, input_ns,
        ad_times_between(first->times.computing_ns, first->times.computed_ns),
        ad_times_between(first->times.computed_ns,
                         parts[n - 1].request->times.encoded_ns));
}

static void run(struct part *parts, struct pass *pass, const struct ad_requests *batch,
                struct ad_worker *worker)
{
    size_t n = gather(batch, parts);
    if (n == 0) {
        return;
    }
    if (n > 1) {
        assert(pass);
        compute(pass, n, worker);
    } else {
        compute_one(&parts[0], worker);
    }
    int64_t computed_ns = ad_clock_now_ns();
    for (size_t i = 0; i < n; i++) {
        parts[i].request->times.computed_ns = computed_ns;
        encode(&parts[i]);
    }
    count_pass(parts, n);
}

static void fail_all(const struct ad_requests *batch)
{
    for (struct ad_request *request = batch->first; request; request = request->next) {
        ad_fail(&request->error, AD_INTERNAL, "out of memory");
    }
}

void ad_serve_run(void *context, const struct ad_requests *batch,
                  struct ad_worker *worker)
{
    struct part alone;
    (void)context;
    assert(batch->n <= AD_MAX_BATCH_REQUESTS);
    if (batch->n == 1) {
        run(&alone, NULL, batch, worker);
    } else {
        struct pass *pass = ad_scratch_get(&worker->records, sizeof *pass);
        if (pass) {
            run(pass->parts, pass, batch, worker);
        } else {
            fail_all(batch);
        }
    }
    int64_t now_ns = ad_clock_now_ns();
    for (struct ad_request *request = batch->first; request; request = request->next) {
        ad_sequences_give(request, now_ns);
    }
}
