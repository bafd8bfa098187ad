/* serving.h - requests served as a worker does it, for the tests of the codec. */
#ifndef TESTS_UNIT_CODEC_SERVING_H
#define TESTS_UNIT_CODEC_SERVING_H

#include "codec/serve.h"
#include "unit/codec/fixture.h"

/* With room for so many sequences of so many bytes; serving_reset frees it. */
static inline struct ad_serving serving_make(size_t max, size_t max_bytes)
{
    const struct ad_sequences_config config = {
        .max = max, .max_bytes = max_bytes, .idle_ns = INT64_C(60000000000)};
    struct ad_serving serving = {ad_sequences_create(&config)};
    fixture_require(serving.sequences != NULL, "memory");
    return serving;
}

static inline void serving_reset(struct ad_serving *serving)
{
    ad_sequences_free(serving->sequences);
}

static inline void serving_run(struct ad_serving *serving, struct ad_requests *batch,
                               struct ad_worker *worker)
{
    if (batch->n > 0) {
        ad_serve_run(serving, batch, worker);
    }
    while (ad_requests_shift(batch)) {
    }
}

/* Decode the n requests; run those together that join, and then each of the others. */
static inline void serving_serve_many(struct ad_serving *serving,
                                      struct ad_request *const *requests, size_t n,
                                      struct ad_worker *worker)
{
    struct ad_requests batch = {NULL, NULL, 0}, others = {NULL, NULL, 0};
    worker->helpers = ad_team_parallel(&worker->team);
    for (size_t i = 0; i < n; i++) {
        requests[i]->helpers = worker->team.queue ? &worker->helpers : NULL;
        if (ad_serve_decode(serving, requests[i]) == AD_OK) {
            ad_requests_append(requests[i]->joins ? &batch : &others, requests[i]);
        }
    }
    serving_run(serving, &batch, worker);
    while (others.n > 0) {
        ad_requests_append(&batch, ad_requests_shift(&others));
        serving_run(serving, &batch, worker);
    }
}

static inline void serving_serve(struct ad_serving *serving, struct ad_request *request,
                                 struct ad_worker *worker)
{
    serving_serve_many(serving, &request, 1, worker);
}

#endif
