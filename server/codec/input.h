/* input.h - one input of an infer request: what its object says, then its elements. */
#ifndef AD_CODEC_INPUT_H
#define AD_CODEC_INPUT_H

#include "attention.h"
#include "base/arena.h"
#include "base/error.h"
#include "codec/parameters.h"
#include "sched/request.h"

#include <jansson.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

/* What an input's object says, checked against the port that it names: one of the request's. */
struct ad_input {
    const struct attn_port *port;
    const char *datatype;  /* as on the wire: "FP32" */
    enum attn_dtype wire;  /* the same as a type */
    enum attn_dtype dtype; /* of the tensor to make: floats become F32 */
    size_t rank;
    size_t shape[ATTN_MAX_RANK];
    size_t n; /* elements */
    size_t n_bytes;
    struct ad_shared shared; /* the place of its bytes in shared memory, if it has one */
    bool is_binary;          /* else they are in the body */
    size_t data;             /* else JSON: the index of its `data` in the envelope */
};

/* Read inputs[index]. AD_INVALID, AD_UNSUPPORTED: named by its name, or by its path before that is
 * known. */
enum ad_status ad_input_describe(struct ad_input *input, const struct ad_request *request,
                                 json_t *object, size_t index,
                                 struct ad_error *error) AD_MUST_CHECK;

/* Memory in the arena for elements that n bytes of JSON can hold; AD_INVALID: they cannot. */
enum ad_status ad_input_place_json(const struct ad_input *input, const char *text,
                                   size_t n, struct ad_arena *arena, void **elements,
                                   struct ad_error *error) AD_MUST_CHECK;

/* Read its elements from n bytes of JSON, flat or nested as the shape says, to where
 * ad_input_place_json gave memory. text[n] must be readable; c_locale as in numbers.h. Any thread. */
enum ad_status ad_input_fill_json(const struct ad_input *input, const char *text,
                                  size_t n, locale_t c_locale, void *elements,
                                  struct ad_error *error) AD_MUST_CHECK;

/* Both: read its elements from n bytes of JSON, flat or nested as the shape says, into the arena.
 * text[n] must be readable; c_locale as in numbers.h. Memory is bounded by n. */
enum ad_status ad_input_read_json(const struct ad_input *input, const char *text,
                                  size_t n, locale_t c_locale, struct ad_arena *arena,
                                  const void **elements,
                                  struct ad_error *error) AD_MUST_CHECK;

/* Take its elements from n_bytes little-endian bytes: a view of them where type and alignment
 * allow, else a copy in the arena. */
enum ad_status ad_input_read_binary(const struct ad_input *input, const void *bytes,
                                    struct ad_arena *arena, const void **elements,
                                    struct ad_error *error) AD_MUST_CHECK;

#endif
