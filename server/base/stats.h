/* stats.h - what has become of the requests to one version of a model: counters and histograms.
 *
 * Any thread may add and read; a read is not one moment's, but each number is right and never falls.
 * Shared by counted reference, so that the numbers outlive a reload of their version. */
#ifndef AD_BASE_STATS_H
#define AD_BASE_STATS_H

#include "base/times.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ad_outcome {
    AD_OUTCOME_SUCCESS,
    AD_OUTCOME_REJECTED, /* never started: queue full, deadline passed, stopping, over memory */
    AD_OUTCOME_CANCELED, /* its client went away */
    AD_OUTCOME_BACKEND,  /* our fault */
    AD_OUTCOME_OTHER,    /* the request's own fault */
    AD_N_OUTCOMES
};

/* Bounds of the buckets of a histogram, ascending; one more bucket takes what is above. */
#define AD_HISTOGRAM_BUCKETS 24

/* A histogram as it is read: of durations in nanoseconds, or of plain numbers. */
struct ad_histogram {
    uint64_t counts[AD_HISTOGRAM_BUCKETS + 1]; /* not cumulative */
    uint64_t sum;
};

extern const int64_t ad_duration_bounds_ns[AD_HISTOGRAM_BUCKETS]; /* upper, inclusive */
extern const int64_t ad_size_bounds[AD_HISTOGRAM_BUCKETS];

struct ad_duration_count {
    uint64_t count;
    uint64_t ns;
};

/* Passes (executions) over so many samples together: 1 to AD_STATS_BATCH_SIZES; passes over more
 * count as of the last size. */
#define AD_STATS_BATCH_SIZES 64
struct ad_batch_stat {
    uint64_t batch_size; /* 0: unused */
    struct ad_duration_count compute_input, compute_infer, compute_output;
};

struct ad_stats_view {
    int64_t last_inference_ms; /* since 1970; 0: none yet */
    uint64_t n_items;          /* items of batches (samples) inferred */
    uint64_t n_passes;
    uint64_t n_requests[AD_N_OUTCOMES];
    struct ad_duration_count success, fail;
    struct ad_duration_count queue, compute_input, compute_infer,
        compute_output; /* of the requests that succeeded */
    struct ad_batch_stat batches[AD_STATS_BATCH_SIZES]; /* passes by their samples */
    struct ad_histogram request_duration, queue_duration,
        compute_duration;           /* of the requests that succeeded */
    struct ad_histogram batch_size; /* requests joined in one pass */
    int64_t n_waiting;              /* requests of the version in the queue right now */
    int64_t n_running;              /* taken by a worker right now */
};

struct ad_stats;

struct ad_stats *ad_stats_create(void); /* one reference; NULL when out of memory */
struct ad_stats *ad_stats_hold(struct ad_stats *stats);
void ad_stats_release(struct ad_stats *stats); /* NULL is fine */

/* One request has been answered, with the samples of its batch axis (1 where that is not known). */
void ad_stats_add_request(struct ad_stats *stats, enum ad_outcome outcome,
                          uint64_t n_items, const struct ad_times *times);

/* One pass over the weights has been made for n_requests requests of n_items samples together. */
void ad_stats_add_pass(struct ad_stats *stats, uint64_t n_requests, uint64_t n_items,
                       int64_t input_ns, int64_t infer_ns, int64_t output_ns);

/* The gauges move by so much. */
void ad_stats_move(struct ad_stats *stats, int64_t waiting, int64_t running);

void ad_stats_read(const struct ad_stats *stats, struct ad_stats_view *view);

#endif
