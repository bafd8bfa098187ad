/* cpus.c - how many processors this process may really use. Called by main at start; whatever is
 * missing or unreadable counts as "no limit". */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The first line of a small file, without its end; false when there is none. */
static bool read_line(const char *folder, const char *name, char *line, size_t size)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool read = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (read) {
        line[strcspn(line, "\n")] = '\0';
    }
    return read;
}

/* A positive decimal number at *text, which is moved past it and one space. */
static bool take_number(const char **text, uint64_t *number)
{
    if (**text < '0' || **text > '9') {
        return false; /* "max" and -1 mean no quota */
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (errno != 0 || value == 0 || (*end != '\0' && *end != ' ')) {
        return false;
    }
    *text = *end == ' ' ? end + 1 : end;
    *number = value;
    return true;
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
    if (read_line(folder, "cpu.max", line, sizeof line) && take_number(&rest, &quota) &&
        take_number(&rest, &period)) {
        return rounded_up(quota, period);
    }
    return SIZE_MAX;
}

static size_t quota_v1(const char *folder)
{
    char quota_line[64], period_line[64];
    uint64_t quota, period;
    const char *quota_text = quota_line, *period_text = period_line;
    if (read_line(folder, "cpu.cfs_quota_us", quota_line, sizeof quota_line) &&
        read_line(folder, "cpu.cfs_period_us", period_line, sizeof period_line) &&
        take_number(&quota_text, &quota) && take_number(&period_text, &period)) {
        return rounded_up(quota, period);
    }
    return SIZE_MAX;
}

static bool has_parent_step(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

/* The smallest quota of the group at mount/path and its parents up to the mount itself. In a
 * container the path may be the host's, of which the mount shows the lowest part or the end only:
 * groups that are not there are passed over, until the mount's root, which is the container's. */
static size_t smallest_quota(const char *mount, const char *path,
                             size_t (*quota_of)(const char *folder))
{
    char folder[PATH_MAX];
    const char *inside = has_parent_step(path) ? "" : path;
    int n = snprintf(folder, sizeof folder, "%s%s", mount, inside);
    if (n < 0 || (size_t)n >= sizeof folder) {
        return quota_of(mount);
    }
    size_t smallest = SIZE_MAX;
    size_t n_mount = strlen(mount);
    for (;;) {
        size_t quota = quota_of(folder);
        smallest = quota < smallest ? quota : smallest;
        if (strlen(folder) <= n_mount) {
            return smallest;
        }
        *strrchr(folder, '/') = '\0'; /* path begins with a slash, so there is one */
    }
}

/* The same for each place where the hierarchy is usually mounted. */
static size_t quota_below(const char *cgroup_root, const char *const *mounts,
                          const char *path, size_t (*quota_of)(const char *folder))
{
    size_t smallest = SIZE_MAX;
    for (; *mounts; mounts++) {
        char mount[PATH_MAX];
        int n = snprintf(mount, sizeof mount, "%s%s", cgroup_root, *mounts);
        if (n >= 0 && (size_t)n < sizeof mount) {
            size_t quota = smallest_quota(mount, path, quota_of);
            smallest = quota < smallest ? quota : smallest;
        }
    }
    return smallest;
}

/* Is word one of the comma-separated words of the first n bytes of list? */
static bool list_has(const char *list, size_t n, const char *word)
{
    size_t n_word = strlen(word);
    for (const char *at = list, *end = list + n; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t length = (size_t)((comma ? comma : end) - at);
        if (length == n_word && memcmp(at, word, length) == 0) {
            return true;
        }
        at += length + 1;
    }
    return false;
}

/* One line of /proc/self/cgroup: "0::/path" is version 2, "3:cpu,cpuacct:/path" version 1. */
static size_t quota_of_line(const char *line, const char *cgroup_root)
{
    static const char *const mounts_v2[] = {"", "/unified", NULL};
    static const char *const mounts_v1[] = {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu", NULL};
    const char *list = strchr(line, ':');
    const char *colon = list ? strchr(list + 1, ':') : NULL;
    if (!colon || colon[1] != '/') {
        return SIZE_MAX;
    }
    list++;
    size_t n_list = (size_t)(colon - list);
    if (n_list == 0) {
        return quota_below(cgroup_root, mounts_v2, colon + 1, quota_v2);
    }
    if (list_has(list, n_list, "cpu")) {
        return quota_below(cgroup_root, mounts_v1, colon + 1, quota_v1);
    }
    return SIZE_MAX;
}

size_t ad_cpus_quota(const char *proc_root, const char *cgroup_root)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/self/cgroup", proc_root);
    FILE *file = n >= 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (!file) {
        return SIZE_MAX;
    }
    size_t smallest = SIZE_MAX;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        size_t quota = quota_of_line(line, cgroup_root);
        smallest = quota < smallest ? quota : smallest;
    }
    free(line);
    fclose(file);
    return smallest;
}

size_t ad_cpus_available(const char *proc_root, const char *cgroup_root)
{
    size_t affinity = affinity_count();
    size_t quota = ad_cpus_quota(proc_root, cgroup_root);
    return quota < affinity ? quota : affinity;
}
