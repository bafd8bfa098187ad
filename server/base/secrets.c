/* secrets.c - what keeps the secrets of a process in it. Called by main, once. */
#include "base/secrets.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* jansson has copies of all strings of a file, in values and in what it reads them with. */
static void wipe_and_free(void *memory)
{
    explicit_bzero(memory, malloc_usable_size(memory));
    free(memory);
}

void ad_secrets_guard(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    /* also against dumps that are piped to a program, which that limit is not about */
    (void)prctl(PR_SET_DUMPABLE, 0);
    json_malloc_t allocate = NULL;
    json_get_alloc_funcs(&allocate, NULL);
    json_set_alloc_funcs(allocate, wipe_and_free);
}
