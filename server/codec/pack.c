/* pack.c - a reply -> the same, coded as its client likes it.
 *
 * Many clients list codings with every request because their library does, and wait for the answer. So
 * packing must be quick: what would not get much smaller is found out by a sample, and at level 1 the
 * search for repetitions, of which numbers have few, is left out. Runs on the worker that holds the
 * request. */
#include "codec/pack.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#define ZLIB_CONST /* it does not write to what it reads */
#include <zlib.h>
#include <zstd.h>

#define GZIP_WINDOW (16 + 15)
#define ZLIB_WINDOW 15
#define ZLIB_MEMORY 8 /* the library's own choice */

/* The sample: pieces spread over the reply. The bits that a byte of it holds on average (as if each came
 * by chance) are what Huffman codes come down to; FP32 tensors have more than 7 of 8. */
#define N_PIECES ((size_t)8)
#define PIECE ((size_t)512)
#define MOST_BITS 6.5

static double bits_per_byte(const size_t counts[256], size_t n)
{
    double bits = 0;
    for (size_t i = 0; i < 256; i++) {
        double p = (double)counts[i] / (double)n;
        bits -= counts[i] > 0 ? p * log2(p) : 0;
    }
    return bits;
}

static bool is_worth_it(const char *bytes, size_t n)
{
    size_t counts[256] = {0};
    size_t n_pieces = n >= N_PIECES * PIECE ? N_PIECES : 1;
    size_t size = n_pieces > 1 ? PIECE : n;
    for (size_t i = 0; i < n_pieces; i++) {
        /* the last one ends where the reply does */
        const char *piece = bytes + (n - size) / (N_PIECES - 1) * i;
        for (size_t at = 0; at < size; at++) {
            counts[(unsigned char)piece[at]]++;
        }
    }
    return bits_per_byte(counts, n_pieces * size) <= MOST_BITS;
}

/* ---- the codings ------------------------------------------------------------------------------- */

/* Bytes written to n_room bytes at to; 0: they do not fit, or there is no memory. */
static size_t pack_zlib(const struct ad_request *request, int window, char *to,
                        size_t n_room)
{
    const struct ad_buffer *reply = &request->reply;
    z_stream stream = {0};
    int strategy = request->reply_level == 1 ? Z_RLE : Z_DEFAULT_STRATEGY;
    size_t read = 0, written = 0;
    int code = Z_OK;
    if (deflateInit2(&stream, (int)request->reply_level, Z_DEFLATED, window, ZLIB_MEMORY,
                     strategy) != Z_OK) {
        return 0;
    }
    while (code == Z_OK && written < n_room) {
        size_t left = reply->size - read, room = n_room - written;
        uInt n_in = left < UINT_MAX ? (uInt)left : UINT_MAX;
        uInt n_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
        stream.next_in = (const Bytef *)(reply->data + read);
        stream.avail_in = n_in;
        stream.next_out = (Bytef *)(to + written);
        stream.avail_out = n_out;
        code = deflate(&stream, n_in == left ? Z_FINISH : Z_NO_FLUSH);
        read += n_in - stream.avail_in;
        written += n_out - stream.avail_out;
    }
    (void)deflateEnd(&stream);
    return code == Z_STREAM_END ? written : 0;
}

static size_t pack_zstd(const struct ad_request *request, char *to, size_t n_room)
{
    size_t n = ZSTD_compress(to, n_room, request->reply.data, request->reply.size,
                             (int)request->reply_level);
    return ZSTD_isError(n) ? 0 : n;
}

static size_t pack(const struct ad_request *request, char *to, size_t n_room)
{
    switch (request->reply_coding) {
    case AD_CODING_IDENTITY:
        return 0;
    case AD_CODING_GZIP:
        return pack_zlib(request, GZIP_WINDOW, to, n_room);
    case AD_CODING_DEFLATE:
        return pack_zlib(request, ZLIB_WINDOW, to, n_room);
    case AD_CODING_ZSTD:
        return pack_zstd(request, to, n_room);
    }
    return 0;
}

/* ---- the whole --------------------------------------------------------------------------------- */

void ad_pack_reply(struct ad_request *request)
{
    struct ad_buffer *reply = &request->reply;
    if (request->reply_coding == AD_CODING_IDENTITY || request->reply_level == 0 ||
        reply->size < AD_PACK_LEAST || !is_worth_it(reply->data, reply->size)) {
        return;
    }
    struct ad_buffer packed;
    size_t n_room = reply->size - reply->size / 8;
    ad_buffer_init(&packed);
    if (!ad_buffer_reserve(&packed, n_room)) {
        return;
    }
    packed.size = pack(request, packed.data, n_room);
    if (packed.size == 0) {
        ad_buffer_reset(&packed);
        return;
    }
    packed.data[packed.size] = '\0';
    request->n_reply = reply->size;
    request->reply_coded = request->reply_coding;
    ad_buffer_reset(reply);
    *reply = packed;
}
