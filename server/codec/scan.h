/* scan.h - the JSON of an infer request without its numbers: an envelope small enough for a tree.
 *
 * The scanner reads the whole text once, strictly. The value of each `data` member of an object in
 * the top-level `inputs` is noted and left out: it may be millions of numbers, which must never
 * become a tree of values. All else is copied, with an index where such a value was. */
#ifndef AD_CODEC_SCAN_H
#define AD_CODEC_SCAN_H

#include "attention.h"
#include "base/arena.h"
#include "base/error.h"

#include <locale.h>
#include <stddef.h>

#define AD_SCAN_MAX_DEPTH 100                  /* of objects and arrays, `data` aside */
#define AD_SCAN_MAX_ENVELOPE ((size_t)1 << 20) /* bytes; a tree takes many times that */

/* A `data` value, as offsets in the text; it is the integer `index` in the envelope. */
struct ad_span {
    size_t begin, end;
    size_t replaced_at; /* offset of the index in the envelope */
};

struct ad_envelope {
    char *text; /* the arena's; NUL-terminated JSON object */
    size_t size;
    struct ad_span data[ATTN_MAX_PORTS]; /* by index */
    size_t n_data;
};

/* Check n bytes of text as one JSON object and fill *envelope. What is inside a `data` value is not
 * checked beyond finding its end (strings are): its reader does that. Numbers elsewhere fit int64
 * or double, strings hold no NUL. AD_INVALID: the offset, the path and what was expected.
 * AD_TOO_LARGE: the envelope is. text[n] must be readable; c_locale as in numbers.h. */
enum ad_status ad_scan_request(const char *text, size_t n, locale_t c_locale,
                               struct ad_arena *arena, struct ad_envelope *envelope,
                               struct ad_error *error) AD_MUST_CHECK;

/* The offset in the original text of an offset in the envelope. */
size_t ad_envelope_original(const struct ad_envelope *envelope, size_t offset);

#endif
