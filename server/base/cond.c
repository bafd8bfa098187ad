/* cond.c - conditions whose deadlines are of ad_clock_now_ns. Any thread. */
#include "base/cond.h"

#include <errno.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

int ad_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    if (code != 0) {
        return code;
    }
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (code == 0) {
        code = pthread_cond_init(cond, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return code;
}

bool ad_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
    until_ns = until_ns < 0 ? 0 : until_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
