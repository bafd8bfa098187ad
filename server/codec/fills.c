/* fills.c - the JSON of a request's inputs into their tensors, on several workers where it is much.
 *
 * Runs on the worker that decodes the request and on those that help it; each input is one task, with an
 * error of its own. */
#include "codec/fills.h"

/* Bytes of text that are worth a helper's wake-up: some 200 microseconds of reading. */
#define SHARED_FROM ((size_t)256 << 10)

struct ad_fill {
    struct ad_input input;
    const char *text;
    size_t n;
    void *elements;
    struct ad_error error;
};

/* What the tasks share. Immutable. */
struct run {
    struct ad_fills *fills;
    locale_t c_locale;
};

bool ad_fills_begin(struct ad_fills *fills, size_t n, struct ad_arena *arena)
{
    *fills = (struct ad_fills){.items = ad_arena_array(arena, n, sizeof *fills->items)};
    return fills->items != NULL;
}

enum ad_status ad_fills_add(struct ad_fills *fills, const struct ad_input *input,
                            const char *text, size_t n, struct ad_arena *arena,
                            const void **elements, struct ad_error *error)
{
    struct ad_fill *fill = &fills->items[fills->n];
    enum ad_status status =
        ad_input_place_json(input, text, n, arena, &fill->elements, error);
    if (status) {
        return status;
    }
    fill->input = *input;
    fill->text = text;
    fill->n = n;
    ad_error_clear(&fill->error);
    fills->n++;
    fills->n_text += n;
    *elements = fill->elements;
    return AD_OK;
}

static void run_one(void *argument, size_t task, size_t worker)
{
    const struct run *run = argument;
    struct ad_fill *fill = &run->fills->items[task];
    (void)worker;
    /* what it says is in its error too */
    (void)!ad_input_fill_json(&fill->input, fill->text, fill->n, run->c_locale,
                              fill->elements, &fill->error);
}

enum ad_status ad_fills_run(struct ad_fills *fills, const struct attn_parallel *helpers,
                            locale_t c_locale, struct ad_error *error)
{
    struct run run = {fills, c_locale};
    if (helpers && fills->n > 1 && fills->n_text >= SHARED_FROM) {
        helpers->run(helpers->context, fills->n, run_one, &run);
    } else {
        for (size_t i = 0; i < fills->n; i++) {
            run_one(&run, i, 0);
        }
    }
    for (size_t i = 0; i < fills->n; i++) {
        const struct ad_error *own = &fills->items[i].error;
        if (own->status) {
            return ad_fail(error, own->status, "%s", own->message);
        }
    }
    return AD_OK;
}
