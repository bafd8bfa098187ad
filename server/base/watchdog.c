/* watchdog.c - when to look whether the daemon still answers. Pure; owner: main. */
#include "base/watchdog.h"

#define MOST_PATIENCE_NS INT64_C(10000000000) /* main hears no signal meanwhile */

void ad_watchdog_start(struct ad_watchdog *watchdog, int64_t interval_ns, int64_t now_ns)
{
    watchdog->interval_ns = interval_ns;
    watchdog->next_ns = INT64_MAX;
    if (interval_ns > 0) {
        ad_watchdog_note(watchdog, true, now_ns);
    }
}

int64_t ad_watchdog_patience_ns(const struct ad_watchdog *watchdog)
{
    int64_t patience_ns = watchdog->interval_ns / 4;
    return patience_ns < MOST_PATIENCE_NS ? patience_ns : MOST_PATIENCE_NS;
}

void ad_watchdog_note(struct ad_watchdog *watchdog, bool answered, int64_t now_ns)
{
    int64_t pause_ns = watchdog->interval_ns / (answered ? 2 : 8);
    watchdog->next_ns = pause_ns < INT64_MAX - now_ns ? now_ns + pause_ns : INT64_MAX;
}
