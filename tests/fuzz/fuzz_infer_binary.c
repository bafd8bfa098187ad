/* fuzz_infer_binary.c - the first two bytes say, little-endian, how many of the others are JSON; the
 * rest are binary tensors. Served on both routes, twice, since a sequence is then one step further: never
 * our fault, and a reply as long as it says. */
#include "unit/codec/serving.h"

#include <stdint.h>

#define N_TIMES 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void serve(struct ad_version *version, bool gradient, const uint8_t *data,
                  size_t size)
{
    size_t n_json = (size_t)(data[0] | data[1] << 8);
    data += 2;
    size -= 2;
    n_json = n_json < size ? n_json : size;
    struct ad_serving serving = serving_make(1, 10000);
    struct ad_worker worker = {.team = {.n_workers = 1}};
    for (size_t i = 0; i < N_TIMES; i++) {
        struct ad_request *request =
            fixture_request(version, data, n_json, data + n_json, size - n_json);
        request->mode.gradient = gradient;
        serving_serve(&serving, request, &worker);
        enum ad_status status = request->error.status;
        fixture_require(status != AD_INTERNAL, request->error.message);
        fixture_require((status == AD_OK) == (request->reply.size > 0),
                        "reply and status");
        fixture_require(request->n_reply_json <= request->reply.size || status != AD_OK,
                        "the JSON of the reply is longer than the reply");
        ad_request_free(request);
    }
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct ad_version *versions[] = {fixture_relational(), fixture_growing()};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        serve(versions[i], false, data, size);
        serve(versions[i], true, data, size);
        ad_version_release(versions[i]);
    }
    return 0;
}
