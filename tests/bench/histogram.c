/* histogram.c - counts in buckets whose width grows with the time. One thread. */
#include "bench/histogram.h"

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* The bucket is the power of two, counted from 2 * CUTS on, and the bits that follow the first one. */
static uint64_t bucket_of(int64_t ns)
{
    uint64_t value =
        at_most(ns > 0 ? (uint64_t)ns : 0, (UINT64_C(1) << HISTOGRAM_POWERS) - 1);
    if (value < 2 * HISTOGRAM_CUTS) {
        return value;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzll(value / HISTOGRAM_CUTS);
    return shift * HISTOGRAM_CUTS + (value >> shift);
}

static double middle_of(uint64_t bucket)
{
    if (bucket < 2 * HISTOGRAM_CUTS) {
        return (double)bucket;
    }
    uint64_t shift = bucket / HISTOGRAM_CUTS - 1;
    double width = (double)(UINT64_C(1) << shift);
    return width * ((double)(HISTOGRAM_CUTS + bucket % HISTOGRAM_CUTS) + 0.5);
}

void histogram_add(struct histogram *histogram, int64_t ns)
{
    histogram->buckets[bucket_of(ns)]++;
    histogram->n++;
    histogram->sum_ns += (double)ns;
    histogram->max_ns = ns > histogram->max_ns ? ns : histogram->max_ns;
}

double histogram_us(const struct histogram *histogram, double share)
{
    double wanted = share * (double)histogram->n;
    double longest = (double)histogram->max_ns;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < HISTOGRAM_BUCKETS && histogram->n > 0; i++) {
        seen += histogram->buckets[i];
        if (histogram->buckets[i] > 0 && (double)seen >= wanted) {
            double ns = middle_of(i);
            return 1e-3 * (ns < longest ? ns : longest);
        }
    }
    return 1e-3 * longest;
}

double histogram_mean_us(const struct histogram *histogram)
{
    return histogram->n > 0 ? 1e-3 * histogram->sum_ns / (double)histogram->n : 0;
}
