/* process.h - what the system says of our own process. */
#ifndef AD_HTTP_PROCESS_H
#define AD_HTTP_PROCESS_H

#include <stdint.h>

/* 0 where it could not be found out. */
struct ad_process {
    uint64_t cpu_ns; /* of all threads, user and system */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t n_fds;
    uint64_t max_fds;
    uint64_t start_ms; /* since 1970 */
};

/* proc is "/proc", or a test's stand-in. */
void ad_process_read(const char *proc, struct ad_process *process);

#endif
