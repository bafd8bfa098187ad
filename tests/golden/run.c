/* run.c - compute one golden case through the public C API. One thread, and three more while a
 * parallel variant runs. */
#include "golden/run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define N_WORKERS 3

/* ---- three workers ----------------------------------------------------------------------- */

struct job {
    atomic_size_t next;
    size_t n_tasks;
    attn_task *task;
    void *argument;
};

struct job_worker {
    struct job *job;
    size_t worker;
};

static void *work(void *argument)
{
    struct job_worker *self = argument;
    size_t task;
    while ((task = atomic_fetch_add(&self->job->next, 1)) < self->job->n_tasks) {
        /* last first: the order is nobody's promise */
        self->job->task(self->job->argument, self->job->n_tasks - 1 - task, self->worker);
    }
    return NULL;
}

static void run_on_workers(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    (void)context;
    struct job job = {0, n_tasks, task, argument};
    struct job_worker workers[N_WORKERS];
    pthread_t threads[N_WORKERS];
    for (size_t i = 0; i < N_WORKERS; i++) {
        workers[i] = (struct job_worker){&job, i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            die("golden: cannot start a thread");
        }
    }
    for (size_t i = 0; i < N_WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- running a case ---------------------------------------------------------------------- */

/* The layer, from weights that are destroyed as soon as it exists: it must have copied them. */
static enum attn_status layer_build(const struct test_case *c, const struct variant *v,
                                    attn_layer **layer, struct attn_error *error)
{
    struct attn_spec spec;
    enum attn_status status = case_spec(c, &spec, error);
    if (status != ATTN_OK || !c->has_weights) {
        return status != ATTN_OK ? status : attn_layer_create(&spec, NULL, layer, error);
    }
    struct guarded bytes = guarded_create(c->n_bytes, v->misaligned ? 1 : 0);
    memcpy(bytes.data, c->bytes, c->n_bytes);
    attn_weights *weights = NULL;
    status = attn_weights_parse(bytes.data, c->n_bytes, &weights, error);
    if (status == ATTN_OK) {
        status = attn_weights_set_prefix(weights, "weights.", error);
    }
    if (status == ATTN_OK) {
        status = attn_layer_create(&spec, weights, layer, error);
    }
    attn_weights_free(weights);
    memset(bytes.data, 0xFF, c->n_bytes);
    guarded_free(&bytes);
    return status;
}

static size_t bytes_of(const struct attn_tensor *tensor)
{
    size_t n = 0;
    if (attn_tensor_bytes(tensor, &n) != ATTN_OK) {
        die("golden: a tensor of more than the machine can hold");
    }
    return n;
}

/* Where the pass has its i-th output in this variant's order. */
static size_t output_slot(const struct pass *pass, const struct variant *v, size_t i)
{
    return v->reversed && pass->n_outputs > 0 ? pass->n_outputs - 1 - i : i;
}

static enum attn_status plan_run(const struct pass *pass, const struct variant *v,
                                 const attn_plan *plan, struct result *result)
{
    size_t n_scratch = 0;
    enum attn_status status =
        attn_plan_scratch(plan, v->parallel ? N_WORKERS : 1, &n_scratch);
    if (status != ATTN_OK) {
        snprintf(result->problem, sizeof result->problem, "no scratch size: %s",
                 attn_status_text(status));
        return status;
    }
    float *pointers[ATTN_MAX_PORTS];
    result->n_outputs = attn_plan_n_outputs(plan);
    for (size_t i = 0; i < result->n_outputs; i++) {
        size_t slot = output_slot(pass, v, i);
        const struct attn_named_tensor *output = attn_plan_output(plan, i);
        snprintf(result->names[slot], ATTN_NAME_SIZE, "%s", output->name);
        result->memory[slot] =
            guarded_create(bytes_of(&output->tensor), v->misaligned ? sizeof(float) : 0);
        result->outputs[slot] = output->tensor;
        result->outputs[slot].data = result->memory[slot].data;
        pointers[i] = (float *)(void *)result->memory[slot].data;
    }
    struct guarded scratch = guarded_create(n_scratch, 16);
    struct attn_parallel parallel = {N_WORKERS, run_on_workers, NULL};
    status = (pass->mode.gradient ? attn_backward : attn_forward)(
        plan, pointers, scratch.data, v->parallel ? &parallel : NULL, &result->error);
    if (!guarded_intact(&scratch)) {
        snprintf(result->problem, sizeof result->problem, "wrote beside its scratch");
    }
    for (size_t i = 0; i < result->n_outputs; i++) {
        if (!guarded_intact(&result->memory[i])) {
            snprintf(result->problem, sizeof result->problem, "wrote beside output %zu",
                     i);
        }
    }
    guarded_free(&scratch);
    return status;
}

/* Plan and run with copies of the inputs, and see that the copies are left alone. */
static enum attn_status layer_run(const struct pass *pass, const struct variant *v,
                                  const attn_layer *layer, struct result *result)
{
    struct attn_named_tensor inputs[ATTN_MAX_PORTS];
    struct guarded copies[ATTN_MAX_PORTS];
    for (size_t i = 0; i < pass->n_inputs; i++) {
        inputs[i] = pass->inputs[i];
        size_t n = bytes_of(&inputs[i].tensor);
        copies[i] = guarded_create(
            n, v->misaligned ? attn_dtype_size(inputs[i].tensor.dtype) : 0);
        if (n > 0) {
            memcpy(copies[i].data, inputs[i].tensor.data, n);
        }
        inputs[i].tensor.data = copies[i].data;
    }
    const char *names[ATTN_MAX_PORTS];
    for (size_t i = 0; i < pass->n_outputs; i++) {
        names[i] = pass->outputs[output_slot(pass, v, i)];
    }
    bool plain = !pass->mode.training && !pass->mode.gradient;
    attn_plan *plan = NULL;
    enum attn_status status =
        attn_plan_create(layer, plain ? NULL : &pass->mode, inputs, pass->n_inputs, names,
                         v->lean ? 0 : pass->n_outputs, &plan, &result->error);
    if (status == ATTN_OK) {
        status = plan_run(pass, v, plan, result);
    }
    attn_plan_free(plan);
    for (size_t i = 0; i < pass->n_inputs; i++) {
        size_t n = copies[i].n_bytes;
        if (!guarded_intact(&copies[i]) ||
            (n > 0 && memcmp(copies[i].data, pass->inputs[i].tensor.data, n) != 0)) {
            snprintf(result->problem, sizeof result->problem, "changed its input %s",
                     pass->inputs[i].name);
        }
        guarded_free(&copies[i]);
    }
    return status;
}

enum attn_status case_run(const struct test_case *c, const struct pass *pass,
                          const struct variant *v, struct result *result)
{
    memset(result, 0, sizeof *result);
    attn_layer *layer = NULL;
    enum attn_status status = layer_build(c, v, &layer, &result->error);
    if (status == ATTN_OK) {
        status = layer_run(pass, v, layer, result);
    }
    attn_layer_free(layer);
    if (status != result->error.status) {
        snprintf(result->problem, sizeof result->problem,
                 "returned \"%s\" and recorded \"%s\"", attn_status_text(status),
                 attn_status_text(result->error.status));
    }
    return status;
}

void result_reset(struct result *result)
{
    for (size_t i = 0; i < ATTN_MAX_PORTS; i++) {
        guarded_free(&result->memory[i]);
    }
}
