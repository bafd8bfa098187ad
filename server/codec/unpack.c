/* unpack.c - a coded body -> the body itself: gzip, deflate in its zlib form, zstd.
 *
 * What it unpacks to is not known before, and a few bytes may become a thousand times or a million times
 * as many. So memory grows with what comes out, and a size that the body announces only says where to
 * begin. Runs on the worker that decodes the request. */
#include "codec/unpack.h"

#include <limits.h>
#include <stdint.h>
#define ZLIB_CONST /* it does not write to what it reads */
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define ALIGNMENT ((size_t)64)
#define LEAST_ROOM ((size_t)4 << 10)
#define STEP ((size_t)64 << 10)
#define GUESSED_RATIO ((size_t)4)
#define MOST_OF_DEFLATE ((size_t)1032) /* bytes that one of its bytes can become */

#define ZLIB_WINDOW 15
#define GZIP_WINDOW (16 + ZLIB_WINDOW)

struct unpacking {
    struct ad_request *request;
    const char *coding;
    const char *in;
    size_t n_in, at;
    struct ad_buffer out;
    size_t n_room; /* bytes behind out that may be written: they are there, and held */
    size_t n_held; /* all that is held for out */
    size_t limit;
    struct ad_error *error;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum ad_status fail_memory(struct unpacking *u)
{
    return ad_fail(u->error, AD_INTERNAL, "out of memory for a request body of %zu bytes",
                   u->out.size);
}

static enum ad_status fail_bad(struct unpacking *u, const char *what)
{
    return ad_fail(u->error, AD_INVALID,
                   "request body is not valid %s: %s at offset %zu of %zu", u->coding,
                   what, u->at, u->n_in);
}

static enum ad_status fail_short(struct unpacking *u)
{
    return ad_fail(u->error, AD_INVALID,
                   "request body is not valid %s: it ends at offset %zu in the middle of "
                   "its data",
                   u->coding, u->n_in);
}

static enum ad_status fail_too_large(struct unpacking *u)
{
    return ad_fail(u->error, AD_TOO_LARGE,
                   "request body of %zu bytes of %s unpacks to more than the limit of "
                   "%zu bytes (--http-max-input-size)",
                   u->n_in, u->coding, u->limit);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* Room for n bytes, or for as many as the limit leaves and one more, by which too much is known. */
static enum ad_status make_room(struct unpacking *u, size_t n)
{
    n = smaller(n, u->limit - u->out.size + 1);
    if (n <= u->n_room) {
        return AD_OK;
    }
    enum ad_status status = ad_request_hold(u->request, n - u->n_room, u->error);
    if (status) {
        return status;
    }
    u->n_held += n - u->n_room;
    if (!ad_buffer_reserve(&u->out, n)) {
        return fail_memory(u);
    }
    u->n_room = n;
    return AD_OK;
}

/* Some room, if there is none: little enough that what is held is about what comes out. */
static enum ad_status make_some_room(struct unpacking *u)
{
    size_t there = u->out.capacity - u->out.size - 1;
    return u->n_room > 0
               ? AD_OK
               : make_room(u, there < LEAST_ROOM ? LEAST_ROOM : smaller(there, STEP));
}

/* Memory for about n bytes, of which none is held yet: memory that is not touched costs nothing. */
static enum ad_status expect(struct unpacking *u, size_t n)
{
    return ad_buffer_reserve(&u->out, smaller(n, u->limit)) ? AD_OK : fail_memory(u);
}

static enum ad_status take(struct unpacking *u, size_t n_in, size_t n_out)
{
    u->at += n_in;
    u->out.size += n_out;
    u->n_room -= n_out;
    return u->out.size > u->limit ? fail_too_large(u) : AD_OK;
}

/* ---- gzip and deflate ------------------------------------------------------------------------ */

/* What the last member says that it unpacks to, modulo 2^32, if that can be; else a guess. */
static size_t guess_size(const struct unpacking *u)
{
    size_t most = smaller(u->n_in, u->limit / MOST_OF_DEFLATE) * MOST_OF_DEFLATE;
    size_t size = 0;
    for (size_t i = 0; i < 4 && i < u->n_in; i++) {
        size = size << 8 | (unsigned char)u->in[u->n_in - 1 - i];
    }
    bool said = u->request->coding == AD_CODING_GZIP && size <= most;
    return said ? larger(size, u->n_in) : smaller(u->n_in, SIZE_MAX / 8) * GUESSED_RATIO;
}

/* A member or stream has ended: whether another one follows. */
static enum ad_status follow(struct unpacking *u, z_stream *stream, bool *ended)
{
    *ended = u->at == u->n_in;
    if (*ended) {
        return AD_OK;
    }
    bool another = u->request->coding == AD_CODING_GZIP && u->in[u->at] == '\x1f';
    if (!another) {
        return fail_bad(u, "bytes that do not belong to it");
    }
    return inflateReset(stream) == Z_OK ? AD_OK : fail_memory(u);
}

static enum ad_status inflate_some(struct unpacking *u, z_stream *stream, bool *ended)
{
    enum ad_status status = make_some_room(u);
    if (status) {
        return status;
    }
    stream->next_in = (const Bytef *)(u->in + u->at);
    stream->avail_in = (uInt)smaller(u->n_in - u->at, UINT_MAX);
    stream->next_out = (Bytef *)(u->out.data + u->out.size);
    stream->avail_out = (uInt)smaller(u->n_room, UINT_MAX);
    uInt had_in = stream->avail_in, had_out = stream->avail_out;
    int code = inflate(stream, Z_NO_FLUSH);
    status = take(u, had_in - stream->avail_in, had_out - stream->avail_out);
    if (status) {
        return status;
    }
    switch (code) {
    case Z_STREAM_END:
        return follow(u, stream, ended);
    case Z_OK:
    case Z_BUF_ERROR:
        /* with room left, all that came has been used */
        return u->at == u->n_in && u->n_room > 0 ? fail_short(u) : AD_OK;
    case Z_MEM_ERROR:
        return fail_memory(u);
    case Z_NEED_DICT:
        return fail_bad(u, "it needs a dictionary");
    default:
        return fail_bad(u, stream->msg ? stream->msg : "malformed data");
    }
}

static enum ad_status inflate_all(struct unpacking *u, int window)
{
    z_stream stream = {0};
    if (inflateInit2(&stream, window) != Z_OK) {
        return fail_memory(u);
    }
    bool ended = false;
    enum ad_status status = expect(u, guess_size(u));
    while (!status && !ended) {
        status = inflate_some(u, &stream, &ended);
    }
    (void)inflateEnd(&stream);
    return status;
}

/* ---- zstd ------------------------------------------------------------------------------------ */

static enum ad_status fail_zstd(struct unpacking *u, size_t code)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
        return fail_memory(u);
    case ZSTD_error_frameParameter_windowTooLarge:
        return ad_fail(u->error, AD_INVALID,
                       "request body is not valid zstd for HTTP: the window of the frame "
                       "at offset %zu is larger than %zu bytes",
                       u->at, (size_t)1 << AD_UNPACK_WINDOW_LOG);
    default:
        return fail_bad(u, ZSTD_getErrorName(code));
    }
}

