/* cgroup.c - the limits of this process's control groups. Called by main at start; whatever is missing
 * or unreadable counts as "no limit". */
#include "base/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ad_cgroup_read(const char *folder, const char *name, char *line, size_t size)
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
    (void)fclose(file);
    if (read) {
        line[strcspn(line, "\n")] = '\0';
    }
    return read;
}

bool ad_cgroup_number(const char **text, uint64_t *number)
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

static bool has_parent_step(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

/* The smallest value of the group at mount/path and its parents up to the mount itself. In a
 * container the path may be the host's, of which the mount shows the lowest part or the end only:
 * groups that are not there are passed over, until the mount's root, which is the container's. */
static size_t smallest_at(const char *mount, const char *path,
                          size_t (*read)(const char *folder))
{
    char folder[PATH_MAX];
    const char *inside = has_parent_step(path) ? "" : path;
    int n = snprintf(folder, sizeof folder, "%s%s", mount, inside);
    if (n < 0 || (size_t)n >= sizeof folder) {
        return read(mount);
    }
    size_t smallest = SIZE_MAX;
    size_t n_mount = strlen(mount);
    for (;;) {
        size_t value = read(folder);
        smallest = value < smallest ? value : smallest;
        if (strlen(folder) <= n_mount) {
            return smallest;
        }
        *strrchr(folder, '/') = '\0'; /* path begins with a slash, so there is one */
    }
}

/* The same for each place where the hierarchy is usually mounted. */
static size_t smallest_below(const char *cgroup_root, const char *const *mounts,
                             const char *path, size_t (*read)(const char *folder))
{
    size_t smallest = SIZE_MAX;
    for (; *mounts; mounts++) {
        char mount[PATH_MAX];
        int n = snprintf(mount, sizeof mount, "%s%s", cgroup_root, *mounts);
        if (n >= 0 && (size_t)n < sizeof mount) {
            size_t value = smallest_at(mount, path, read);
            smallest = value < smallest ? value : smallest;
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
static size_t limit_of_line(const struct ad_cgroup_limit *limit, const char *line,
                            const char *cgroup_root)
{
    static const char *const mounts_v2[] = {"", "/unified", NULL};
    const char *list = strchr(line, ':');
    const char *colon = list ? strchr(list + 1, ':') : NULL;
    if (!colon || colon[1] != '/') {
        return SIZE_MAX;
    }
    list++;
    size_t n_list = (size_t)(colon - list);
    if (n_list == 0) {
        return smallest_below(cgroup_root, mounts_v2, colon + 1, limit->read_v2);
    }
    if (list_has(list, n_list, limit->controller)) {
        return smallest_below(cgroup_root, limit->mounts_v1, colon + 1, limit->read_v1);
    }
    return SIZE_MAX;
}

size_t ad_cgroup_smallest(const struct ad_cgroup_limit *limit, const char *proc_root,
                          const char *cgroup_root)
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
        size_t value = limit_of_line(limit, line, cgroup_root);
        smallest = value < smallest ? value : smallest;
    }
    free(line);
    (void)fclose(file);
    return smallest;
}
