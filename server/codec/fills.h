/* fills.h - the JSON of a request's inputs into their tensors, on several workers where it is much. */
#ifndef AD_CODEC_FILLS_H
#define AD_CODEC_FILLS_H

#include "attention.h"
#include "codec/input.h"

#include <locale.h>
#include <stddef.h>

struct ad_fill; /* one input */

/* What is still to be read. Owner: the decoder; memory is the arena's. */
struct ad_fills {
    struct ad_fill *items;
    size_t n, n_text; /* inputs, and bytes of their text */
};

/* Room for n of them. False when out of memory. */
bool ad_fills_begin(struct ad_fills *fills, size_t n, struct ad_arena *arena);

/* One more: its memory is *elements from now on, and is filled by ad_fills_run. As ad_input_place_json. */
enum ad_status ad_fills_add(struct ad_fills *fills, const struct ad_input *input,
                            const char *text, size_t n, struct ad_arena *arena,
                            const void **elements, struct ad_error *error) AD_MUST_CHECK;

/* Read all; the failure of the first that fails is error's. helpers NULL: on this thread alone. */
enum ad_status ad_fills_run(struct ad_fills *fills, const struct attn_parallel *helpers,
                            locale_t c_locale, struct ad_error *error) AD_MUST_CHECK;

#endif
