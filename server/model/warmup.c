/* warmup.c - run a layer on made-up inputs.
 *
 * The first forward of a layer finds its memory and its kernels cold, and may find that the config
 * does not fit how the layer is to be used: better before the first client does. Runs on the thread
 * that loads, task by task, so that the workers serve on. */
#include "model/warmup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One warm-up that is being run. */
struct run {
    const struct ad_warmup *warmup;
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    void *data[ATTN_MAX_PORTS]; /* of inputs; owned */
    attn_plan *plan;
    float *outputs[ATTN_MAX_PORTS]; /* owned */
    void *scratch;
};

static enum ad_status refuse(const struct ad_warmup *warmup, const struct attn_error *why,
                             struct ad_error *error)
{
    return ad_fail(error, why->status == ATTN_NO_MEMORY ? AD_INTERNAL : AD_INVALID,
                   "warm-up '%s': %s", warmup->name, why->message);
}

static enum ad_status no_memory(const struct ad_warmup *warmup, struct ad_error *error)
{
    return ad_fail(error, AD_INTERNAL, "warm-up '%s': out of memory", warmup->name);
}

/* splitmix64: each number of the state gives a well mixed one. */
static float next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (float)(z >> 40) / (float)(1 << 23) - 1.0f;
}

/* Memory for the input and what is in it. *total: bytes of all inputs so far. */
static enum ad_status fill_input(struct run *run, size_t i, const struct attn_port *port,
                                 size_t *total, struct ad_error *error)
{
    const struct ad_warmup_input *given = &run->warmup->inputs[i];
    struct attn_tensor *tensor = &run->inputs[i].tensor;
    run->inputs[i].name = given->name;
    tensor->dtype = port->dtype;
    tensor->rank = given->rank;
    memcpy(tensor->shape, given->shape, sizeof given->shape);
    size_t n_bytes = 0;
    if (attn_tensor_bytes(tensor, &n_bytes) != ATTN_OK ||
        __builtin_add_overflow(*total, n_bytes, total) || *total > AD_WARMUP_MAX_BYTES) {
        return ad_fail(error, AD_INVALID,
                       "warm-up '%s': input '%s': expected at most %zu bytes of inputs",
                       run->warmup->name, given->name, AD_WARMUP_MAX_BYTES);
    }
    run->data[i] = attn_alloc(n_bytes > 0 ? n_bytes : 1);
    if (!run->data[i]) {
        return no_memory(run->warmup, error);
    }
    tensor->data = run->data[i];
    if (given->random && port->dtype == ATTN_F32) {
        uint64_t state = i;
        float *values = run->data[i];
        for (size_t k = 0; k < n_bytes / sizeof *values; k++) {
            values[k] = next_random(&state);
        }
    } else {
        memset(run->data[i], 0, n_bytes);
    }
    return AD_OK;
}

static enum ad_status make_inputs(struct run *run, const attn_layer *layer,
                                  struct ad_error *error)
{
    struct attn_port ports[ATTN_MAX_PORTS];
    const size_t n_ports = attn_layer_inputs(layer, NULL, ports);
    size_t total = 0;
    for (size_t i = 0; i < run->warmup->n_inputs; i++) {
        const char *name = run->warmup->inputs[i].name;
        size_t p = 0;
        while (p < n_ports && strcmp(ports[p].name, name) != 0) {
            p++;
        }
        if (p == n_ports) {
            return ad_fail(error, AD_INVALID,
                           "warm-up '%s': input '%s': the layer has no such input",
                           run->warmup->name, name);
        }
        enum ad_status status = fill_input(run, i, &ports[p], &total, error);
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

static enum ad_status make_room(struct run *run, struct ad_error *error)
{
    const size_t n = attn_plan_n_outputs(run->plan);
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = 0;
        if (attn_tensor_bytes(&attn_plan_output(run->plan, i)->tensor, &n_bytes) !=
                ATTN_OK ||
            __builtin_add_overflow(total, n_bytes, &total) ||
            total > AD_WARMUP_MAX_BYTES) {
            return ad_fail(error, AD_INVALID,
                           "warm-up '%s': expected at most %zu bytes of outputs",
                           run->warmup->name, AD_WARMUP_MAX_BYTES);
        }
        run->outputs[i] = attn_alloc(n_bytes > 0 ? n_bytes : 1);
        if (!run->outputs[i]) {
            return no_memory(run->warmup, error);
        }
    }
    size_t n_scratch = 0;
    if (attn_plan_scratch(run->plan, 1, &n_scratch) == ATTN_OK) {
        run->scratch = attn_alloc(n_scratch > 0 ? n_scratch : 1);
    }
    return run->scratch ? AD_OK : no_memory(run->warmup, error);
}

static enum ad_status run_all(struct run *run, const attn_layer *layer,
                              struct ad_error *error)
{
    struct attn_error why = {0};
    enum ad_status status = make_inputs(run, layer, error);
    if (status) {
        return status;
    }
    if (attn_plan_create(layer, NULL, run->inputs, run->warmup->n_inputs, NULL, 0,
                         &run->plan, &why)) {
        return refuse(run->warmup, &why, error);
    }
    status = make_room(run, error);
    for (uint64_t i = 0; i < run->warmup->count && !status; i++) {
        if (attn_forward(run->plan, run->outputs, run->scratch, NULL, &why)) {
            status = refuse(run->warmup, &why, error);
        }
    }
    return status;
}

static void run_reset(struct run *run)
{
    attn_free(run->scratch);
    attn_plan_free(run->plan);
    for (size_t i = 0; i < ATTN_MAX_PORTS; i++) {
        attn_free(run->data[i]);
        attn_free(run->outputs[i]);
    }
}

enum ad_status ad_warmup_run(const struct ad_manifest *manifest, const attn_layer *layer,
                             struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; i < manifest->n_warmups && !status; i++) {
        struct run run = {.warmup = &manifest->warmups[i]};
        status = run_all(&run, layer, error);
        run_reset(&run);
    }
    return status;
}
