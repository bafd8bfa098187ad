/* move.c - a sequence goes out of the daemon, comes into it, or is forgotten. Coordinates; runs on the worker that
 * holds the request, and leaves no sequence in hand. */
#include "codec/move.h"
#include "base/clock.h"
#include "codec/encode.h"
#include "codec/pack.h"
#include "codec/sequence_file.h"
#include "codec/unpack.h"

static enum ad_status carry_out(struct ad_sequences *sequences,
                                struct ad_request *request)
{
    struct ad_error *error = &request->error;
    enum ad_status status =
        ad_sequences_take(sequences, request, ad_clock_now_ns(), error);
    if (!status) {
        status =
            ad_sequence_file_write(request->version, ad_sequence_cache(request->sequence),
                                   request->max_output_bytes, &request->reply, error);
    }
    /* from here on others may have it: what is packed is a copy */
    ad_sequences_give(request, ad_clock_now_ns());
    if (status) {
        ad_buffer_reset(&request->reply);
        return status;
    }
    ad_pack_reply(request);
    return AD_OK;
}

static enum ad_status write_summary(struct ad_request *request, size_t length,
                                    size_t n_bytes)
{
    struct ad_buffer *reply = &request->reply;
    bool ok = ad_buffer_printf(reply, "{\"id\":") &&
              ad_encode_string(reply, request->sequence_call.id) &&
              ad_buffer_printf(reply, ",\"length\":%zu,\"bytes\":%zu}", length, n_bytes);
    request->n_reply_json = reply->size;
    return ok ? AD_OK : ad_fail(&request->error, AD_INTERNAL, "out of memory");
}

/* Give the cache to a new sequence of the id. */
static enum ad_status place(struct ad_sequences *sequences, struct ad_request *request,
                            attn_cache **cache)
{
    struct ad_error *error = &request->error;
    size_t length = attn_cache_length(*cache), n_bytes = attn_cache_bytes(*cache);
    request->sequence_call.start = true;
    /* before what it replaces is dropped */
    enum ad_status status = ad_sequences_check_size(sequences, n_bytes, error);
    if (!status) {
        status = ad_sequences_take(sequences, request, ad_clock_now_ns(), error);
    }
    if (!status) {
        ad_sequence_adopt(request->sequence, cache);
        status = ad_sequences_make_room(sequences, request->sequence, ad_clock_now_ns(),
                                        error);
    }
    if (!status) {
        status = write_summary(request, length, n_bytes);
    }
    ad_sequences_give(request, ad_clock_now_ns());
    return status;
}

static enum ad_status carry_in(struct ad_sequences *sequences, struct ad_request *request)
{
    attn_cache *cache = NULL;
    enum ad_status status = ad_unpack_body(request, &request->error);
    if (!status) {
        status = ad_sequence_file_read(request->version, request->body.data,
                                       request->body.size, &cache, &request->error);
    }
    if (!status) {
        status = place(sequences, request, &cache);
    }
    attn_cache_free(cache);
    return status;
}

static enum ad_status forget(struct ad_sequences *sequences, struct ad_request *request)
{
    request->sequence_call.end = true;
    enum ad_status status =
        ad_sequences_take(sequences, request, ad_clock_now_ns(), &request->error);
    ad_sequences_give(request, ad_clock_now_ns());
    return status;
}

enum ad_status ad_move_run(struct ad_sequences *sequences, struct ad_request *request)
{
    switch (request->move) {
    case AD_MOVE_NONE:
        break;
    case AD_MOVE_EXPORT:
        return carry_out(sequences, request);
    case AD_MOVE_IMPORT:
        return carry_in(sequences, request);
    case AD_MOVE_FORGET:
        return forget(sequences, request);
    }
    return ad_fail(&request->error, AD_INTERNAL, "no move of a sequence");
}
