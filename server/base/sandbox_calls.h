/* sandbox_calls.h - system calls out of reach, by seccomp. */
#ifndef AD_BASE_SANDBOX_CALLS_H
#define AD_BASE_SANDBOX_CALLS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct ad_sandbox_calls {
    bool connects; /* stream connections are opened */
};

/* Restrict every thread of the process, for good, to what serving needs. A call that nobody needs fails
 * (EPERM; ENOSYS where the C library then does with an older one); one that runs a program, looks into
 * another process or changes the system ends the process. Memory can no longer be made executable, no
 * process be started, and no socket be opened but as said. *n_calls: how many calls are allowed.
 * AD_UNSUPPORTED: the kernel does not offer it. */
enum ad_status ad_sandbox_calls_apply(const struct ad_sandbox_calls *calls,
                                      size_t *n_calls,
                                      struct ad_error *error) AD_MUST_CHECK;

#endif
