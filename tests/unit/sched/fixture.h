/* fixture.h - versions without a layer and requests to them, for the tests of scheduling. */
#ifndef TESTS_UNIT_SCHED_FIXTURE_H
#define TESTS_UNIT_SCHED_FIXTURE_H

#include "base/clock.h"
#include "sched/queue.h"
#include "sched/workers.h"

#include "unit/support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline void fixture_nap(int64_t ns)
{
    const struct timespec pause = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&pause, NULL);
}

/* True once *value >= least; false after 20 s. */
static inline bool fixture_reaches(const atomic_int *value, int least)
{
    int64_t until_ns = ad_clock_now_ns() + 20 * NS_PER_S;
    while (atomic_load(value) < least) {
        if (ad_clock_now_ns() > until_ns) {
            return false;
        }
        fixture_nap(50000);
    }
    return true;
}

/* One reference, for ad_version_release. Settings are the test's to change before the first push. */
static inline struct ad_version *fixture_version(const char *model)
{
    struct ad_version *version = calloc(1, sizeof *version);
    ck_assert_ptr_nonnull(version);
    version->model = strdup(model);
    version->number = 1;
    strcpy(version->text, "1");
    version->settings = (struct ad_model_settings){.max_batch_rows = 4096,
                                                   .max_batch_requests = 64,
                                                   .n_priorities = 1,
                                                   .default_priority = 1};
    version->stats = ad_stats_create();
    ck_assert_ptr_nonnull(version->stats);
    atomic_init(&version->references, 1);
    return version;
}

/* The same with a causal_mha layer, 2 wide, of one head. */
static inline struct ad_version *fixture_causal_with(const char *model,
                                                     const struct attn_option *options,
                                                     size_t n_options)
{
    static const char header[] = "{\"input_linear.weights\":{\"dtype\":\"F32\",\"shape\":"
                                 "[2,6],\"data_offsets\":[0,48]}}";
    static const float values[12] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1};
    unsigned char file[8 + sizeof header - 1 + sizeof values] = {sizeof header - 1};
    struct ad_version *version = fixture_version(model);
    struct attn_spec spec = {.size = sizeof spec};
    struct attn_error error = {.status = ATTN_OK};
    attn_weights *weights = NULL;
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, values, sizeof values);
    ck_assert_msg(
        !attn_weights_parse(file, sizeof file, &weights, &error) &&
            !attn_spec_preset(&spec, "causal_mha", options, n_options, &error) &&
            !attn_layer_create(&spec, weights, &version->layer, &error),
        "%s", error.message);
    attn_weights_free(weights);
    return version;
}

/* One whose sequences grow, up to FIXTURE_LENGTH positions. */
#define FIXTURE_LENGTH 8192

static inline struct ad_version *fixture_causal(const char *model)
{
    const struct attn_option options[] = {{.name = "output_shape",
                                           .type = ATTN_OPTION_INTS,
                                           .n_integers = 2,
                                           .integers = {FIXTURE_LENGTH, 2}},
                                          attn_bool("use_mask", true)};
    return fixture_causal_with(model, options, 2);
}

/* With a reference of its own to version. */
static inline struct ad_request *fixture_request(struct ad_version *version)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    ad_version_hold(version);
    request->version = version;
    request->joins = true;
    request->n_rows = 1;
    return request;
}

/* A body of n bytes. */
static inline void fixture_body(struct ad_request *request, size_t n)
{
    ck_assert(ad_buffer_reserve(&request->body, n));
    memset(request->body.data, 'x', n);
    request->body.size = n;
}

static inline struct ad_request *fixture_push(struct ad_queue *queue,
                                              struct ad_request *request)
{
    struct ad_request *pushed = request;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_queue_push(queue, &pushed, &error) == AD_OK, "%s", error.message);
    ck_assert_ptr_null(pushed);
    return request;
}

/* Free all that is in the list; how many that were. */
static inline size_t fixture_free_all(struct ad_requests *list)
{
    size_t n = 0;
    struct ad_request *request;
    while ((request = ad_requests_shift(list)) != NULL) {
        ad_request_free(request);
        n++;
    }
    return n;
}

/* Requests of the version that wait, and that workers have in hand. */
static inline void fixture_check_gauges(const struct ad_version *version,
                                        int64_t n_waiting, int64_t n_running)
{
    struct ad_stats_view *view = malloc(sizeof *view);
    ck_assert_ptr_nonnull(view);
    ad_stats_read(version->stats, view);
    ck_assert_int_eq(view->n_waiting, n_waiting);
    ck_assert_int_eq(view->n_running, n_running);
    free(view);
}

#endif
