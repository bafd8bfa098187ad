/* clock.h - time. */
#ifndef AD_BASE_CLOCK_H
#define AD_BASE_CLOCK_H

#include <stdint.h>

#define AD_CLOCK_UTC_SIZE 25

int64_t
ad_clock_now_ns(void); /* monotonic, nanoseconds; only differences mean something */

int64_t ad_clock_unix_ms(void); /* milliseconds since 1970; may jump */

/* Milliseconds since 1970, up to the year 9999, as RFC 3339 in UTC: 2026-11-30T08:00:00.123Z.
 * Takes no lock and does not look at the time zone. */
void ad_clock_utc(int64_t unix_ms, char text[AD_CLOCK_UTC_SIZE]);

#endif
