/* fuzz_predict.c - the first byte says which small model serves, and whether the others are a body of the
 * first KServe protocol or an input's bytes: never our fault, only JSON is taken, and a reply is JSON with as
 * many predictions as there were instances. */
#include "fuzz/served.h"

#include <jansson.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_predictions(const struct ad_request *request)
{
    json_t *body =
        json_loadb(request->body.data, request->body.size, JSON_DECODE_INT_AS_REAL, NULL);
    json_t *reply = json_loadb(request->reply.data, request->reply.size, 0, NULL);
    fixture_require(body != NULL, "what was taken is not JSON");
    fixture_require(reply != NULL, "the reply is not JSON");
    fixture_require(json_array_size(json_object_get(body, "instances")) ==
                        json_array_size(json_object_get(reply, "predictions")),
                    "the number of predictions");
    json_decref(body);
    json_decref(reply);
}

static void serve(struct ad_version *version, enum ad_form form, const uint8_t *data,
                  size_t size)
{
    struct ad_serving serving = serving_make(1, 10000);
    size_t n_json = form == AD_FORM_RAW ? 0 : size;
    struct ad_request *request =
        fixture_request(version, data, n_json, data + n_json, size - n_json);
    request->form = form;
    serving_serve(&serving, request, served_worker());
    enum ad_status status = request->error.status;
    fixture_require(status != AD_INTERNAL, request->error.message);
    fixture_require((status == AD_OK) == (request->reply.size > 0), "reply and status");
    fixture_require((status != AD_OK) == (request->error.message[0] != '\0'),
                    "no message");
    fixture_require(request->arena.total <= ((size_t)1 << 20) + 64 * size,
                    "more memory than the body warrants");
    if (status == AD_OK && form == AD_FORM_PREDICT) {
        check_predictions(request);
    }
    ad_request_free(request);
    serving_reset(&serving);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        serve(served_model(data[0] / 2 % N_SERVED),
              data[0] % 2 != 0 ? AD_FORM_RAW : AD_FORM_PREDICT, data + 1, size - 1);
    }
    return 0;
}
