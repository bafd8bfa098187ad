/* timing.c - minimum and median of many runs. One thread. */
#include "bench/timing.h"

#include "bench/cases.h"

#include <stdlib.h>
#include <time.h>

#define MOST_RUNS 20000
#define WARM_SECONDS 0.05
#define TURNS 6

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

struct timing time_it(double seconds, void (*run)(void *argument), void *argument)
{
    double *times = malloc(MOST_RUNS * sizeof *times);
    if (!times) {
        die("out of memory");
    }
    double start = now_seconds(), longest = 0;
    for (size_t i = 0; i < 1 || (i < 200 && now_seconds() - start < WARM_SECONDS); i++) {
        run(argument);
    }
    start = now_seconds();
    size_t n = 0;
    while (n < MOST_RUNS &&
           (n < (longest > 0.5 ? 3 : 5) || now_seconds() - start < seconds)) {
        double before = now_seconds();
        run(argument);
        times[n] = now_seconds() - before;
        longest = times[n] > longest ? times[n] : longest;
        n++;
    }
    qsort(times, n, sizeof *times, compare);
    struct timing result = {n, 1e6 * times[0], 1e6 * times[n / 2]};
    free(times);
    return result;
}

void time_both(double seconds, void (*const runs[2])(void *argument), void *argument,
               struct timing timings[2])
{
    for (size_t i = 0; i < 2 * TURNS; i++) {
        struct timing *best = &timings[i % 2];
        struct timing timing = time_it(seconds / TURNS, runs[i % 2], argument);
        if (i < 2 || timing.min_us < best->min_us) {
            *best = timing;
        }
    }
}
