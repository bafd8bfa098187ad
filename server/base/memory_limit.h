/* memory_limit.h - how much memory this process may really use. */
#ifndef AD_BASE_MEMORY_LIMIT_H
#define AD_BASE_MEMORY_LIMIT_H

#include "base/options.h"

#include <stddef.h>

/* The machine's memory in bytes, lowered to the cgroup limit (v2 memory.max or v1 memory.limit_in_bytes,
 * own group and its parents). proc_root and cgroup_root are "/proc" and "/sys/fs/cgroup" but for tests. */
size_t ad_memory_limit(const char *proc_root, const char *cgroup_root);

/* The limits that the options leave to us (0): what is usual, but each at most a quarter of the memory,
 * so that requests, outputs and sequences together leave a quarter for weights and all else. */
void ad_memory_share(struct ad_options *options, size_t memory);

#endif
