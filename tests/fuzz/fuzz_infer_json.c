/* fuzz_infer_json.c - the first byte says which small model serves, and on which route; the others are the
 * JSON bodies of a few requests, one behind the other with a record separator (0x1e) between them, so that
 * they may make up a sequence. They are served one by one and together: never our fault, a reply that is
 * JSON, and the same either way. */
#include "fuzz/served.h"

#include <jansson.h>
#include <stdint.h>

#define SEPARATOR 0x1e
#define MOST_BODIES 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bodies {
    const uint8_t *data[MOST_BODIES];
    size_t size[MOST_BODIES];
    size_t n;
};

static struct bodies split(const uint8_t *data, size_t size)
{
    struct bodies bodies = {.n = 0};
    for (bool more = true; more && bodies.n < MOST_BODIES; bodies.n++) {
        const uint8_t *end = size > 0 ? memchr(data, SEPARATOR, size) : NULL;
        bodies.data[bodies.n] = data;
        bodies.size[bodies.n] = end ? (size_t)(end - data) : size;
        more = end != NULL;
        if (more) {
            size -= bodies.size[bodies.n] + 1;
            data = end + 1;
        }
    }
    return bodies;
}

static void check(const struct ad_request *request)
{
    enum ad_status status = request->error.status;
    fixture_require(status != AD_INTERNAL, request->error.message);
    fixture_require((status == AD_OK) == (request->reply.size > 0), "reply and status");
    fixture_require((status != AD_OK) == (request->error.message[0] != '\0'),
                    "no message");
    fixture_require(!request->sequence, "a sequence in hand");
    if (status == AD_OK && request->nonfinite != AD_NONFINITE_LITERAL) {
        json_t *reply = json_loadb(request->reply.data, request->n_reply_json, 0, NULL);
        fixture_require(reply != NULL, "the reply is not JSON");
        json_decref(reply);
    }
}

/* Where nothing is drawn by chance, and no sequence tells them apart, the answers are the same. */
static void compare(const struct ad_request *a, const struct ad_request *b)
{
    if (a->sequence_call.id || (a->mode.training && !a->seed_given)) {
        return;
    }
    fixture_require(a->error.status == b->error.status &&
                        a->reply.size == b->reply.size &&
                        (a->reply.size == 0 ||
                         memcmp(a->reply.data, b->reply.data, a->reply.size) == 0),
                    "together and alone");
}

static void serve(struct ad_version *version, bool gradient, const struct bodies *bodies)
{
    struct ad_request *alone[MOST_BODIES], *together[MOST_BODIES];
    struct ad_serving serving = serving_make(3, 10000), other = serving_make(3, 10000);
    struct ad_worker *worker = served_worker();
    for (size_t i = 0; i < bodies->n; i++) {
        alone[i] = fixture_request(version, bodies->data[i], bodies->size[i], "", 0);
        alone[i]->mode.gradient = gradient;
        together[i] = fixture_request(version, bodies->data[i], bodies->size[i], "", 0);
        together[i]->mode.gradient = gradient;
        serving_serve(&serving, alone[i], worker);
    }
    serving_serve_many(&other, together, bodies->n, worker);
    for (size_t i = 0; i < bodies->n; i++) {
        check(alone[i]);
        check(together[i]);
        compare(alone[i], together[i]);
        ad_request_free(alone[i]);
        ad_request_free(together[i]);
    }
    serving_reset(&serving);
    serving_reset(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        struct bodies bodies = split(data + 1, size - 1);
        serve(served_model(data[0] / 2 % N_SERVED), data[0] % 2 != 0, &bodies);
    }
    return 0;
}
