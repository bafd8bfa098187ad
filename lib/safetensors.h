/* safetensors.h - the bytes of a safetensors file as a table of checked tensors. */
#ifndef ATTNI_SAFETENSORS_H
#define ATTNI_SAFETENSORS_H

#include "attention.h"

/* A text of the file about itself. */
struct attni_metadata {
    const char *key, *value;
};

/* Filled by attni_safetensors_parse, then immutable. Tensor data point into the file's bytes. */
struct attni_safetensors {
    size_t n_tensors;
    struct attn_named_tensor *tensors;        /* in order of the header */
    const struct attn_named_tensor **by_data; /* in order of their data */
    const struct attn_named_tensor **by_name;
    struct attni_metadata *metadata; /* in order of the header */
    size_t n_metadata;
    char *text; /* names and metadata, decoded */
};

/* Check everything that the format demands and fill *table, in O(n log n) of the header's length.
 * The bytes are borrowed until attni_safetensors_reset. On failure, ATTN_FORMAT or ATTN_NO_MEMORY,
 * the table is empty. */
enum attn_status attni_safetensors_parse(const void *bytes, size_t n_bytes,
                                         struct attni_safetensors *table,
                                         struct attn_error *error) ATTN_MUST_CHECK;

/* Free what a table holds and empty it. */
void attni_safetensors_reset(struct attni_safetensors *table);

/* The tensor of that name, or NULL; O(log n). */
const struct attn_named_tensor *
attni_safetensors_find(const struct attni_safetensors *table, const char *name);

#endif
