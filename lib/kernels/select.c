/* select.c - choose the table of kernels once. Any thread. */
#include "kernels.h"

#include "attention.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Best last. A table that this processor cannot run must not be listed by the build for it. */
static const struct attni_kernels *const tables[] = {&attni_kernels_ref};

static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;
static const struct attni_kernels *chosen;

static void choose(void)
{
    const char *wanted = getenv("ATTN_ISA");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        chosen = tables[i];
        if (wanted && strcmp(wanted, tables[i]->name) == 0) {
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
