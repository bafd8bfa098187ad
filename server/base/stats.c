/* stats.c - what has become of the requests to one version of a model.
 *
 * Any thread. Whoever adds does it with relaxed atomics on the shard of the processor it runs on, so
 * that threads seldom write to the same line of cache and never wait for each other; whoever reads
 * sums the shards up. What can be derived is derived then: every success is in the three histograms
 * of durations, whose sums are the cumulative times. */
#include "base/stats.h"

#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_SHARDS 8
#define CACHE_LINE 64

#define US INT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

const int64_t ad_duration_bounds_ns[AD_HISTOGRAM_BUCKETS] = {
    10 * US,  25 * US,  50 * US,   75 * US,   100 * US, 150 * US,  250 * US, 500 * US,
    750 * US, 1 * MS,   1500 * US, 2500 * US, 5 * MS,   7500 * US, 10 * MS,  25 * MS,
    50 * MS,  100 * MS, 250 * MS,  500 * MS,  1 * S,    2500 * MS, 10 * S,   60 * S};

const int64_t ad_size_bounds[AD_HISTOGRAM_BUCKETS] = {
    1,  2,  3,  4,  5,  6,  7,  8,   10,  12,  16,  20,
    24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256};

struct histogram {
    atomic_uint_fast64_t counts[AD_HISTOGRAM_BUCKETS + 1];
    atomic_uint_fast64_t sum;
};

/* What threads on some of the processors have added. All atomic. */
struct shard {
    _Alignas(CACHE_LINE) struct histogram request; /* of successes, as the next two */
    struct histogram queue;
    struct histogram compute;
    atomic_uint_fast64_t input_ns, output_ns; /* of successes */
    atomic_uint_fast64_t n_items;
    atomic_uint_fast64_t failures[AD_N_OUTCOMES];
    atomic_uint_fast64_t fail_ns;
    atomic_int_fast64_t last_ms;
    atomic_int_fast64_t n_waiting, n_running; /* one may be below 0: their sum counts */
    struct histogram batch;
};

struct batch {
    atomic_uint_fast64_t count, input_ns, infer_ns, output_ns;
};

struct ad_stats {
    struct shard shards[N_SHARDS];
    struct batch batches[AD_STATS_BATCH_SIZES]; /* [i]: of i + 1 items */
    atomic_size_t references;
};

struct ad_stats *ad_stats_create(void)
{
    struct ad_stats *stats = aligned_alloc(CACHE_LINE, sizeof *stats);
    if (stats) {
        memset(stats, 0, sizeof *stats);
        atomic_init(&stats->references, 1);
    }
    return stats;
}

struct ad_stats *ad_stats_hold(struct ad_stats *stats)
{
    atomic_fetch_add_explicit(&stats->references, 1, memory_order_relaxed);
    return stats;
}

void ad_stats_release(struct ad_stats *stats)
{
    if (stats &&
        atomic_fetch_sub_explicit(&stats->references, 1, memory_order_acq_rel) == 1) {
        free(stats);
    }
}

/* ---- adding ---------------------------------------------------------------- */

static struct shard *shard_here(struct ad_stats *stats)
{
    int processor = sched_getcpu(); /* -1: unknown, which is a shard like the others */
    return &stats->shards[(unsigned)processor % N_SHARDS];
}

static void add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t not_negative(int64_t number)
{
    return number > 0 ? (uint64_t)number : 0;
}

