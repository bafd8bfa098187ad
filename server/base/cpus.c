/* cpus.c - how many processors this process may really use. Called by main at start; whatever is
 * missing or unreadable counts as "no limit". */
#include "base/cpus.h"
#include "base/cgroup.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#define MOST_CPUS ((size_t)1 << 20)

static size_t affinity_count(void)
{
    /* The kernel refuses a mask smaller than its own, and does not say how large that is. */
    for (size_t n = CPU_SETSIZE; n <= MOST_CPUS; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set) {
            break;
        }
        size_t size = CPU_ALLOC_SIZE(n);
        int failed = sched_getaffinity(0, size, set) != 0 ? errno : 0;
        int count = failed ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0) {
            return (size_t)count;
        }
        if (failed != EINVAL) {
            break;
        }
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

static size_t rounded_up(uint64_t quota, uint64_t period)
{
    uint64_t cpus = quota / period + (quota % period != 0);
    return cpus < SIZE_MAX ? (size_t)cpus : SIZE_MAX;
}

/* The quota of one group of version 2: "50000 100000" or "max 100000". */
static size_t quota_v2(const char *folder)
{
    char line[128];
    uint64_t quota, period;
    const char *rest = line;
    if (ad_cgroup_read(folder, "cpu.max", line, sizeof line) &&
        ad_cgroup_number(&rest, &quota) && ad_cgroup_number(&rest, &period)) {
        return rounded_up(quota, period);
    }
    return SIZE_MAX;
}

static size_t quota_v1(const char *folder)
{
    char quota_line[64], period_line[64];
    uint64_t quota, period;
    const char *quota_text = quota_line, *period_text = period_line;
    if (ad_cgroup_read(folder, "cpu.cfs_quota_us", quota_line, sizeof quota_line) &&
        ad_cgroup_read(folder, "cpu.cfs_period_us", period_line, sizeof period_line) &&
        ad_cgroup_number(&quota_text, &quota) &&
        ad_cgroup_number(&period_text, &period)) {
        return rounded_up(quota, period);
    }
    return SIZE_MAX;
}

size_t ad_cpus_quota(const char *proc_root, const char *cgroup_root)
{
    static const char *const mounts[] = {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu", NULL};
    static const struct ad_cgroup_limit limit = {"cpu", mounts, quota_v1, quota_v2};
    return ad_cgroup_smallest(&limit, proc_root, cgroup_root);
}

size_t ad_cpus_available(const char *proc_root, const char *cgroup_root)
{
    size_t affinity = affinity_count();
    size_t quota = ad_cpus_quota(proc_root, cgroup_root);
    return quota < affinity ? quota : affinity;
}
