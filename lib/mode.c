/* mode.c - check what a call does beyond inference. Pure functions, any thread; reads shapes, never
 * data. */
#include "mode.h"

#include "status.h"
#include "tensor.h"

#include <string.h>

static enum attn_status refuse(const char *member, const char *what,
                               struct attn_error *error)
{
    return attni_fail(error, ATTN_INVALID, member, "mode member '%s': %s", member, what);
}

enum attn_status attni_mode_check(const struct attn_mode *mode, struct attn_error *error)
{
    if (mode->size != sizeof *mode) {
        return attni_fail(error, ATTN_INVALID, "size",
                          "mode member 'size': expected %zu, got %zu", sizeof *mode,
                          mode->size);
    }
    if (mode->n_draws > ATTN_MAX_DRAWS) {
        return attni_fail(error, ATTN_INVALID, "n_draws",
                          "mode member 'n_draws': expected at most %d, got %zu",
                          ATTN_MAX_DRAWS, mode->n_draws);
    }
    if (mode->n_draws > 0 && !mode->training) {
        return refuse("n_draws", "without training every draw is the same", error);
    }
    if (mode->n_draws > 0 && mode->gradient) {
        return refuse("n_draws", "gradients are those of one draw", error);
    }
    switch (mode->reduction) {
    case ATTN_REDUCTION_DEFAULT:
    case ATTN_REDUCTION_SUM:
    case ATTN_REDUCTION_MEAN:
        return ATTN_OK;
    }
    return refuse("reduction", "none of enum attn_reduction", error);
}

static bool same_shape(const struct attn_tensor *a, const struct attn_tensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static enum attn_status fit(const attn_plan *plan, enum attni_role role, const char *name,
                            const struct attn_tensor *expected, struct attn_error *error)
{
    const struct attn_tensor *got = &plan->inputs[role];
    if (!plan->given[role] || same_shape(got, expected)) {
        return ATTN_OK;
    }
    return attni_fail(error, ATTN_SHAPE, name, "input '%s': expected %s, got %s", name,
                      attni_shape_text(expected->shape, expected->rank).text,
                      attni_shape_text(got->shape, got->rank).text);
}

/* A batch has a variance from two samples on. */
static enum attn_status check_batch(const attn_plan *plan, const struct attni_post *post,
                                    struct attn_error *error)
{
    const char *name = plan->layer->spec.query;
    if (!attni_plan_couples(plan, post) || plan->n_batch >= 2) {
        return ATTN_OK;
    }
    return attni_fail(error, ATTN_SHAPE, name,
                      "input '%s': expected at least 2 samples, of whose variance "
                      "BatchNorm makes use in training, got %zu",
                      name, plan->n_batch);
}

static enum attn_status fit_draws(const attn_plan *plan, const struct attn_tensor own[2],
                                  struct attn_error *error)
{
    const attn_layer *layer = plan->layer;
    const struct attni_post *posts = layer->posts;
    enum attn_status status =
        fit(plan, ATTNI_DROPOUT_UNIFORM, "dropout_uniform", &own[1], error);
    struct attn_tensor rows = {
        .rank = 3,
        .shape = {plan->n_batch, plan->n_queries, attni_spec_output_width(&layer->spec)}};
    for (size_t i = 0; status == ATTN_OK && i < ATTNI_N_POSTS; i++) {
        status = fit(plan, (enum attni_role)(ATTNI_POST_UNIFORM + i),
                     layer->port_names.uniform[i], &rows, error);
        if (status == ATTN_OK) {
            status = check_batch(plan, &posts[i], error);
        }
    }
    return status;
}

static enum attn_status fit_cotangents(const attn_plan *plan,
                                       const struct attn_tensor own[2],
                                       struct attn_error *error)
{
    if (!plan->given[ATTNI_GRAD_OUTPUT] && !plan->given[ATTNI_GRAD_ATTENTION]) {
        return attni_fail(error, ATTN_MISSING, "grad_output",
                          "input 'grad_output': expected the cotangent of '%s', or "
                          "'grad_attention', and both are missing",
                          plan->layer->spec.output);
    }
    if (plan->n_batch < plan->n_score_batch) {
        return attni_fail(error, ATTN_SHAPE, plan->layer->spec.value,
                          "input '%s': expected a sample or more, as scores have one",
                          plan->layer->spec.value);
    }
    enum attn_status status = fit(plan, ATTNI_GRAD_OUTPUT, "grad_output", &own[0], error);
    return status ? status
                  : fit(plan, ATTNI_GRAD_ATTENTION, "grad_attention", &own[1], error);
}

enum attn_status attni_mode_fit(const attn_plan *plan, const struct attn_tensor own[2],
                                struct attn_error *error)
{
    enum attn_status status = ATTN_OK;
    if (plan->mode.training) {
        status = fit_draws(plan, own, error);
    }
    if (status == ATTN_OK && plan->mode.gradient) {
        status = fit_cotangents(plan, own, error);
    }
    return status;
}
