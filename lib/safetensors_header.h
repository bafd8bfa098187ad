/* safetensors_header.h - the part of safetensors.c that reads JSON. */
#ifndef ATTNI_SAFETENSORS_HEADER_H
#define ATTNI_SAFETENSORS_HEADER_H

#include "safetensors.h"

/* Fill tensors, n_tensors and text of the empty *table. Each tensor is well-formed, of a size that
 * fits its type and shape, and inside data; how they lie to each other is not looked at. On failure
 * *table is for attni_safetensors_reset. */
enum attn_status attni_safetensors_read_header(const void *header, size_t n_header,
                                               const void *data, size_t n_data,
                                               struct attni_safetensors *table,
                                               struct attn_error *error) ATTN_MUST_CHECK;

#endif