/* The first bucket whose bound is not below the value; past the last bound: one more. */
static size_t bucket_of(const int64_t bounds[AD_HISTOGRAM_BUCKETS], int64_t value)
{
    size_t low = 0;
    size_t high = AD_HISTOGRAM_BUCKETS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bounds[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void observe(struct histogram *histogram, const int64_t *bounds, int64_t value)
{
    add(&histogram->counts[bucket_of(bounds, value)], 1);
    add(&histogram->sum, not_negative(value));
}

/* Never back, when the clock is set back or a thread was held up. */
static void note_time(struct shard *shard, int64_t now_ms)
{
    int_fast64_t last = atomic_load_explicit(&shard->last_ms, memory_order_relaxed);
    while (now_ms > last && !atomic_compare_exchange_weak_explicit(
                                &shard->last_ms, &last, now_ms, memory_order_relaxed,
                                memory_order_relaxed)) {
    }
}

void ad_stats_add_request(struct ad_stats *stats, enum ad_outcome outcome,
                          uint64_t n_items, const struct ad_times *times)
{
    struct shard *shard = shard_here(stats);
    int64_t request_ns = ad_times_between(times->begun_ns, times->replied_ns);
    note_time(shard, ad_clock_unix_ms());
    if (outcome != AD_OUTCOME_SUCCESS) {
        add(&shard->failures[outcome], 1);
        add(&shard->fail_ns, not_negative(request_ns));
        return;
    }
    int64_t input_ns = ad_times_between(times->decoding_ns, times->decoded_ns);
    int64_t infer_ns = ad_times_between(times->computing_ns, times->computed_ns);
    int64_t output_ns = ad_times_between(times->computed_ns, times->encoded_ns);
    observe(&shard->request, ad_duration_bounds_ns, request_ns);
    observe(&shard->queue, ad_duration_bounds_ns, ad_times_queue(times));
    observe(&shard->compute, ad_duration_bounds_ns, infer_ns);
    add(&shard->input_ns, not_negative(input_ns));
    add(&shard->output_ns, not_negative(output_ns));
    add(&shard->n_items, n_items);
}

void ad_stats_add_pass(struct ad_stats *stats, uint64_t n_requests, uint64_t n_items,
                       int64_t input_ns, int64_t infer_ns, int64_t output_ns)
{
    size_t last = AD_STATS_BATCH_SIZES - 1;
    size_t index = n_items > last ? last : n_items > 0 ? (size_t)n_items - 1 : 0;
    struct batch *batch = &stats->batches[index];
    add(&batch->count, 1);
    add(&batch->input_ns, not_negative(input_ns));
    add(&batch->infer_ns, not_negative(infer_ns));
    add(&batch->output_ns, not_negative(output_ns));
    int64_t size = n_requests > INT64_MAX ? INT64_MAX : (int64_t)n_requests;
    observe(&shard_here(stats)->batch, ad_size_bounds, size);
}

void ad_stats_move(struct ad_stats *stats, int64_t waiting, int64_t running)
{
    struct shard *shard = shard_here(stats);
    if (waiting != 0) {
        atomic_fetch_add_explicit(&shard->n_waiting, waiting, memory_order_relaxed);
    }
    if (running != 0) {
        atomic_fetch_add_explicit(&shard->n_running, running, memory_order_relaxed);
    }
}

/* ---- reading --------------------------------------------------------------- */

static uint64_t value_of(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Adds to what other shards have; the number of observations of this one. */
static uint64_t read_histogram(const struct histogram *from, struct ad_histogram *to)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= AD_HISTOGRAM_BUCKETS; i++) {
        uint64_t n = value_of(&from->counts[i]);
        to->counts[i] += n;
        count += n;
    }
    to->sum += value_of(&from->sum);
    return count;
}

static void read_shard(const struct shard *shard, struct ad_stats_view *view)
{
    int64_t last_ms = atomic_load_explicit(&shard->last_ms, memory_order_relaxed);
    view->last_inference_ms =
        last_ms > view->last_inference_ms ? last_ms : view->last_inference_ms;
    view->n_requests[AD_OUTCOME_SUCCESS] +=
        read_histogram(&shard->request, &view->request_duration);
    (void)read_histogram(&shard->queue, &view->queue_duration);
    (void)read_histogram(&shard->compute, &view->compute_duration);
    view->n_passes += read_histogram(&shard->batch, &view->batch_size);
    for (size_t i = AD_OUTCOME_SUCCESS + 1; i < AD_N_OUTCOMES; i++) {
        uint64_t n = value_of(&shard->failures[i]);
        view->n_requests[i] += n;
        view->fail.count += n;
    }
    view->fail.ns += value_of(&shard->fail_ns);
    view->compute_input.ns += value_of(&shard->input_ns);
    view->compute_output.ns += value_of(&shard->output_ns);
    view->n_items += value_of(&shard->n_items);
    view->n_waiting += atomic_load_explicit(&shard->n_waiting, memory_order_relaxed);
    view->n_running += atomic_load_explicit(&shard->n_running, memory_order_relaxed);
}

static void read_batch(const struct batch *from, uint64_t size, struct ad_batch_stat *to)
{
    uint64_t count = value_of(&from->count);
    to->batch_size = count > 0 ? size : 0;
    to->compute_input = (struct ad_duration_count){count, value_of(&from->input_ns)};
    to->compute_infer = (struct ad_duration_count){count, value_of(&from->infer_ns)};
    to->compute_output = (struct ad_duration_count){count, value_of(&from->output_ns)};
}

void ad_stats_read(const struct ad_stats *stats, struct ad_stats_view *view)
{
    memset(view, 0, sizeof *view);
    for (size_t i = 0; i < N_SHARDS; i++) {
        read_shard(&stats->shards[i], view);
    }
    for (size_t i = 0; i < AD_STATS_BATCH_SIZES; i++) {
        read_batch(&stats->batches[i], i + 1, &view->batches[i]);
    }
    uint64_t n_succeeded = view->n_requests[AD_OUTCOME_SUCCESS];
    view->success = (struct ad_duration_count){n_succeeded, view->request_duration.sum};
    view->queue = (struct ad_duration_count){n_succeeded, view->queue_duration.sum};
    view->compute_infer =
        (struct ad_duration_count){n_succeeded, view->compute_duration.sum};
    view->compute_input.count = n_succeeded;
    view->compute_output.count = n_succeeded;
    /* Read while they move, the shards' sum can be off by what is moving. */
    view->n_waiting = view->n_waiting > 0 ? view->n_waiting : 0;
    view->n_running = view->n_running > 0 ? view->n_running : 0;
}
