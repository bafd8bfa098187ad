/* process.c - what the system says of our own process: /proc/self and a few calls. Any thread. */
#include "http/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define MS_PER_S UINT64_C(1000)

/* The beginning of a file as text; "" when it cannot be read. */
static void read_text(const char *proc, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    ssize_t n = -1;
    snprintf(path, sizeof path, "%s/%s", proc, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, size - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
}

/* The number that the n-th word from text on holds. */
static uint64_t word_at(const char *text, size_t n)
{
    for (; n > 0; n--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return strtoull(text, NULL, 10);
}

static uint64_t count_fds(const char *proc)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/self/fd", proc);
    DIR *folder = opendir(path);
    if (!folder) {
        return 0;
    }
    uint64_t n = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        n += entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(folder);
    }
    closedir(folder);
    return n;
}

/* When the system started, in seconds since 1970. The line stands behind one for each processor, so
 * the file is read line by line. */
static uint64_t boot_time(const char *proc)
{
    char path[PATH_MAX], line[256];
    uint64_t seconds = 0;
    snprintf(path, sizeof path, "%s/stat", proc);
    FILE *file = fopen(path, "re");
    while (file && seconds == 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, "btime ", 6) == 0) {
            seconds = strtoull(line + 6, NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return seconds;
}

static uint64_t positive(long number)
{
    return number > 0 ? (uint64_t)number : 1;
}

void ad_process_read(const char *proc, struct ad_process *process)
{
    char text[1024];
    struct timespec cpu = {0};
    struct rlimit limit = {0};
    *process = (struct ad_process){0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    process->cpu_ns = (uint64_t)cpu.tv_sec * NS_PER_S + (uint64_t)cpu.tv_nsec;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        process->max_fds = limit.rlim_cur;
    }
    process->n_fds = count_fds(proc);
    read_text(proc, "self/stat", text, sizeof text);
    /* the name, in brackets, may hold anything; the third field is behind the last bracket */
    const char *rest = strrchr(text, ')');
    uint64_t booted = boot_time(proc);
    if (rest && rest[1] == ' ') {
        uint64_t ticks = word_at(rest + 2, 22 - 3);
        process->virtual_bytes = word_at(rest + 2, 23 - 3);
        process->resident_bytes =
            word_at(rest + 2, 24 - 3) * positive(sysconf(_SC_PAGESIZE));
        if (booted > 0) {
            process->start_ms =
                booted * MS_PER_S + ticks * MS_PER_S / positive(sysconf(_SC_CLK_TCK));
        }
    }
}