/* Only frames of the format itself and those that are to be skipped; the library may know older ones
 * too, for which no limits hold. */
static bool is_frame(const char *at, size_t n)
{
    uint32_t magic = 0;
    for (size_t i = 0; i < 4 && i < n; i++) {
        magic |= (uint32_t)(unsigned char)at[i] << 8 * i;
    }
    return n < 4 || magic == ZSTD_MAGICNUMBER ||
           (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

/* At the beginning of a frame: room for what it says that it holds. With that, it is unpacked where it
 * is to be, however large its window. */
static enum ad_status begin_frame(struct unpacking *u)
{
    const char *frame = u->in + u->at;
    size_t left = u->n_in - u->at;
    if (!is_frame(frame, left)) {
        return fail_bad(u, u->at == 0 ? "no frame" : "bytes that do not belong to it");
    }
    unsigned long long size = ZSTD_getFrameContentSize(frame, left);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
        return u->at > 0 ? AD_OK : expect(u, smaller(left, SIZE_MAX / 8) * GUESSED_RATIO);
    }
    return size > u->limit - u->out.size ? fail_too_large(u) : make_room(u, (size_t)size);
}

static enum ad_status unzstd_some(struct unpacking *u, ZSTD_DCtx *context, bool *ended)
{
    enum ad_status status = make_some_room(u);
    if (status) {
        return status;
    }
    ZSTD_inBuffer in = {u->in + u->at, u->n_in - u->at, 0};
    ZSTD_outBuffer out = {u->out.data + u->out.size, u->n_room, 0};
    size_t code = ZSTD_decompressStream(context, &out, &in);
    if (ZSTD_isError(code)) {
        u->at += in.pos;
        return fail_zstd(u, code);
    }
    status = take(u, in.pos, out.pos);
    if (status) {
        return status;
    }
    if (code == 0) { /* a frame has ended */
        *ended = u->at == u->n_in;
        return *ended ? AD_OK : begin_frame(u);
    }
    return u->at == u->n_in && u->n_room > 0 ? fail_short(u) : AD_OK;
}

static enum ad_status unzstd_all(struct unpacking *u)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context || ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax,
                                                        AD_UNPACK_WINDOW_LOG))) {
        (void)ZSTD_freeDCtx(context);
        return fail_memory(u);
    }
    bool ended = false;
    enum ad_status status = begin_frame(u);
    while (!status && !ended) {
        status = unzstd_some(u, context, &ended);
    }
    (void)ZSTD_freeDCtx(context);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum ad_status unpack(struct unpacking *u)
{
    switch (u->request->coding) {
    case AD_CODING_IDENTITY:
        return AD_OK;
    case AD_CODING_GZIP:
        u->coding = "gzip";
        return inflate_all(u, GZIP_WINDOW);
    case AD_CODING_DEFLATE:
        u->coding = "deflate (the zlib form)";
        return inflate_all(u, ZLIB_WINDOW);
    case AD_CODING_ZSTD:
        u->coding = "zstd";
        return unzstd_all(u);
    }
    return AD_OK;
}

