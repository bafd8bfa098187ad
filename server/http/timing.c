/* timing.c - the header Server-Timing. Pure; any thread. */
#include "http/timing.h"

#include <inttypes.h>
#include <stdio.h>

#define NS_PER_US 1000
#define US_PER_MS 1000

static int64_t last_of(const struct ad_times *times)
{
    return times->replied_ns > 0 ? times->replied_ns : times->encoded_ns;
}

void ad_timing_write(const struct ad_times *times, char text[AD_TIMING_SIZE])
{
    const struct {
        const char *name;
        int64_t begun_ns, ended_ns;
    } stages[] = {{"queue", times->queued_ns, times->decoding_ns},
                  {"decode", times->decoding_ns, times->decoded_ns},
                  {"batch", times->decoded_ns, times->computing_ns},
                  {"compute", times->computing_ns, times->computed_ns},
                  {"encode", times->computed_ns, times->encoded_ns},
                  {"total", times->begun_ns, last_of(times)}};
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (stages[i].begun_ns <= 0 || stages[i].ended_ns < stages[i].begun_ns) {
            continue;
        }
        int64_t us = (stages[i].ended_ns - stages[i].begun_ns) / NS_PER_US;
        /* six times a name, two numbers of up to 17 digits and 9 characters: it fits */
        size += (size_t)snprintf(text + size, AD_TIMING_SIZE - size,
                                 "%s%s;dur=%" PRId64 ".%03" PRId64, size > 0 ? ", " : "",
                                 stages[i].name, us / US_PER_MS, us % US_PER_MS);
    }
}
