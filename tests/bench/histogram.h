/* histogram.h - how long requests took, in buckets 0.8 % wide. */
#ifndef TESTS_BENCH_HISTOGRAM_H
#define TESTS_BENCH_HISTOGRAM_H

#include <stdint.h>

/* Every power of two is cut into so many buckets of one width; below twice that, each nanosecond is
 * one. Times of more than 2^42 ns, over an hour, count as that. */
#define HISTOGRAM_CUTS 128
#define HISTOGRAM_POWERS 42
#define HISTOGRAM_BUCKETS ((HISTOGRAM_POWERS - 6) * HISTOGRAM_CUTS)

struct histogram {
    uint64_t n, buckets[HISTOGRAM_BUCKETS];
    int64_t max_ns;
    double sum_ns;
};

/* All zeros is an empty one. */
void histogram_add(struct histogram *histogram, int64_t ns);

/* The time that a share of all stayed within: 0.99 is the 99th percentile. The middle of its bucket,
 * or the longest time if that is less; 0 when nothing was added. */
double histogram_us(const struct histogram *histogram, double share);

double histogram_mean_us(const struct histogram *histogram);

#endif
