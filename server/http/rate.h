/* rate.h - how often a key may ask: a bucket of tokens that fills by itself.
 *
 * A request takes a token, and is refused when there is none. The bucket keeps one number, the moment at
 * which it will be full again, so taking is one exchange without a lock. Any thread may take. */
#ifndef AD_HTTP_RATE_H
#define AD_HTTP_RATE_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_RATE_MIN 0.001 /* tokens a second */
#define AD_RATE_MAX 1e6
#define AD_BURST_MAX 1000000

/* How a bucket fills. Not part of it, so that a bucket outlives a change of its limit. */
struct ad_limit {
    int64_t interval_ns; /* from one token to the next; 0: there is no limit */
    int64_t capacity_ns; /* a full bucket: the time that all of its tokens take to come */
};

/* rate from AD_RATE_MIN to AD_RATE_MAX tokens a second; burst from 1 to AD_BURST_MAX tokens. */
struct ad_limit ad_limit_make(double rate, uint64_t burst);

struct ad_bucket {
    atomic_int_fast64_t full_ns; /* on the clock of whoever takes; in the past: full */
    atomic_size_t n_users;
};

/* A full bucket with one user; the last one to release it frees it. NULL: out of memory. */
struct ad_bucket *ad_bucket_create(void);
void ad_bucket_hold(struct ad_bucket *bucket);
void ad_bucket_release(struct ad_bucket *bucket); /* NULL is fine */

/* Take a token at now_ns, a monotonic clock's time; false when there is none, and the next one comes
 * in *wait_ns. */
bool ad_bucket_take(struct ad_bucket *bucket, const struct ad_limit *limit,
                    int64_t now_ns, int64_t *wait_ns) AD_MUST_CHECK;

#endif
