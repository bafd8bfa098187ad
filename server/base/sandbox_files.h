/* sandbox_files.h - files out of reach, by Landlock. */
#ifndef AD_BASE_SANDBOX_FILES_H
#define AD_BASE_SANDBOX_FILES_H

#include "base/error.h"
#include "base/sandbox_places.h"

#include <stdbool.h>
#include <stdint.h>

struct ad_sandbox_files {
    const struct ad_sandbox_places *places; /* all else is out of reach */
    bool connects; /* TCP connections are opened: to `port`, where it is not 0 */
    uint16_t port;
    bool uses_abstract; /* unix sockets without a file that others made are used */
};

/* What the running kernel offers; 0: nothing. */
int ad_sandbox_files_abi(void);

/* Restrict the calling thread and those that it starts, for good: nothing but what `places` allow is
 * opened, made or removed, and nothing is executed; of what newer kernels offer, no TCP connection is
 * opened but as said, no device's settings are changed, and no signal goes to another process.
 * Descriptors that are open stay as they are. AD_UNSUPPORTED: the kernel does not offer it. */
enum ad_status ad_sandbox_files_apply(const struct ad_sandbox_files *files,
                                      struct ad_error *error) AD_MUST_CHECK;

#endif
