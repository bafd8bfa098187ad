/* watchdog.h - when to look whether the daemon still answers, for a service manager that restarts one
 * which does not. */
#ifndef AD_BASE_WATCHDOG_H
#define AD_BASE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

/* Owner: main, which looks. Times are ad_clock_now_ns's. */
struct ad_watchdog {
    int64_t interval_ns; /* within which the manager wants to hear of us; 0: never */
    int64_t next_ns;     /* when to look; INT64_MAX: never */
};

void ad_watchdog_start(struct ad_watchdog *watchdog, int64_t interval_ns, int64_t now_ns);

static inline bool ad_watchdog_is_due(const struct ad_watchdog *watchdog, int64_t now_ns)
{
    return now_ns >= watchdog->next_ns;
}

/* How long an answer may take: what is left then is enough for one more look. */
int64_t ad_watchdog_patience_ns(const struct ad_watchdog *watchdog);

/* A look ended at now_ns with or without an answer: the next one comes after half of the interval, or
 * sooner. */
void ad_watchdog_note(struct ad_watchdog *watchdog, bool answered, int64_t now_ns);

#endif
