/* memory_limit.c - how much memory this process may really use, and what that means for the options.
 * Called by main at start. */
#include "base/memory_limit.h"
#include "base/cgroup.h"

#include <stdint.h>
#include <unistd.h>

#define USUAL_OUTPUT ((uint64_t)256 << 20)
#define USUAL_QUEUE ((uint64_t)512 << 20)
#define USUAL_SEQUENCES ((uint64_t)1 << 30)
#define LEAST ((uint64_t)1 << 20)
#define SHARES 4

static size_t read_bytes(const char *folder, const char *name)
{
    char line[64];
    uint64_t bytes;
    const char *text = line;
    return ad_cgroup_read(folder, name, line, sizeof line) &&
                   ad_cgroup_number(&text, &bytes) && *text == '\0' && bytes < SIZE_MAX
               ? (size_t)bytes
               : SIZE_MAX;
}

static size_t limit_v1(const char *folder)
{
    return read_bytes(folder, "memory.limit_in_bytes");
}

static size_t limit_v2(const char *folder)
{
    return read_bytes(folder, "memory.max");
}

static size_t machine_memory(void)
{
    long n_pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    size_t bytes;
    return n_pages > 0 && page_size > 0 &&
                   !__builtin_mul_overflow((size_t)n_pages, (size_t)page_size, &bytes)
               ? bytes
               : SIZE_MAX;
}

size_t ad_memory_limit(const char *proc_root, const char *cgroup_root)
{
    static const char *const mounts[] = {"/memory", NULL};
    static const struct ad_cgroup_limit limit = {"memory", mounts, limit_v1, limit_v2};
    size_t group = ad_cgroup_smallest(&limit, proc_root, cgroup_root);
    size_t machine = machine_memory();
    return group < machine ? group : machine;
}

static void share(uint64_t *option, uint64_t usual, size_t memory)
{
    uint64_t most = memory / SHARES > LEAST ? memory / SHARES : LEAST;
    if (*option == 0) {
        *option = usual < most ? usual : most;
    }
}

void ad_memory_share(struct ad_options *options, size_t memory)
{
    share(&options->http_max_output_size, USUAL_OUTPUT, memory);
    share(&options->queue_memory, USUAL_QUEUE, memory);
    share(&options->sequence_memory, USUAL_SEQUENCES, memory);
}
