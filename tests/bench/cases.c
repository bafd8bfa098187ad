/* cases.c - reads cases.txt; what follows from a case. One thread. */
#include "bench/cases.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

/* The index of a word in a list that NULL ends. */
static int word_index(const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    die("cases: unknown word '%s'", word);
}

static bool read_line(const char *line, struct bench_case *c)
{
    static const char *const modes[] = {"self", "cross", "given", "core", NULL};
    static const char *const masks[] = {"none", "key", "causal", NULL};
    char mode[16], mask[16];
    int n = sscanf(line, "%31s %31s %zu %zu %zu %zu %zu %15s %15s", c->id, c->layer,
                   &c->n_batch, &c->n_queries, &c->n_keys, &c->width, &c->n_heads, mode,
                   mask);
    if (n < 1 || c->id[0] == '#') {
        return false;
    }
    if (n != 9 || c->n_heads == 0 || c->width % c->n_heads != 0) {
        die("cases: cannot read the line of '%s'", c->id);
    }
    c->mode = (enum mode)word_index(mode, modes);
    c->mask = (enum mask)word_index(mask, masks);
    return true;
}

bool case_find(const char *path, const char *id, struct bench_case *found)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        die("cannot read '%s'", path);
    }
    char line[256];
    bool good = false;
    while (!good && fgets(line, sizeof line, file)) {
        good = read_line(line, found) && strcmp(found->id, id) == 0;
    }
    fclose(file);
    return good;
}

bool case_projects_query(const struct bench_case *c)
{
    return c->mode != MODE_CORE;
}

bool case_projects_memory(const struct bench_case *c)
{
    return c->mode == MODE_SELF || c->mode == MODE_CROSS;
}

bool case_projects_output(const struct bench_case *c)
{
    if (strcmp(c->layer, "relational_mha") == 0) {
        return true;
    }
    return c->mode != MODE_CORE && strcmp(c->layer, "causal_mha") != 0;
}
