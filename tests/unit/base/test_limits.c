/* test_limits.c - processors and memory that may be used, with /proc and /sys/fs/cgroup made up. */
#include "base/cpus.h"
#include "base/memory_limit.h"
#include "unit/support.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_FILES 6

struct file {
    const char *path; /* below the scratch folder */
    const char *text;
};

struct scene {
    const char *what;
    struct file files[MOST_FILES];
    size_t limit; /* 0: none */
};

static const struct scene scenes[] = {
    {"nothing at all", {{0}}, 0},
    {"no quota files", {{"proc/self/cgroup", "0::/\n"}}, 0},
    {"v2 in a container",
     {{"proc/self/cgroup", "0::/\n"}, {"cgroup/cpu.max", "200000 100000\n"}},
     2},
    {"v2 rounds up",
     {{"proc/self/cgroup", "0::/\n"}, {"cgroup/cpu.max", "200001 100000\n"}},
     3},
    {"v2 below one",
     {{"proc/self/cgroup", "0::/\n"}, {"cgroup/cpu.max", "1000 100000\n"}},
     1},
    {"v2 max", {{"proc/self/cgroup", "0::/\n"}, {"cgroup/cpu.max", "max 100000\n"}}, 0},
    {"v2 own group",
     {{"proc/self/cgroup", "0::/a.slice/b.service\n"},
      {"cgroup/a.slice/b.service/cpu.max", "300000 100000"},
      {"cgroup/a.slice/cpu.max", "max 100000"}},
     3},
    {"v2 parent is stricter",
     {{"proc/self/cgroup", "0::/a.slice/b.service\n"},
      {"cgroup/a.slice/b.service/cpu.max", "800000 100000"},
      {"cgroup/a.slice/cpu.max", "100000 50000"}},
     2},
    {"v2 own group is stricter",
     {{"proc/self/cgroup", "0::/a.slice/b.service\n"},
      {"cgroup/a.slice/b.service/cpu.max", "100000 100000"},
      {"cgroup/a.slice/cpu.max", "800000 100000"}},
     1},
    {"v2 path of the host",
     {{"proc/self/cgroup", "0::/docker/0123\n"}, {"cgroup/cpu.max", "400000 100000\n"}},
     4},
    {"v2 outside of the namespace",
     {{"proc/self/cgroup", "0::/../../x\n"}, {"cgroup/cpu.max", "400000 100000\n"}},
     4},
    {"a name with dots is no step up",
     {{"proc/self/cgroup", "0::/..a\n"}, {"cgroup/..a/cpu.max", "500000 100000\n"}},
     5},
    {"v2 beside v1",
     {{"proc/self/cgroup", "1:cpuset:/\n0::/x\n"},
      {"cgroup/unified/x/cpu.max", "700000 100000\n"}},
     7},
    {"v1 cpu",
     {{"proc/self/cgroup", "3:memory:/m\n1:cpu:/c\n"},
      {"cgroup/cpu/c/cpu.cfs_quota_us", "250000\n"},
      {"cgroup/cpu/c/cpu.cfs_period_us", "100000\n"}},
     3},
    {"v1 cpu,cpuacct",
     {{"proc/self/cgroup", "4:cpuacct,cpu:/\n"},
      {"cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
      {"cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"}},
     4},
    {"v1 without a quota",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/\n"},
      {"cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"}},
     0},
    {"v1 parent",
     {{"proc/self/cgroup", "4:cpu:/a/b\n"},
      {"cgroup/cpu/a/cpu.cfs_quota_us", "90000\n"},
      {"cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
      {"cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n"},
      {"cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n"}},
     1},
    {"v1 quota without its period",
     {{"proc/self/cgroup", "4:cpu:/\n"}, {"cgroup/cpu/cpu.cfs_quota_us", "90000\n"}},
     0},
    {"cpuset and cpuacct are not cpu",
     {{"proc/self/cgroup", "4:cpuset,cpuacct:/\n"},
      {"cgroup/cpu/cpu.cfs_quota_us", "90000\n"},
      {"cgroup/cpu/cpu.cfs_period_us", "90000\n"}},
     0},
    {"nonsense",
     {{"proc/self/cgroup", "\n::\n0:\n0::\n0::relative\n:::::/\ngarbage\n0::/"},
      {"cgroup/cpu.max", "12 zwei\n"},
      {"cgroup/unified/cpu.max", "-3 -4\n"}},
     0},
    {"zero", {{"proc/self/cgroup", "0::/"}, {"cgroup/cpu.max", "0 0\n"}}, 0},
    {"overflow",
     {{"proc/self/cgroup", "0::/"},
      {"cgroup/cpu.max", "99999999999999999999999999 100000\n"}},
     0},
    {"largest",
     {{"proc/self/cgroup", "0::/"}, {"cgroup/cpu.max", "18446744073709551615 1\n"}},
     0},
    {"empty files", {{"proc/self/cgroup", "0::/"}, {"cgroup/cpu.max", ""}}, 0},
};

static const struct scene memory_scenes[] = {
    {"nothing at all", {{0}}, 0},
    {"v2 in a container",
     {{"proc/self/cgroup", "0::/\n"}, {"cgroup/memory.max", "67108864\n"}},
     67108864},
    {"v2 max", {{"proc/self/cgroup", "0::/\n"}, {"cgroup/memory.max", "max\n"}}, 0},
    {"v2 parent is stricter",
     {{"proc/self/cgroup", "0::/a.slice/b.service\n"},
      {"cgroup/a.slice/b.service/memory.max", "2097152\n"},
      {"cgroup/a.slice/memory.max", "1048576\n"}},
     1048576},
    {"v1",
     {{"proc/self/cgroup", "9:memory:/c\n4:cpu,cpuacct:/\n"},
      {"cgroup/memory/c/memory.limit_in_bytes", "268435456\n"}},
     268435456},
    {"v1 path of the host",
     {{"proc/self/cgroup", "9:memory:/docker/0123\n"},
      {"cgroup/memory/memory.limit_in_bytes", "268435456\n"}},
     268435456},
    {"v1 without a limit",
     {{"proc/self/cgroup", "9:memory:/\n"},
      {"cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     0},
    {"another controller",
     {{"proc/self/cgroup", "9:hugetlb:/\n"},
      {"cgroup/memory/memory.limit_in_bytes", "1048576\n"}},
     0},
    {"nonsense", {{"proc/self/cgroup", "0::/\n"}, {"cgroup/memory.max", "1 GB\n-3"}}, 0},
    {"overflow",
     {{"proc/self/cgroup", "0::/\n"},
      {"cgroup/memory.max", "99999999999999999999999999\n"}},
     0},
};

static char scratch[64];

static void set_up(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/attentiond-limits-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const struct file *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", scratch, file->path);
    for (char *slash = path + strlen(scratch) + 1; (slash = strchr(slash, '/'));
         slash++) {
        *slash = '\0';
        ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    fputs(file->text, stream);
    fclose(stream);
}

static void roots(char proc_root[PATH_MAX], char cgroup_root[PATH_MAX])
{
    snprintf(proc_root, PATH_MAX, "%s/proc", scratch);
    snprintf(cgroup_root, PATH_MAX, "%s/cgroup", scratch);
}

/* Leave one processor of those that this process may use. */
static size_t narrow_affinity(void)
{
    cpu_set_t set, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set)) {
            CPU_SET(i, &one);
            break;
        }
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    return (size_t)CPU_COUNT(&set);
}

START_TEST(test_scene)
{
    const struct scene *scene = &scenes[_i];
    for (size_t i = 0; i < MOST_FILES && scene->files[i].path; i++) {
        write_file(&scene->files[i]);
    }
    char proc_root[PATH_MAX], cgroup_root[PATH_MAX];
    roots(proc_root, cgroup_root);
    size_t expected = scene->limit ? scene->limit : SIZE_MAX;
    size_t quota = ad_cpus_quota(proc_root, cgroup_root);
    ck_assert_msg(quota == expected, "%s: %zu", scene->what, quota);
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    size_t affinity = (size_t)CPU_COUNT(&set);
    ck_assert_uint_eq(ad_cpus_available(proc_root, cgroup_root),
                      affinity < expected ? affinity : expected);
}
END_TEST

START_TEST(test_memory_scene)
{
    const struct scene *scene = &memory_scenes[_i];
    for (size_t i = 0; i < MOST_FILES && scene->files[i].path; i++) {
        write_file(&scene->files[i]);
    }
    char proc_root[PATH_MAX], cgroup_root[PATH_MAX];
    roots(proc_root, cgroup_root);
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t limit = ad_memory_limit(proc_root, cgroup_root);
    size_t expected = scene->limit ? scene->limit : machine;
    ck_assert_msg(limit == expected, "%s: %zu", scene->what, limit);
}
END_TEST

/* What was asked for stays; what was not is as usual, but a quarter at the most. */
START_TEST(test_share)
{
    struct ad_options options = {.queue_memory = 12345};
    ad_memory_share(&options, (size_t)256 << 20);
    ck_assert_uint_eq(options.queue_memory, 12345);
    ck_assert_uint_eq(options.sequence_memory, 64 << 20);
    ck_assert_uint_eq(options.http_max_output_size, 64 << 20);
    options = (struct ad_options){.queue_memory = 0};
    ad_memory_share(&options, SIZE_MAX);
    ck_assert_uint_eq(options.queue_memory, 512 << 20);
    ck_assert_uint_eq(options.sequence_memory, 1 << 30);
    ck_assert_uint_eq(options.http_max_output_size, 256 << 20);
    options = (struct ad_options){.queue_memory = 0};
    ad_memory_share(&options, 0);
    ck_assert_uint_eq(options.queue_memory, 1 << 20);
}
END_TEST

START_TEST(test_long_paths)
{
    char line[3 * PATH_MAX];
    snprintf(line, sizeof line, "0::/");
    memset(line + 4, 'a', sizeof line - 5);
    line[sizeof line - 1] = '\0';
    for (size_t i = 100; i < sizeof line - 1; i += 100) {
        line[i] = '/';
    }
    write_file(&(struct file){"proc/self/cgroup", line});
    write_file(&(struct file){"cgroup/cpu.max", "100000 100000\n"});
    char proc_root[PATH_MAX], cgroup_root[PATH_MAX];
    roots(proc_root, cgroup_root);
    ck_assert_uint_eq(ad_cpus_quota(proc_root, cgroup_root), 1);
    ck_assert_uint_eq(ad_cpus_quota(line, line), SIZE_MAX);
}
END_TEST

START_TEST(test_affinity)
{
    narrow_affinity();
    ck_assert_uint_eq(ad_cpus_available("/nonexistent", "/nonexistent"), 1);
}
END_TEST

START_TEST(test_this_machine)
{
    size_t n = ad_cpus_available("/proc", "/sys/fs/cgroup");
    size_t affinity = narrow_affinity();
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(n, affinity);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("limits");
    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_scene, 0, (int)(sizeof scenes / sizeof scenes[0]));
    tcase_add_loop_test(tests, test_memory_scene, 0,
                        (int)(sizeof memory_scenes / sizeof memory_scenes[0]));
    tcase_add_test(tests, test_share);
    tcase_add_test(tests, test_long_paths);
    tcase_add_test(tests, test_affinity);
    tcase_add_test(tests, test_this_machine);
    return support_run(suite);
}
