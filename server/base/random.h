/* random.h - bytes that nobody can guess. Any thread. */
#ifndef AD_BASE_RANDOM_H
#define AD_BASE_RANDOM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* From the system, which may make us wait early after its start. False: it has none. */
bool ad_random_fill(void *to, size_t n_bytes) AD_MUST_CHECK;

#endif
