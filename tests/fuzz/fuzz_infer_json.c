/* fuzz_infer_json.c - the bytes are the JSON body of a request, served by small models on both routes:
 * never our fault, and a reply that is JSON. */
#include "codec/serve.h"
#include "unit/codec/fixture.h"

#include <jansson.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void serve(struct ad_version *version, bool gradient, const uint8_t *data,
                  size_t size)
{
    struct ad_request *request = fixture_request(version, data, size, "", 0);
    request->mode.gradient = gradient;
    struct ad_worker worker = {.team = {NULL, 0, 1}};
    ad_serve_infer(request, &worker);
    enum ad_status status = request->error.status;
    fixture_require(status != AD_INTERNAL, request->error.message);
    fixture_require((status == AD_OK) == (request->reply.size > 0), "reply and status");
    fixture_require((status != AD_OK) == (request->error.message[0] != '\0'),
                    "no message");
    if (status == AD_OK && request->nonfinite != AD_NONFINITE_LITERAL) {
        json_t *reply = json_loadb(request->reply.data, request->n_reply_json, 0, NULL);
        fixture_require(reply != NULL, "the reply is not JSON");
        json_decref(reply);
    }
    ad_request_free(request);
    ad_scratch_reset(&worker.scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_version *versions[] = {fixture_relational(), fixture_scores(),
                                     fixture_causal()};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        serve(versions[i], false, data, size);
        serve(versions[i], true, data, size);
        ad_version_release(versions[i]);
    }
    return 0;
}
