/* mask.c - fit masks to scores by the spec's rule, and apply them. Pure functions, any thread. */
#include "mask.h"

#include "kernels/kernels.h"
#include "status.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum attni_axis axis_of(char letter)
{
    return letter == 'B'   ? ATTNI_BATCH
           : letter == 'H' ? ATTNI_HEADS
           : letter == 'Q' ? ATTNI_QUERIES
                           : ATTNI_KEYS;
}

/* Append "[batch=2, queries=3, keys=5]" for one form. */
static size_t write_form(char *text, size_t size, const char *axes,
                         const size_t sizes[ATTNI_N_AXES])
{
    static const char *const names[] = {"batch", "heads", "queries", "keys"};
    size_t used = (size_t)snprintf(text, size, "[");
    for (size_t i = 0; axes[i]; i++) {
        enum attni_axis axis = axis_of(axes[i]);
        used += (size_t)snprintf(text + used, size - used, "%s%s=%zu", i ? ", " : "",
                                 names[axis], sizes[axis]);
    }
    return used + (size_t)snprintf(text + used, size - used, "]");
}

static enum attn_status refuse(const struct attn_mask_spec *spec,
                               const struct attn_tensor *tensor,
                               const size_t sizes[ATTNI_N_AXES], struct attn_error *error)
{
    char forms[384];
    size_t used = 0;
    for (size_t rank = 5; rank-- > 0;) {
        if (strcmp(spec->axes[rank], "-") != 0) {
            used += (size_t)snprintf(forms + used, sizeof forms - used, "%s",
                                     used ? " or " : "");
            used +=
                write_form(forms + used, sizeof forms - used, spec->axes[rank], sizes);
        }
    }
    bool by_key = tensor->rank == 2 && tensor->shape[0] == sizes[ATTNI_BATCH] &&
                  tensor->shape[1] == sizes[ATTNI_KEYS] &&
                  strcmp(spec->axes[3], "BQK") == 0;
    return attni_fail(
        error, ATTN_SHAPE, spec->name,
        "input '%s': expected %s, each axis that size or 1, got %s%s", spec->name, forms,
        attni_shape_text(tensor->shape, tensor->rank).text,
        by_key ? "; for one row of keys a sample give [batch, 1, keys]" : "");
}

enum attn_status attni_mask_fit(const struct attn_mask_spec *spec,
                                const struct attn_tensor *tensor,
                                const size_t sizes[ATTNI_N_AXES], struct attni_mask *mask,
                                struct attn_error *error)
{
    *mask = (struct attni_mask){.data = tensor->data, .true_keeps = spec->true_keeps};
    if (tensor->rank > 4 || strcmp(spec->axes[tensor->rank], "-") == 0) {
        return refuse(spec, tensor, sizes, error);
    }
    size_t stride = 1;
    for (size_t i = tensor->rank; i-- > 0;) {
        enum attni_axis axis = axis_of(spec->axes[tensor->rank][i]);
        size_t size = tensor->shape[i];
        if (size != sizes[axis] && size != 1) {
            return refuse(spec, tensor, sizes, error);
        }
        mask->strides[axis] = size == 1 ? 0 : stride;
        stride *= size; /* cannot overflow: the tensor's size was checked */
    }
    return ATTN_OK;
}

void attni_mask_apply(const struct attni_mask *mask, const unsigned char *at,
                      size_t key_stride, float *scores, size_t n)
{
    if (key_stride == 1) {
        attni_kernels()->block_f32(n, at, mask->true_keeps, scores);
        return;
    }
    for (size_t j = 0; j < n && (at[0] != 0) != mask->true_keeps; j++) {
        scores[j] = -INFINITY;
    }
}
