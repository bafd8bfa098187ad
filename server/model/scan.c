/* scan.c - read a folder's sub-folders in an order that does not depend on the file system.
 *
 * No state; runs on the thread that loads. */
#include "model/scan.h"
#include "base/open.h"

#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_NAME_BYTES 255

static enum ad_status fail(struct ad_error *error, const char *path, int code)
{
    switch (code) {
    case ENOENT:
        return ad_fail(error, AD_NOT_FOUND, "%s: no such folder", path);
    case ENOMEM:
        return ad_fail(error, AD_INTERNAL, "%s: out of memory", path);
    default:
        return ad_fail(error, AD_INVALID, "%s: cannot be read: %s", path, strerror(code));
    }
}

static bool is_folder(DIR *folder, const char *path, const char *name,
                      const struct ad_log *log)
{
    struct stat about;
    if (name[0] == '.') {
        return false; /* ".", "..", and the timed folders behind the links of a config map */
    }
    if (fstatat(dirfd(folder), name, &about, 0) != 0) {
        const struct ad_log_field fields[] = {ad_log_text("folder", path),
                                              ad_log_text("entry", name),
                                              ad_log_text("reason", strerror(errno))};
        ad_log_write(log, AD_LOG_WARNING, "entry skipped", fields, 3);
        return false;
    }
    return S_ISDIR(about.st_mode);
}

static bool add_name(struct ad_names *names, const char *name)
{
    if (names->n == names->capacity) {
        size_t capacity = 16;
        if (names->capacity > 0 &&
            __builtin_mul_overflow(names->capacity, 2, &capacity)) {
            return false;
        }
        char **items = reallocarray(names->items, capacity, sizeof *items);
        if (!items) {
            return false;
        }
        names->items = items;
        names->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy) {
        return false;
    }
    names->items[names->n++] = copy;
    return true;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ad_status ad_scan_folders(const char *path, const struct ad_log *log,
                               struct ad_names *names, struct ad_error *error)
{
    memset(names, 0, sizeof *names);
    DIR *folder = ad_open_folder(path);
    if (!folder) {
        return fail(error, path, errno);
    }
    enum ad_status status = AD_OK;
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            status = errno != 0 ? fail(error, path, errno) : AD_OK;
            break;
        }
        if (is_folder(folder, path, entry->d_name, log) &&
            !add_name(names, entry->d_name)) {
            status = fail(error, path, ENOMEM);
        }
    }
    closedir(folder);
    if (status) {
        ad_names_reset(names);
    } else if (names->n > 0) {
        qsort(names->items, names->n, sizeof *names->items, compare);
    }
    return status;
}

void ad_names_reset(struct ad_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->items[i]);
    }
    free(names->items);
    memset(names, 0, sizeof *names);
}

bool ad_scan_is_servable(const char *name)
{
    const size_t n = strlen(name);
    if (name[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < n;) {
        const size_t length = ad_utf8_length(name + i, n - i);
        if (length == 0 || name[i] == '/' || ad_utf8_is_control(name + i, length)) {
            return false;
        }
        i += length;
    }
    return n > 0 && n <= MAX_NAME_BYTES;
}

uint64_t ad_scan_version(const char *name)
{
    uint64_t number = 0;
    for (const char *c = name; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || (number == 0 && *c == '0') ||
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number)) {
            return 0;
        }
    }
    return number <= INT64_MAX ? number : 0;
}
