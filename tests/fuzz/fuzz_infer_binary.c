/* fuzz_infer_binary.c - the lower 14 bits of the first two bytes say, little-endian, how many of the others
 * are JSON; the rest are binary tensors. The upper two say which model serves, and on which route; it does so
 * twice, since a sequence is then one step further: never our fault, and a reply as long as it says. */
#include "fuzz/served.h"

#include <stdint.h>

#define N_TIMES 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void serve(struct ad_version *version, bool gradient, const uint8_t *data,
                  size_t size)
{
    size_t n_json = (size_t)(data[0] | (data[1] & 0x3f) << 8);
    data += 2;
    size -= 2;
    n_json = n_json < size ? n_json : size;
    struct ad_serving serving = serving_make(1, 10000);
    for (size_t i = 0; i < N_TIMES; i++) {
        struct ad_request *request =
            fixture_request(version, data, n_json, data + n_json, size - n_json);
        request->mode.gradient = gradient;
        serving_serve(&serving, request, served_worker());
        enum ad_status status = request->error.status;
        fixture_require(status != AD_INTERNAL, request->error.message);
        fixture_require((status == AD_OK) == (request->reply.size > 0),
                        "reply and status");
        fixture_require(request->n_reply_json <= request->reply.size || status != AD_OK,
                        "the JSON of the reply is longer than the reply");
        ad_request_free(request);
    }
    serving_reset(&serving);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 2) {
        serve(served_model((data[1] & 0x40) != 0), (data[1] & 0x80) != 0, data, size);
    }
    return 0;
}
