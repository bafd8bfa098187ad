/* fuzz_unpack.c - the first byte says which coding, the rest is a body in it: refused as the client's
 * fault, or unpacked within the limit; and what was unpacked can be packed and unpacked again, unless the
 * first byte's upper bit says not to, for packing takes far longer. */
#include "codec/pack.h"
#include "codec/unpack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static struct ad_request *request_of(enum ad_coding coding, const void *bytes, size_t n)
{
    struct ad_request *request = ad_request_create();
    /* exactly as large, so that a read past the end is seen */
    char *copy = malloc(n > 0 ? n : 1);
    require(request && copy, "no memory");
    memcpy(copy, bytes, n);
    request->body = (struct ad_buffer){.data = copy, .size = n, .capacity = n};
    request->coding = coding;
    request->n_json = AD_ALL_JSON;
    request->max_input_bytes = LIMIT;
    return request;
}

/* Take what came out as a reply. */
static void pack_again(const struct ad_buffer *body, enum ad_coding coding)
{
    struct ad_request *request = request_of(AD_CODING_IDENTITY, "", 0);
    require(ad_buffer_append(&request->reply, body->data, body->size), "no memory");
    request->reply_coding = coding;
    request->reply_level = (unsigned)(1 + body->size % 9);
    ad_pack_reply(request);
    struct ad_request *back =
        request_of(request->reply_coded, request->reply.data, request->reply.size);
    struct ad_error error = {.status = AD_OK};
    require(ad_unpack_body(back, &error) == AD_OK, error.message);
    require(back->body.size == body->size &&
                memcmp(back->body.data, body->data, body->size) == 0,
            "not what was packed");
    ad_request_free(back);
    ad_request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum ad_coding codings[] = {AD_CODING_GZIP, AD_CODING_DEFLATE,
                                             AD_CODING_ZSTD};
    if (size == 0) {
        return 0;
    }
    enum ad_coding coding = codings[data[0] % 3];
    struct ad_request *request = request_of(coding, data + 1, size - 1);
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_unpack_body(request, &error);
    require(status == AD_OK || status == AD_INVALID || status == AD_TOO_LARGE,
            error.message);
    require((status == AD_OK) == (error.message[0] == '\0'), "status and message");
    if (status == AD_OK && size > 1) {
        require(request->body.size <= LIMIT, "more than the limit");
        require(request->n_json == request->body.size, "JSON");
        if (data[0] < 0x80) {
            pack_again(&request->body, coding);
        }
    }
    ad_request_free(request);
    return 0;
}
