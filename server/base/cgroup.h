/* cgroup.h - limits that control groups set, of version 1 and 2. */
#ifndef AD_BASE_CGROUP_H
#define AD_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a limit is read. Both readers get a group's folder and return SIZE_MAX for "none". */
struct ad_cgroup_limit {
    const char *controller;       /* of version 1, as /proc/self/cgroup names it */
    const char *const *mounts_v1; /* below cgroup_root; NULL-terminated */
    size_t (*read_v1)(const char *folder);
    size_t (*read_v2)(const char *folder);
};

/* The smallest value in this process's own group and its parents; SIZE_MAX: no limit. proc_root and
 * cgroup_root are "/proc" and "/sys/fs/cgroup" but for tests. */
size_t ad_cgroup_smallest(const struct ad_cgroup_limit *limit, const char *proc_root,
                          const char *cgroup_root);

/* For readers: the first line of a group's file, without its end; false when there is none. */
bool ad_cgroup_read(const char *folder, const char *name, char *line, size_t size);

/* A positive decimal number at *text, which is moved past it and one space; "max" and -1 are none. */
bool ad_cgroup_number(const char **text, uint64_t *number);

#endif
