/* test_regions.c - which objects and places can be registered, and what becomes of those in use when their
 * object or registration changes. */
#include "sched/regions.h"
#include "unit/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 4096

static char folder[64];
static struct ad_regions *regions;

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static void write_object(const char *name, size_t n)
{
    char path[512];
    path_of(name, path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)n), 0);
    close(fd);
}

static void cut_object(const char *name, size_t n)
{
    char path[512];
    path_of(name, path);
    ck_assert_int_eq(truncate(path, (off_t)n), 0);
}

static void remove_object(const char *name)
{
    char path[512];
    path_of(name, path);
    ck_assert_int_eq(remove(path), 0);
}

static void setup(void)
{
    strcpy(folder, "/tmp/attentiond-regions.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    regions = ad_regions_create(folder);
    ck_assert_ptr_nonnull(regions);
    write_object("object", SIZE);
}

static void teardown(void)
{
    ad_regions_free(regions);
    remove_object("object");
    ck_assert_int_eq(rmdir(folder), 0);
}

static void register_good(const char *name, uint64_t offset, uint64_t n)
{
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_regions_register(regions, name, "/object", offset, n, &error) ==
                      AD_OK,
                  "%s", error.message);
}

static size_t count(void)
{
    struct ad_region **list;
    size_t n;
    ck_assert_int_eq(ad_regions_list(regions, &list, &n, NULL), AD_OK);
    for (size_t i = 0; i < n; i++) {
        ck_assert(i == 0 || strcmp(list[i - 1]->name, list[i]->name) < 0);
        ad_region_release(list[i]);
    }
    free(list);
    return n;
}

/* ---- registering ----------------------------------------------------------------------------- */

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define LONGEST FIFTY FIFTY FIFTY FIFTY FIFTY "12345"

static const struct {
    const char *name, *key;
    uint64_t offset, n_bytes;
    const char *message;
} bad[] = {
    {"r", "", 0, 1, "expected the name of an object"},
    {"r", "/", 0, 1, "expected the name of an object"},
    {"r", "//object", 0, 1, "expected the name of an object"},
    {"r", "/a/object", 0, 1, "expected the name of an object"},
    {"r", "object/", 0, 1, "expected the name of an object"},
    {"r", "/..", 0, 1, "expected the name of an object"},
    {"r", "..", 0, 1, "expected the name of an object"},
    {"r", ".", 0, 1, "expected the name of an object"},
    {"r", "/../object", 0, 1, "expected the name of an object"},
    {"r", "/" LONGEST "6", 0, 1, "expected the name of an object"},
    {"r", "triton_python_backend_shm_region_1", 0, 1, "reserved"},
    {"r", "/triton_python_backend_shm_region_", 0, 1, "reserved"},
    {"r", "//triton_python_backend_shm_region_1", 0, 1, "expected the name"},
    {"r", "/" LONGEST, 0, 1, "there is no shared memory object"},
    {"r", "/nothing", 0, 1, "there is no shared memory object '/nothing'"},
    {"r", "/link", 0, 1, "cannot be opened"},
    {"r", "/folder", 0, 1, "cannot be opened"},
    {"r", "/fifo", 0, 1, "is no shared memory object"},
    {"r", "/object", 0, 0, "byte_size of at least 1"},
    {"r", "/object", 0, SIZE + 1, "has 4096 bytes now"},
    {"r", "/object", SIZE, 1, "has 4096 bytes now"},
    {"r", "/object", 1, SIZE, "has 4096 bytes now"},
    {"r", "/object", UINT64_MAX, 1, "below 2^63"},
    {"r", "/object", 1, UINT64_MAX, "below 2^63"},
    {"r", "/object", INT64_MAX, 1, "below 2^63"},
    {"r", "/object", (uint64_t)INT64_MAX - 1, 1, "has 4096 bytes now"},
    {"", "/object", 0, 1, "has 1 to 255 bytes"},
    {LONGEST "6", "/object", 0, 1, "has 1 to 255 bytes"},
    {"taken", "/object", 0, 1, "registered already; unregister it first"},
};

