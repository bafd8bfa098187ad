/* rate.c - how often a key may ask. Any thread; see rate.h. */
#include "http/rate.h"

#include <stdlib.h>

#define NS_PER_S 1e9

struct ad_limit ad_limit_make(double rate, uint64_t burst)
{
    int64_t interval_ns = (int64_t)(NS_PER_S / rate + 0.5);
    /* at most 1e12 nanoseconds and 1e6 tokens */
    return (struct ad_limit){interval_ns, interval_ns * (int64_t)burst};
}

struct ad_bucket *ad_bucket_create(void)
{
    struct ad_bucket *bucket = calloc(1, sizeof *bucket);
    if (bucket) {
        atomic_init(&bucket->n_users, 1);
    }
    return bucket;
}

void ad_bucket_hold(struct ad_bucket *bucket)
{
    atomic_fetch_add_explicit(&bucket->n_users, 1, memory_order_relaxed);
}

void ad_bucket_release(struct ad_bucket *bucket)
{
    if (bucket &&
        atomic_fetch_sub_explicit(&bucket->n_users, 1, memory_order_acq_rel) == 1) {
        free(bucket);
    }
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

bool ad_bucket_take(struct ad_bucket *bucket, const struct ad_limit *limit,
                    int64_t now_ns, int64_t *wait_ns)
{
    int_fast64_t full_ns = atomic_load_explicit(&bucket->full_ns, memory_order_relaxed);
    int64_t taken_ns = 0;
    do {
        /* It is never emptier than empty, also when its limit was another one a moment ago. */
        taken_ns =
            clamp(full_ns, now_ns, now_ns + limit->capacity_ns) + limit->interval_ns;
        if (taken_ns - now_ns > limit->capacity_ns) {
            *wait_ns = taken_ns - now_ns - limit->capacity_ns;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&bucket->full_ns, &full_ns, taken_ns,
                                                    memory_order_relaxed,
                                                    memory_order_relaxed));
    *wait_ns = 0;
    return true;
}
