/* packed.h - bytes in each coding, by the libraries themselves, for the tests of the codec. */
#ifndef TESTS_UNIT_CODEC_PACKED_H
#define TESTS_UNIT_CODEC_PACKED_H

#include "unit/codec/fixture.h"

#include <zlib.h>
#include <zstd.h>

struct packed {
    char *bytes;
    size_t n;
};

static inline void packed_append(struct packed *packed, const void *bytes, size_t n)
{
    packed->bytes = realloc(packed->bytes, packed->n + n + 1);
    fixture_require(packed->bytes != NULL, "memory");
    memcpy(packed->bytes + packed->n, bytes, n);
    packed->n += n;
}

static inline void packed_free(struct packed *packed)
{
    free(packed->bytes);
    *packed = (struct packed){NULL, 0};
}

static inline struct packed pack_zlib(const void *bytes, size_t n, int window)
{
    z_stream stream = {0};
    fixture_require(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) ==
                        Z_OK,
                    "deflate");
    size_t room = deflateBound(&stream, n);
    struct packed packed = {malloc(room), 0};
    fixture_require(packed.bytes != NULL, "memory");
    /* the library takes it as not constant, and does not write to it */
    memcpy(&stream.next_in, &bytes, sizeof bytes);
    stream.avail_in = (uInt)n;
    stream.next_out = (Bytef *)packed.bytes;
    stream.avail_out = (uInt)room;
    fixture_require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
    packed.n = room - stream.avail_out;
    deflateEnd(&stream);
    return packed;
}

/* One frame with a checksum; its size known to it or not, its window as large as 2 to this power (0: as
 * the library likes). */
static inline struct packed pack_zstd(const void *bytes, size_t n, bool known, int log)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(n) + 64;
    struct packed packed = {malloc(room), 0};
    fixture_require(context && packed.bytes, "memory");
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, known);
    if (log > 0) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, log);
    }
    if (known) {
        ZSTD_CCtx_setPledgedSrcSize(context, n);
    }
    ZSTD_inBuffer in = {bytes, n, 0};
    ZSTD_outBuffer out = {packed.bytes, room, 0};
    /* in two steps, or the library would know the size all the same, and make the window smaller */
    in.size = n / 2;
    ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue);
    in.size = n;
    fixture_require(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) == 0, "zstd");
    packed.n = out.pos;
    ZSTD_freeCCtx(context);
    return packed;
}

static inline struct packed pack_bytes(enum ad_coding coding, const void *bytes, size_t n)
{
    return coding == AD_CODING_ZSTD
               ? pack_zstd(bytes, n, true, 0)
               : pack_zlib(bytes, n, coding == AD_CODING_GZIP ? 31 : 15);
}

#endif
