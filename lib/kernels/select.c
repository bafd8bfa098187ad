/* select.c - choose the table of kernels once. Any thread. */
#include "kernels.h"

#include "attention.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    const struct attni_kernels *table;
    bool runs; /* on this processor */
};

static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;
static const struct attni_kernels *chosen;

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct attni_kernels *attni_kernels_at(size_t index)
{
    const struct candidate candidates[] = {
        {&attni_kernels_ref, true},
#if defined(__x86_64__)
        {&attni_kernels_avx2, has_avx2()},
        {&attni_kernels_avx512, has_avx512()},
        {&attni_kernels_avx512_bf16,
         has_avx512() && __builtin_cpu_supports("avx512bf16")},
#endif
#if defined(__aarch64__)
        {&attni_kernels_neon, true},
#endif
    };
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i].runs && index-- == 0) {
            return candidates[i].table;
        }
    }
    return NULL;
}

/* The best table that runs here, or the one that ATTN_ISA names if that runs here. */
static void choose(void)
{
    const char *wanted = getenv("ATTN_ISA");
    const struct attni_kernels *table;
    for (size_t i = 0; (table = attni_kernels_at(i)); i++) {
        chosen = table;
        if (wanted && strcmp(wanted, table->name) == 0) {
            return;
        }
    }
}

const struct attni_kernels *attni_kernels(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}

const char *attn_kernels_name(void)
{
    return attni_kernels()->name;
}
