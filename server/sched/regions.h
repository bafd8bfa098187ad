/* regions.h - shared memory objects of the system that clients have registered for their tensors.
 *
 * An object is used through a file descriptor, never mapped: whoever shares it may cut it short at any
 * moment, which makes a read or write short instead of ending the process. Every place is checked
 * against the object as it is then. A region that is unregistered stays usable for those who hold it.
 * Any thread; one lock, under which nothing waits. */
#ifndef AD_SCHED_REGIONS_H
#define AD_SCHED_REGIONS_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AD_REGIONS_FOLDER "/dev/shm" /* where the system keeps its objects */
#define AD_REGIONS_MOST ((size_t)1024)
#define AD_REGION_NAME_BYTES \
    ((size_t)255) /* the longest name, and key without its slash */

struct ad_regions;

/* Immutable but for its count. */
struct ad_region {
    char *name;
    char *key; /* of the object: "/name" */
    uint64_t offset,
        n_bytes; /* of the region in the object; offset + n_bytes fits an off_t */
    int fd;
    dev_t device; /* with the next: which object it is */
    ino_t object;
    atomic_size_t references;
};

/* An empty registry of at most so many regions as leave the process most of its files. folder:
 * AD_REGIONS_FOLDER, copied. NULL: out of memory. */
struct ad_regions *ad_regions_create(const char *folder) AD_MUST_CHECK;
void ad_regions_free(struct ad_regions *regions); /* NULL is fine; holders keep theirs */

/* Open the object `key`, with or without its leading slash, and register n_bytes of it from offset on as
 * `name`. AD_INVALID: a bad or reserved key, no such object or not one that we may read and write, a
 * place outside of it, a name that is taken, or as many regions as there may be. */
enum ad_status ad_regions_register(struct ad_regions *regions, const char *name,
                                   const char *key, uint64_t offset, uint64_t n_bytes,
                                   struct ad_error *error) AD_MUST_CHECK;

/* Forget the region; NULL: all. Nothing happens where there is none, as clients expect that clean up
 * before they begin. */
void ad_regions_unregister(struct ad_regions *regions, const char *name);

/* A region with a reference, for ad_region_release. NULL: there is none. */
struct ad_region *ad_regions_acquire(struct ad_regions *regions, const char *name);
void ad_region_release(struct ad_region *region); /* NULL is fine */

/* All of them by name, each with a reference, in *list, which is the caller's to free. AD_INTERNAL: out of
 * memory. */
enum ad_status ad_regions_list(struct ad_regions *regions, struct ad_region ***list,
                               size_t *n, struct ad_error *error) AD_MUST_CHECK;

/* Are there n bytes from `offset` of the region on, in the region and in the object as it is now?
 * AD_INVALID begins with `whose`, "input 'x'". */
enum ad_status ad_region_check(const struct ad_region *region, uint64_t offset,
                               uint64_t n, const char *whose,
                               struct ad_error *error) AD_MUST_CHECK;

/* The same, and copy them: AD_INVALID also when the object was cut short meanwhile. A write does not
 * make an object larger, unless it shrinks at the same time. */
enum ad_status ad_region_read(const struct ad_region *region, uint64_t offset,
                              void *bytes, size_t n, const char *whose,
                              struct ad_error *error) AD_MUST_CHECK;
enum ad_status ad_region_write(const struct ad_region *region, uint64_t offset,
                               const void *bytes, size_t n, const char *whose,
                               struct ad_error *error) AD_MUST_CHECK;

#endif
