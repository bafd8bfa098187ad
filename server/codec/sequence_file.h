/* sequence_file.h - what a sequence keeps, as a file: safetensors, which any language reads.
 *
 * Tensors "key" and, where the layer keeps values apart from keys, "value": F32, [batch, heads, positions, width of
 * a head]; of a layer of scores alone the keys as they came. "__metadata__" has, all as texts:
 *
 *     format          "attentiond sequence"
 *     format_version  "1"
 *     model, version  where it was exported, for people: nothing depends on them
 *     fingerprint     of the layer (attn_layer_fingerprint)
 *     kind            "grows", or "stays" for a context that stays
 *     positions       how many are kept
 */
#ifndef AD_CODEC_SEQUENCE_FILE_H
#define AD_CODEC_SEQUENCE_FILE_H

#include "attention.h"
#include "base/buffer.h"
#include "base/error.h"
#include "model/repository.h"

#include <stddef.h>
#include <stdint.h>

/* Append the file of what a cache of the version keeps. AD_TOO_LARGE: it has more than max_bytes. */
enum ad_status ad_sequence_file_write(const struct ad_version *version,
                                      const attn_cache *cache, uint64_t max_bytes,
                                      struct ad_buffer *file,
                                      struct ad_error *error) AD_MUST_CHECK;

/* A cache that keeps what the file says. The bytes are hostile and borrowed. AD_INVALID: they are no such file, or
 * it contradicts itself or the layer; AD_CONFLICT, "sequence_mismatch": it is a good one, of another layer. That is
 * no fault of the request: elsewhere, or with the right version loaded, it would do. Numbers that are not finite are
 * taken, since a sequence can come to keep them: clients may send them in binary. */
enum ad_status ad_sequence_file_read(const struct ad_version *version, const void *bytes,
                                     size_t n_bytes, attn_cache **cache,
                                     struct ad_error *error) AD_MUST_CHECK;

#endif
