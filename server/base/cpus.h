/* cpus.h - how many processors this process may really use. */
#ifndef AD_BASE_CPUS_H
#define AD_BASE_CPUS_H

#include <stddef.h>

/* The affinity mask's count, lowered to the cgroup quota (v2 cpu.max or v1 cfs_quota, own group and
 * its parents, rounded up); at least 1. proc_root and cgroup_root are "/proc" and "/sys/fs/cgroup"
 * but for tests. */
size_t ad_cpus_available(const char *proc_root, const char *cgroup_root);

/* The quota alone, at least 1; SIZE_MAX when there is none. */
size_t ad_cpus_quota(const char *proc_root, const char *cgroup_root);

#endif
