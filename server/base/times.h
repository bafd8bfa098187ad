/* times.h - when a request went from one stage to the next. */
#ifndef AD_BASE_TIMES_H
#define AD_BASE_TIMES_H

#include <stdint.h>

/* Of ad_clock_now_ns; 0: it never got there. A stage that was left is followed by the next at the
 * same moment, except that a request waits twice: for its decoding, and for a place in a batch. */
struct ad_times {
    int64_t begun_ns;    /* its headers were read */
    int64_t queued_ns;   /* it was complete and joined the queue */
    int64_t decoding_ns; /* a worker took it */
    int64_t decoded_ns;  /* it waits for its place in a batch */
    int64_t computing_ns;
    int64_t computed_ns;
    int64_t encoded_ns; /* the reply is ready */
    int64_t replied_ns; /* the reply was handed to the HTTP library */
};

/* The time from one moment to another, 0 where either is missing. */
static inline int64_t ad_times_between(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? to_ns - from_ns : 0;
}

/* All waiting: for decoding, and for a place in a batch. */
static inline int64_t ad_times_queue(const struct ad_times *times)
{
    return ad_times_between(times->queued_ns, times->decoding_ns) +
           ad_times_between(times->decoded_ns, times->computing_ns);
}

#endif
