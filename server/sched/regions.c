/* regions.c - shared memory objects that clients have registered: a sorted list under one lock.
 *
 * Owner: main. Any thread. Files are opened and closed outside of the lock. */
#include "sched/regions.h"
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Objects of this name are another server's own, and not for clients. */
#define RESERVED_PREFIX "triton_python_backend_shm_region_"
#define SHARE_OF_FILES \
    4 /* of the files that the process may open, regions get one in so many */

struct ad_regions {
    char *folder; /* immutable, as is the next */
    size_t most;
    pthread_mutex_t lock;
    struct ad_region **items; /* guarded by lock, as is the next; ascending by name */
    size_t n;
};

/* ---- the registry -------------------------------------------------------------------------- */

static size_t most_regions(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur / SHARE_OF_FILES >= AD_REGIONS_MOST) {
        return AD_REGIONS_MOST;
    }
    return limit.rlim_cur < SHARE_OF_FILES ? 1 : (size_t)limit.rlim_cur / SHARE_OF_FILES;
}

struct ad_regions *ad_regions_create(const char *folder)
{
    struct ad_regions *regions = calloc(1, sizeof *regions);
    if (!regions) {
        return NULL;
    }
    regions->most = most_regions();
    regions->folder = strdup(folder);
    regions->items = calloc(regions->most, sizeof(struct ad_region *));
    if (!regions->folder || !regions->items) {
        free(regions->folder);
        free(regions->items);
        free(regions);
        return NULL;
    }
    pthread_mutex_init(&regions->lock, NULL);
    return regions;
}

void ad_regions_free(struct ad_regions *regions)
{
    if (!regions) {
        return;
    }
    ad_regions_unregister(regions, NULL);
    pthread_mutex_destroy(&regions->lock);
    free(regions->items);
    free(regions->folder);
    free(regions);
}

void ad_region_release(struct ad_region *region)
{
    if (!region || atomic_fetch_sub(&region->references, 1) > 1) {
        return;
    }
    if (region->fd >= 0) {
        close(region->fd);
    }
    free(region->name);
    free(region->key);
    free(region);
}

