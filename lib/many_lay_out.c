/* many_lay_out.c - the scratch of plans that are forwarded together. Pure functions, any thread. */
#include "many_lay_out.h"

#include "cursor.h"
#include "kept.h"
#include "lay_out.h"

#include <stdint.h>

/* A product of so many rows keeps the processor busy, whatever the size of its weight: a call that has as
 * many gains nothing from others'. */
#define ENOUGH_ROWS ((size_t)32)

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Whether the layer has projections, and the bits of their rows are the same whatever other rows there
 * are. */
static bool is_packed(const attn_layer *layer)
{
    const struct attni_linear *linears[] = {&layer->fused, &layer->query, &layer->key,
                                            &layer->value, &layer->output};
    bool any = false, all = true;
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        bool is_there = linears[i]->weight != NULL;
        any = any || is_there;
        all = all && (!is_there || attni_linear_is_packed(linears[i]));
    }
    return any && all;
}

/* Rows of one kind that the call projects; SIZE_MAX: too many to count. */
static size_t rows_of(const attn_plan *plan, size_t which)
{
    bool heads = which == ATTNI_OF_HEADS;
    size_t n;
    if (!heads && !attni_kept_brings(plan, which)) {
        return 0;
    }
    return attni_multiply(heads ? plan->n_batch : plan->batch[which],
                          attni_plan_length(plan, heads ? 0 : which), &n)
               ? n
               : SIZE_MAX;
}

static bool is_short(const attn_plan *plan)
{
    /* a context that stays is projected to where it stays */
    bool is = !attni_many_goes_alone(plan) && plan->kept.kind != ATTNI_KEPT_FILL;
    for (size_t i = 0; i < ATTNI_N_ROWS; i++) {
        is = is && rows_of(plan, i) < ENOUGH_ROWS;
    }
    return is;
}

bool attni_many_goes_alone(const attn_plan *plan)
{
    return !attni_lay_out_is_one_pass(plan);
}

bool attni_many_gathers(const struct attni_many_places *places, const attn_plan *plan)
{
    return places->gathers && is_short(plan);
}

size_t attni_many_own_bytes(const struct attni_many_places *places, const attn_plan *plan)
{
    return attni_many_gathers(places, plan) ? plan->rows_from : plan->shared_bytes;
}

static void count(const attn_plan *const *plans, size_t n_plans,
                  struct attni_many_places *places)
{
    size_t n_short = 0;
    for (size_t p = 0; p < n_plans; p++) {
        bool joins = !attni_many_goes_alone(plans[p]), gathers = is_short(plans[p]);
        places->n_joined += joins;
        places->worker_bytes =
            larger(places->worker_bytes, joins ? plans[p]->worker_bytes : 0);
        n_short += gathers;
        for (size_t i = 0; gathers && i < ATTNI_N_ROWS; i++) {
            places->n_rows[i] += rows_of(plans[p], i);
        }
    }
    places->gathers = n_short > 1 && is_packed(plans[0]->layer);
}

/* Gathered rows, before and after each product. */
static void take_rows(const attn_plan *plan, struct attni_many_places *places,
                      struct attni_cursor *cursor)
{
    const struct attni_linear *output = &plan->layer->output;
    for (size_t i = 0; i < 3; i++) {
        const struct attni_linear *linear = attni_plan_projection(plan, i);
        if (linear->weight) {
            size_t n = places->n_rows[i];
            places->rows_at[i] = attni_take_floats(cursor, n, linear->n_in, 1);
            places->products_at[i] = attni_take_floats(cursor, n, linear->n_out, 1);
        }
    }
    if (output->weight) {
        size_t n = places->n_rows[ATTNI_OF_HEADS];
        places->context_at = attni_take_floats(cursor, n, output->n_in, 1);
        places->output_at = attni_take_floats(cursor, n, output->n_out, 1);
    }
}

void attni_many_lay_out(const attn_plan *const *plans, size_t n_plans,
                        struct attni_many_places *places)
{
    struct attni_cursor cursor = {0, false};
    size_t n_bytes;
    *places = (struct attni_many_places){0};
    count(plans, n_plans, places);
    cursor.overflow =
        !attni_multiply(places->n_joined + 1, sizeof(struct attni_joined), &n_bytes);
    places->joined_at = attni_take_bytes(&cursor, n_bytes);
    places->starts_at =
        attni_take_bytes(&cursor, (places->n_joined + 1) * sizeof(size_t));
    if (places->gathers) {
        take_rows(plans[0], places, &cursor);
    }
    places->own_at = cursor.bytes;
    for (size_t p = 0; p < n_plans; p++) {
        if (!attni_many_goes_alone(plans[p])) {
            attni_take_bytes(&cursor, attni_many_own_bytes(places, plans[p]));
        }
    }
    places->shared_bytes = cursor.bytes;
    places->overflow = cursor.overflow;
}
