/* tensor.c - element types, checked sizes, shapes as text; pure functions, any thread. */
#include "tensor.h"

#include <stdio.h>

const char *attn_dtype_name(enum attn_dtype dtype)
{
    switch (dtype) {
#define DTYPE_NAME(name, text, bytes) \
    case name:                        \
        return text;
        ATTN_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
    }
    return "unknown";
}

size_t attn_dtype_size(enum attn_dtype dtype)
{
    switch (dtype) {
#define DTYPE_SIZE(name, text, bytes) \
    case name:                        \
        return bytes;
        /* NOLINTNEXTLINE(bugprone-branch-clone): types of one width */
        ATTN_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
    }
    return 0;
}

bool attni_count(const size_t *shape, size_t rank, size_t *n)
{
    size_t count = 1;
    bool fits = true;
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] == 0) {
            *n = 0;
            return true;
        }
        fits = fits && attni_multiply(count, shape[i], &count);
    }
    *n = count;
    return fits;
}

enum attn_status attn_tensor_count(const struct attn_tensor *tensor, size_t *n)
{
    if (tensor->rank > ATTN_MAX_RANK) {
        return ATTN_SHAPE;
    }
    return attni_count(tensor->shape, tensor->rank, n) ? ATTN_OK : ATTN_TOO_LARGE;
}

enum attn_status attn_tensor_bytes(const struct attn_tensor *tensor, size_t *n)
{
    size_t count;
    enum attn_status status = attn_tensor_count(tensor, &count);
    if (status == ATTN_OK && !attni_multiply(count, attn_dtype_size(tensor->dtype), n)) {
        status = ATTN_TOO_LARGE;
    }
    return status;
}

struct attni_text attni_shape_text(const size_t *shape, size_t rank)
{
    struct attni_text result;
    size_t used = 0;
    result.text[used++] = '[';
    for (size_t i = 0; i < rank; i++) {
        int n = snprintf(result.text + used, sizeof result.text - used, "%s%zu",
                         i ? ", " : "", shape[i]);
        used += (size_t)n;
        if (used >= sizeof result.text - 2) {
            used = sizeof result.text - 2;
            break;
        }
    }
    result.text[used++] = ']';
    result.text[used] = '\0';
    return result;
}