/* The place of a name in the list, or the one where it belongs. Under the lock. */
static size_t find(const struct ad_regions *regions, const char *name, bool *found)
{
    size_t low = 0, high = regions->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(regions->items[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < regions->n && strcmp(regions->items[low]->name, name) == 0;
    return low;
}

struct ad_region *ad_regions_acquire(struct ad_regions *regions, const char *name)
{
    bool found;
    pthread_mutex_lock(&regions->lock);
    size_t at = find(regions, name, &found);
    struct ad_region *region = found ? regions->items[at] : NULL;
    if (region) {
        atomic_fetch_add(&region->references, 1);
    }
    pthread_mutex_unlock(&regions->lock);
    return region;
}

enum ad_status ad_regions_list(struct ad_regions *regions, struct ad_region ***list,
                               size_t *n, struct ad_error *error)
{
    *n = 0;
    *list = calloc(regions->most, sizeof(struct ad_region *));
    if (!*list) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    pthread_mutex_lock(&regions->lock);
    for (size_t i = 0; i < regions->n; i++) {
        atomic_fetch_add(&regions->items[i]->references, 1);
        (*list)[i] = regions->items[i];
    }
    *n = regions->n;
    pthread_mutex_unlock(&regions->lock);
    return AD_OK;
}

/* Take one out; NULL: there is none. */
static struct ad_region *take(struct ad_regions *regions, const char *name)
{
    bool found = false;
    pthread_mutex_lock(&regions->lock);
    size_t at = name ? find(regions, name, &found) : 0;
    found = name ? found : regions->n > 0;
    struct ad_region *region = found ? regions->items[at] : NULL;
    if (region) {
        memmove(regions->items + at, regions->items + at + 1,
                (regions->n - at - 1) * sizeof(struct ad_region *));
        regions->n--;
    }
    pthread_mutex_unlock(&regions->lock);
    return region;
}

void ad_regions_unregister(struct ad_regions *regions, const char *name)
{
    struct ad_region *region;
    while ((region = take(regions, name)) != NULL) {
        ad_region_release(region);
    }
}

/* Put a region into the list, which takes its reference. */
static enum ad_status insert(struct ad_regions *regions, struct ad_region *region,
                             struct ad_error *error)
{
    bool found;
    pthread_mutex_lock(&regions->lock);
    size_t at = find(regions, region->name, &found);
    bool full = regions->n == regions->most;
    if (!found && !full) {
        memmove(regions->items + at + 1, regions->items + at,
                (regions->n - at) * sizeof(struct ad_region *));
        regions->items[at] = region;
        regions->n++;
    }
    pthread_mutex_unlock(&regions->lock);
    if (found) {
        return ad_fail(error, AD_INVALID,
                       "shared memory region '%.128s' is registered already; unregister "
                       "it first",
                       region->name);
    }
    return full ? ad_fail(error, AD_INVALID,
                          "no shared memory region more than %zu can be registered",
                          regions->most)
                : AD_OK;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* The file's name in the folder, behind the slash that it may have; NULL: the key is none. */
static const char *object_name(const char *key, struct ad_error *error)
{
    const char *name = key[0] == '/' ? key + 1 : key;
    size_t n = strlen(name);
    if (n == 0 || n > AD_REGION_NAME_BYTES || strchr(name, '/') ||
        strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        ad_fail(error, AD_INVALID,
                "shared memory key '%.128s': expected the name of an object, at most %zu "
                "bytes without a '/' but the first, and not '.' or '..'",
                key, AD_REGION_NAME_BYTES);
        return NULL;
    }
    if (strncmp(name, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0) {
        ad_fail(error, AD_INVALID,
                "shared memory key '%.128s': names that begin with %s are reserved", key,
                RESERVED_PREFIX);
        return NULL;
    }
    return name;
}

static enum ad_status fail_open(const char *key, struct ad_error *error)
{
    return errno == ENOENT
               ? ad_fail(error, AD_INVALID, "there is no shared memory object '%.128s'",
                         key)
               : ad_fail(error, AD_INVALID,
                         "shared memory object '%.128s' cannot be opened to read and "
                         "write: %s",
                         key, strerror(errno));
}

/* Open the object of region->key. Links are not followed, and what is mounted inside of the folder is
 * none of its objects. */
static enum ad_status open_object(const char *folder, struct ad_region *region,
                                  struct ad_error *error)
{
    char path[PATH_MAX];
    struct stat own, about;
    int n = snprintf(path, sizeof path, "%s%s", folder, region->key);
    if (n < 0 || (size_t)n >= sizeof path) {
        return ad_fail(error, AD_INVALID, "shared memory key '%.128s' is too long",
                       region->key);
    }
    region->fd = ad_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (region->fd < 0) {
        return fail_open(region->key, error);
    }
    if (stat(folder, &about) != 0 || fstat(region->fd, &own) != 0 ||
        !S_ISREG(own.st_mode) || own.st_dev != about.st_dev) {
        return ad_fail(error, AD_INVALID, "'%.128s' is no shared memory object",
                       region->key);
    }
    region->device = own.st_dev;
    region->object = own.st_ino;
    return AD_OK;
}

static struct ad_region *create_region(const char *name, const char *object,
                                       uint64_t offset, uint64_t n_bytes)
{
    struct ad_region *region = calloc(1, sizeof *region);
    if (!region) {
        return NULL;
    }
    atomic_init(&region->references, 1);
    region->fd = -1;
    region->offset = offset;
    region->n_bytes = n_bytes;
    region->name = strdup(name);
    if (asprintf(&region->key, "/%s", object) < 0) {
        region->key = NULL;
    }
    if (!region->name || !region->key) {
        ad_region_release(region);
        return NULL;
    }
    return region;
}

static enum ad_status check_place(const char *name, uint64_t offset, uint64_t n_bytes,
                                  struct ad_error *error)
{
    uint64_t end;
    if (name[0] == '\0' || strlen(name) > AD_REGION_NAME_BYTES) {
        return ad_fail(error, AD_INVALID,
                       "the name of a shared memory region has 1 to %zu bytes, got %zu",
                       AD_REGION_NAME_BYTES, strlen(name));
    }
    if (n_bytes == 0 || __builtin_add_overflow(offset, n_bytes, &end) ||
        end > INT64_MAX) {
        return ad_fail(
            error, AD_INVALID,
            "shared memory region '%.128s': expected a byte_size of at least 1 "
            "and offset + byte_size below 2^63, got offset %llu and byte_size "
            "%llu",
            name, (unsigned long long)offset, (unsigned long long)n_bytes);
    }
    return AD_OK;
}

enum ad_status ad_regions_register(struct ad_regions *regions, const char *name,
                                   const char *key, uint64_t offset, uint64_t n_bytes,
                                   struct ad_error *error)
{
    const char *object = object_name(key, error);
    if (!object) {
        return AD_INVALID;
    }
    enum ad_status status = check_place(name, offset, n_bytes, error);
    if (status) {
        return status;
    }
    struct ad_region *region = create_region(name, object, offset, n_bytes);
    if (!region) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    status = open_object(regions->folder, region, error);
    if (!status) {
        char whose[AD_REGION_NAME_BYTES + 32];
        snprintf(whose, sizeof whose, "register '%.128s'", name);
        status = ad_region_check(region, 0, n_bytes, whose, error);
    }
    if (!status) {
        status = insert(regions, region, error);
    }
    if (status) {
        ad_region_release(region);
    }
    return status;
}

/* ---- use ----------------------------------------------------------------------------------- */

static enum ad_status fail_short(const struct ad_region *region, const char *whose,
                                 uint64_t offset, uint64_t n, uint64_t size,
                                 struct ad_error *error)
{
    return ad_fail(
        error, AD_INVALID,
        "%s: the shared memory object '%.128s' has %llu bytes now, too few for "
        "%llu bytes at offset %llu of region '%.128s', which begins at %llu",
        whose, region->key, (unsigned long long)size, (unsigned long long)n,
        (unsigned long long)offset, region->name, (unsigned long long)region->offset);
}

static uint64_t object_size(const struct ad_region *region)
{
    struct stat about;
    return fstat(region->fd, &about) == 0 && about.st_size > 0 ? (uint64_t)about.st_size
                                                               : 0;
}

enum ad_status ad_region_check(const struct ad_region *region, uint64_t offset,
                               uint64_t n, const char *whose, struct ad_error *error)
{
    if (offset > region->n_bytes || n > region->n_bytes - offset) {
        return ad_fail(
            error, AD_INVALID,
            "%s: %llu bytes at offset %llu are not inside shared memory region "
            "'%.128s' of %llu bytes",
            whose, (unsigned long long)n, (unsigned long long)offset, region->name,
            (unsigned long long)region->n_bytes);
    }
    /* inside the region, so that the sum cannot overflow */
    uint64_t end = region->offset + offset + n, size = object_size(region);
    return end <= size ? AD_OK : fail_short(region, whose, offset, n, size, error);
}

static enum ad_status fail_transfer(const struct ad_region *region, const char *whose,
                                    ssize_t done, struct ad_error *error)
{
    return ad_fail(error, AD_INVALID,
                   "%s: the shared memory object '%.128s' of region '%.128s' %s", whose,
                   region->key, region->name,
                   done == 0 ? "was cut short meanwhile" : strerror(errno));
}

enum ad_status ad_region_read(const struct ad_region *region, uint64_t offset,
                              void *bytes, size_t n, const char *whose,
                              struct ad_error *error)
{
    enum ad_status status = ad_region_check(region, offset, n, whose, error);
    char *to = bytes;
    while (!status && n > 0) {
        ssize_t done = pread(region->fd, to, n, (off_t)(region->offset + offset));
        if (done > 0) {
            to += done;
            offset += (uint64_t)done;
            n -= (size_t)done;
        } else if (done == 0 || errno != EINTR) {
            status = fail_transfer(region, whose, done, error);
        }
    }
    return status;
}

enum ad_status ad_region_write(const struct ad_region *region, uint64_t offset,
                               const void *bytes, size_t n, const char *whose,
                               struct ad_error *error)
{
    enum ad_status status = ad_region_check(region, offset, n, whose, error);
    const char *from = bytes;
    while (!status && n > 0) {
        ssize_t done = pwrite(region->fd, from, n, (off_t)(region->offset + offset));
        if (done > 0) {
            from += done;
            offset += (uint64_t)done;
            n -= (size_t)done;
        } else if (done == 0 || errno != EINTR) {
            status = fail_transfer(region, whose, done, error);
        }
    }
    return status;
}
