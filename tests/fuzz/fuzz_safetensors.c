/* fuzz_safetensors.c - any bytes as a weights file: parsed, and when that succeeds, every tensor
 * found by its name in each way there is, and every byte of it read. */
#include "attention.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* Returns the number of bytes; reading them is the sanitizers' chance to see one that is not ours. */
static size_t touch(const struct attn_tensor *tensor)
{
    size_t n_bytes = 0;
    must(attn_tensor_bytes(tensor, &n_bytes) == ATTN_OK);
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[i]);
    }
    return n_bytes;
}

/* Find the tensor by its whole name, by a prefix and the rest, and by another name. */
static void find(attn_weights *weights, const struct attn_named_tensor *named)
{
    char file_name[2 * ATTN_NAME_SIZE];
    must(attn_weights_set_prefix(weights, "", NULL) == ATTN_OK);
    must(attn_weights_find(weights, named->name, file_name) == &named->tensor);
    must(strcmp(file_name, named->name) == 0);

    size_t half = strlen(named->name) / 2;
    char prefix[ATTN_NAME_SIZE];
    memcpy(prefix, named->name, half);
    prefix[half] = '\0';
    must(attn_weights_set_prefix(weights, prefix, NULL) == ATTN_OK);
    must(attn_weights_find(weights, named->name + half, file_name) == &named->tensor);
    must(strcmp(file_name, named->name) == 0);
}

static void convert(const struct attn_tensor *tensor)
{
    size_t n = 0;
    must(attn_tensor_count(tensor, &n) == ATTN_OK);
    if (n > 4096) {
        return;
    }
    float *out = malloc(n ? n * sizeof *out : 1);
    size_t bad = 0;
    if (out &&
        attn_convert_to_f32(tensor->dtype, tensor->data, n, out, &bad) == ATTN_RANGE) {
        must(bad < n);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct attn_error error = {0};
    attn_weights *weights;
    enum attn_status status = attn_weights_parse(data, size, &weights, &error);
    must(error.status == status);
    if (status != ATTN_OK) {
        must(!weights && error.message[0]);
        return 0;
    }
    size_t n_bytes = 0;
    for (size_t i = 0; i < attn_weights_count(weights); i++) {
        const struct attn_named_tensor *named = attn_weights_at(weights, i);
        n_bytes += touch(&named->tensor);
        convert(&named->tensor);
        find(weights, named);
    }
    must(n_bytes <= size);
    if (attn_weights_count(weights) > 0) {
        const struct attn_named_tensor *last =
            attn_weights_at(weights, attn_weights_count(weights) - 1);
        must(attn_weights_rename(weights, "p", last->name, NULL) == ATTN_OK);
        must(attn_weights_find(weights, "p", NULL) == &last->tensor);
        must(attn_weights_rename(weights, "p", last->name, NULL) == ATTN_INVALID);
    }
    attn_weights_free(weights);
    return 0;
}
