/* timing.h - how long something takes, on a machine that others use too. */
#ifndef TESTS_BENCH_TIMING_H
#define TESTS_BENCH_TIMING_H

#include <stddef.h>

struct timing {
    size_t n; /* runs measured */
    double min_us, median_us;
};

double now_seconds(void);

/* Warm up, then run again and again for about so many seconds (at least 5 runs, 3 when each takes
 * more than half a second). The minimum is what the machine can do; the median shows the noise. */
struct timing time_it(double seconds, void (*run)(void *argument), void *argument);

/* The same for two that are compared, in turns, so that both meet the machine as it is then; each for
 * about so many seconds in all. */
void time_both(double seconds, void (*const runs[2])(void *argument), void *argument,
               struct timing timings[2]);

#endif
