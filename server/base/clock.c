/* clock.c - time. Pure functions but for the clocks they read; any thread. */
#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define MS_PER_DAY ((int64_t)24 * 60 * 60 * 1000)
#define LAST_DAY ((int64_t)2932896) /* 9999-12-31 */

int64_t ad_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t ad_clock_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year));
}

static void put_digits(char *text, size_t n, int64_t value)
{
    for (; n > 0; n--, value /= 10) {
        text[n - 1] = (char)('0' + value % 10);
    }
}

void ad_clock_utc(int64_t unix_ms, char text[AD_CLOCK_UTC_SIZE])
{
    int64_t ms = unix_ms < 0 ? 0 : unix_ms;
    int64_t days = ms / MS_PER_DAY;
    days = days > LAST_DAY ? LAST_DAY : days;
    ms %= MS_PER_DAY;
    /* The C library's gmtime takes a lock; walking the years is as quick for dates near ours. */
    int year = 1970;
    for (; days >= 365 + is_leap(year); year++) {
        days -= 365 + is_leap(year);
    }
    int month = 0;
    for (; days >= days_of_month(year, month); month++) {
        days -= days_of_month(year, month);
    }
    memcpy(text, "0000-00-00T00:00:00.000Z", AD_CLOCK_UTC_SIZE);
    put_digits(text, 4, year);
    put_digits(text + 5, 2, month + 1);
    put_digits(text + 8, 2, days + 1);
    put_digits(text + 11, 2, ms / 3600000);
    put_digits(text + 14, 2, ms / 60000 % 60);
    put_digits(text + 17, 2, ms / 1000 % 60);
    put_digits(text + 20, 3, ms % 1000);
}
