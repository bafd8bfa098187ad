/* input_binary.c - the elements of an input out of the binary part of a body.
 *
 * The bytes stay where they are when their type and alignment allow it. Little-endian machines only,
 * as the library. Runs on the worker that decodes the request; keeps no state. */
#include "codec/input.h"

#include <stdint.h>
#include <string.h>

static enum ad_status fail_memory(struct ad_error *error)
{
    return ad_fail(error, AD_INTERNAL, "out of memory");
}

static enum ad_status convert(const struct ad_input *input, const void *bytes,
                              struct ad_arena *arena, const void **elements,
                              struct ad_error *error)
{
    float *floats = ad_arena_array(arena, input->n, sizeof *floats);
    if (!floats) {
        return fail_memory(error);
    }
    size_t bad = 0;
    if (attn_convert_to_f32(input->wire, bytes, input->n, floats, &bad) != ATTN_OK) {
        return ad_fail(error, AD_INVALID,
                       "input '%s': element %zu (%s) is beyond the range of FP32",
                       input->port->name, bad, input->datatype);
    }
    *elements = floats;
    return AD_OK;
}

static enum ad_status check_booleans(const struct ad_input *input, const void *bytes,
                                     struct ad_error *error)
{
    const unsigned char *flags = bytes;
    for (size_t i = 0; i < input->n; i++) {
        if (flags[i] > 1) {
            return ad_fail(error, AD_INVALID,
                           "input '%s': element %zu must be 0 or 1 (BOOL), got byte %u",
                           input->port->name, i, flags[i]);
        }
    }
    return AD_OK;
}

enum ad_status ad_input_read_binary(const struct ad_input *input, const void *bytes,
                                    struct ad_arena *arena, const void **elements,
                                    struct ad_error *error)
{
    if (input->wire != input->dtype) {
        return convert(input, bytes, arena, elements, error);
    }
    if (input->dtype == ATTN_BOOL) {
        enum ad_status status = check_booleans(input, bytes, error);
        if (status) {
            return status;
        }
    }
    *elements = bytes;
    if ((uintptr_t)bytes % attn_dtype_size(input->dtype) != 0) {
        void *copy = ad_arena_alloc(arena, input->n_bytes);
        if (!copy) {
            return fail_memory(error);
        }
        memcpy(copy, bytes, input->n_bytes);
        *elements = copy;
    }
    return AD_OK;
}