static enum ad_status check_json(const struct unpacking *u)
{
    if (u->request->n_json == AD_ALL_JSON || u->request->n_json <= u->out.size) {
        return AD_OK;
    }
    return ad_fail(u->error, AD_INVALID,
                   "inference header size should be in range (0, %zu), got: %zu",
                   u->out.size, u->request->n_json);
}

/* What was unpacked takes the place of what came. */
static void put_in_place(struct unpacking *u)
{
    struct ad_request *request = u->request;
    u->out.data[u->out.size] = '\0';
    ad_request_release(request, request->body.size);
    ad_request_release(request, u->n_held - u->out.size);
    ad_buffer_reset(&request->body);
    request->body = u->out;
    request->n_json = smaller(request->n_json, u->out.size);
    request->coding = AD_CODING_IDENTITY;
}

enum ad_status ad_unpack_body(struct ad_request *request, struct ad_error *error)
{
    if (request->coding == AD_CODING_IDENTITY) {
        return AD_OK;
    }
    if (request->body.size == 0) {
        request->n_json = 0;
        request->coding = AD_CODING_IDENTITY;
        return AD_OK;
    }
    struct unpacking u = {.request = request,
                          .in = request->body.data,
                          .n_in = request->body.size,
                          .limit =
                              (size_t)smaller(request->max_input_bytes, PTRDIFF_MAX / 2),
                          .error = error};
    /* tensors behind the JSON begin where they may stay */
    size_t lead =
        request->n_json == AD_ALL_JSON ? 0 : (size_t)(-request->n_json % ALIGNMENT);
    enum ad_status status =
        ad_buffer_start(&u.out, lead, 0) ? unpack(&u) : fail_memory(&u);
    if (!status) {
        status = check_json(&u);
    }
    if (status) {
        ad_buffer_reset(&u.out);
        return status;
    }
    put_in_place(&u);
    return AD_OK;
}