START_TEST(what_is_refused)
{
    char path[512], target[512];
    path_of("object", target);
    path_of("link", path);
    ck_assert_int_eq(symlink(target, path), 0);
    path_of("folder", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    path_of("fifo", path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    register_good("taken", 0, SIZE);
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_regions_register(regions, bad[_i].name, bad[_i].key,
                                         bad[_i].offset, bad[_i].n_bytes, &error),
                     AD_INVALID);
    ck_assert_msg(strstr(error.message, bad[_i].message) != NULL, "%s", error.message);
    ck_assert_uint_eq(count(), 1);
    remove_object("link");
    remove_object("folder");
    remove_object("fifo");
}
END_TEST

START_TEST(keys_with_and_without_a_slash)
{
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_regions_register(regions, "a", "object", 5, 7, &error), AD_OK);
    struct ad_region *region = ad_regions_acquire(regions, "a");
    ck_assert_ptr_nonnull(region);
    ck_assert_str_eq(region->key, "/object");
    ck_assert_uint_eq(region->offset, 5);
    ck_assert_uint_eq(region->n_bytes, 7);
    ad_region_release(region);
    ad_region_release(NULL);
    ck_assert_ptr_null(ad_regions_acquire(regions, "b"));
}
END_TEST

START_TEST(unregistering)
{
    ad_regions_unregister(regions, "nothing");
    ad_regions_unregister(regions, NULL);
    static const char *const names[] = {"c", "a", "d", "b"};
    for (size_t i = 0; i < 4; i++) {
        register_good(names[i], i, 8);
    }
    ck_assert_uint_eq(count(), 4);
    ad_regions_unregister(regions, "b");
    ad_regions_unregister(regions, "b");
    ck_assert_uint_eq(count(), 3);
    ck_assert_ptr_null(ad_regions_acquire(regions, "b"));
    register_good("b", 0, 8);
    ad_regions_unregister(regions, NULL);
    ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(as_many_as_there_may_be)
{
    struct ad_error error = {.status = AD_OK};
    char name[32];
    size_t n = 0;
    while (n <= AD_REGIONS_MOST) {
        snprintf(name, sizeof name, "%zu", n);
        if (ad_regions_register(regions, name, "object", 0, 1, &error) != AD_OK) {
            break;
        }
        n++;
    }
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(n == AD_REGIONS_MOST || n == limit.rlim_cur / 4);
    ck_assert(strstr(error.message, "can be registered") != NULL);
    ad_regions_unregister(regions, "0");
    ck_assert_int_eq(ad_regions_register(regions, "0", "object", 0, 1, NULL), AD_OK);
}
END_TEST

/* ---- using ----------------------------------------------------------------------------------- */

START_TEST(reading_and_writing)
{
    register_good("all", 0, SIZE);
    register_good("part", 100, 50);
    struct ad_region *all = ad_regions_acquire(regions, "all");
    struct ad_region *part = ad_regions_acquire(regions, "part");
    char bytes[SIZE] = "";
    /* the offset counts from where the region begins, once */
    ck_assert_int_eq(ad_region_write(part, 10, "hello", 5, "output 'x'", NULL), AD_OK);
    ck_assert_int_eq(ad_region_read(all, 0, bytes, SIZE, "input 'x'", NULL), AD_OK);
    ck_assert_int_eq(memcmp(bytes + 110, "hello", 5), 0);
    ck_assert_int_eq(ad_region_read(part, 50, bytes, 0, "input 'x'", NULL), AD_OK);
    static const struct {
        uint64_t offset, n;
    } outside[] = {{0, 51},         {50, 1},         {51, 0},
                   {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX - 99, 100},
                   {INT64_MAX, 1},  {1, INT64_MAX},  {(uint64_t)INT64_MAX + 1, 0}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        struct ad_error error = {.status = AD_OK};
        ck_assert_int_eq(
            ad_region_check(part, outside[i].offset, outside[i].n, "input 'x'", &error),
            AD_INVALID);
        ck_assert_msg(strncmp(error.message, "input 'x': ", 11) == 0 &&
                          strstr(error.message, "not inside shared memory region 'part'"),
                      "%s", error.message);
    }
    ad_region_release(all);
    ad_region_release(part);
}
END_TEST

START_TEST(an_object_that_is_cut_short)
{
    register_good("r", 1000, 1000);
    struct ad_region *region = ad_regions_acquire(regions, "r");
    char bytes[1000] = "";
    struct stat about;
    char path[512];
    path_of("object", path);
    for (size_t size = 1999; size<SIZE; size = size> 333 ? size - 333 : SIZE) {
        struct ad_error error = {.status = AD_OK};
        cut_object("object", size);
        ck_assert_int_eq(ad_region_read(region, 0, bytes, 1000, "input 'x'", &error),
                         AD_INVALID);
        ck_assert_msg(strstr(error.message, "bytes now") != NULL, "%s", error.message);
        ck_assert_int_eq(ad_region_write(region, 0, bytes, 1000, "output 'x'", NULL),
                         AD_INVALID);
        ck_assert_int_eq(stat(path, &about), 0);
        ck_assert_int_eq((int)about.st_size, (int)size);
    }
    cut_object("object", SIZE);
    ck_assert_int_eq(ad_region_read(region, 0, bytes, 1000, "input 'x'", NULL), AD_OK);
    ad_region_release(region);
}
END_TEST

START_TEST(a_region_in_use_outlives_its_registration)
{
    register_good("r", 0, SIZE);
    struct ad_region *region = ad_regions_acquire(regions, "r");
    ad_regions_unregister(regions, "r");
    remove_object("object");
    ck_assert_int_eq(ad_region_write(region, 0, "x", 1, "output 'x'", NULL), AD_OK);
    write_object("object", 10);
    register_good("r", 0, 10); /* another object of the same name */
    struct ad_region *other = ad_regions_acquire(regions, "r");
    ck_assert(other->object != region->object);
    ad_regions_free(regions);
    regions = NULL;
    char byte = 0;
    ck_assert_int_eq(ad_region_read(region, 0, &byte, 1, "input 'x'", NULL), AD_OK);
    ck_assert_int_eq(byte, 'x');
    ad_region_release(region);
    ad_region_release(other);
}
END_TEST

/* ---- many threads ---------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_ROUNDS 2000

static void *use(void *argument)
{
    const size_t number = *(const size_t *)argument;
    char name[16], bytes[64] = "";
    for (size_t i = 0; i < N_ROUNDS; i++) {
        snprintf(name, sizeof name, "%zu", (i + number) % 3);
        struct ad_region *region = ad_regions_acquire(regions, name);
        enum ad_status status = AD_OK;
        if (!region) {
            status = ad_regions_register(regions, name, "object", 0, 64, NULL);
        } else if (i % 5 == 0) {
            ad_regions_unregister(regions, i % 50 == 0 ? NULL : name);
        }
        if (region) {
            status = ad_region_read(region, 0, bytes, sizeof bytes, "input 'x'", NULL);
        }
        if (status != AD_OK && status != AD_INVALID) {
            abort();
        }
        if (number == 0 && i % 7 == 0) {
            cut_object("object", i % 2 == 0 ? 32 : SIZE);
        }
        ad_region_release(region);
    }
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t threads[N_THREADS];
    size_t numbers[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, &numbers[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_le(count(), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("regions");
    TCase *tcase = tcase_create("regions");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_is_refused, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(tcase, keys_with_and_without_a_slash);
    tcase_add_test(tcase, unregistering);
    tcase_add_test(tcase, as_many_as_there_may_be);
    tcase_add_test(tcase, reading_and_writing);
    tcase_add_test(tcase, an_object_that_is_cut_short);
    tcase_add_test(tcase, a_region_in_use_outlives_its_registration);
    tcase_add_test(tcase, many_threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
