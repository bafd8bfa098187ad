/* cond.h - conditions whose deadlines are of ad_clock_now_ns. */
#ifndef AD_BASE_COND_H
#define AD_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* 0 or an errno. Destroy with pthread_cond_destroy. */
int ad_cond_init(pthread_cond_t *cond);

/* Wait until signalled or until the moment; false: that has come. Negative counts as 0. */
bool ad_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns);

#endif
