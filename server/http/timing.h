/* timing.h - the header Server-Timing: what a request's time went into. */
#ifndef AD_HTTP_TIMING_H
#define AD_HTTP_TIMING_H

#include "base/times.h"

#define AD_TIMING_SIZE 256

/* "queue;dur=0.012, decode;dur=0.100, batch;dur=0.000, compute;dur=1.234, encode;dur=0.050,
 * total;dur=1.500": milliseconds. A stage that the request did not go through is left out; the total
 * is up to the last moment that is known. */
void ad_timing_write(const struct ad_times *times, char text[AD_TIMING_SIZE]);

#endif
