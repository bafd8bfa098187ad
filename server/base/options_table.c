/* options_table.c - how a row of the options is found and named. Pure functions; any thread. */
#include "base/options_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LONGEST_NAME 40

/* A character of an option's name in the environment. */
static char to_environment(char c)
{
    return c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char from_environment(char c)
{
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_named(const struct ad_option *option, const char *name, size_t n,
                     enum ad_option_source source)
{
    if (strlen(option->name) != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = option->name[i];
        if (name[i] != (source == AD_FROM_ENVIRONMENT ? to_environment(c) : c)) {
            return false;
        }
    }
    return true;
}

const struct ad_option *ad_option_find(const char *name, size_t n,
                                       enum ad_option_source source)
{
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        if (is_named(&ad_option_table[i], name, n, source)) {
            return &ad_option_table[i];
        }
    }
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters have to be changed, added or left out to make b of a; case does not count, and
 * an underscore is a dash. n, the length of a, is at most LONGEST_NAME. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t row[LONGEST_NAME + 1]; /* row[i]: from the first i letters of a */
    for (size_t i = 0; i <= n; i++) {
        row[i] = i;
    }
    for (size_t j = 0; b[j]; j++) {
        size_t diagonal = row[0];
        row[0] = j + 1;
        for (size_t i = 0; i < n; i++) {
            size_t replaced = diagonal + (from_environment(a[i]) != b[j]);
            diagonal = row[i + 1];
            row[i + 1] = least(replaced, 1 + least(row[i], diagonal));
        }
    }
    return row[n];
}

const struct ad_option *ad_option_nearest(const char *name, size_t n,
                                          enum ad_option_source source)
{
    if (n > LONGEST_NAME) {
        return NULL;
    }
    const struct ad_option *nearest = NULL;
    size_t best = n / 3 + 1; /* further away, it is another word */
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        const struct ad_option *option = &ad_option_table[i];
        if (source < option->lowest) {
            continue;
        }
        size_t found = distance(name, n, option->name);
        if (found < best) {
            best = found;
            nearest = option;
        }
    }
    return nearest;
}

void ad_option_spell(const struct ad_option *option, enum ad_option_source source,
                     char text[AD_OPTION_TEXT_SIZE])
{
    const char *prefix = source == AD_FROM_ENVIRONMENT ? AD_ENVIRONMENT_PREFIX
                         : source == AD_FROM_ARGUMENT  ? "--"
                                                       : "";
    snprintf(text, AD_OPTION_TEXT_SIZE, "%s%s", prefix, option->name);
    if (source == AD_FROM_ENVIRONMENT) {
        for (char *c = text; *c; c++) {
            *c = to_environment(*c);
        }
    }
}

void ad_option_list_words(const char *const *words, char text[AD_OPTION_TEXT_SIZE])
{
    text[0] = '\0';
    for (size_t i = 0; words[i]; i++) {
        size_t n = strlen(text);
        const char *joint = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        snprintf(text + n, AD_OPTION_TEXT_SIZE - n, "%s%s", joint, words[i]);
    }
}

void ad_option_expected(const struct ad_option *option, char text[AD_OPTION_TEXT_SIZE])
{
    switch (option->type) {
    case AD_OPTION_ACTION:
        snprintf(text, AD_OPTION_TEXT_SIZE, "no value");
        return;
    case AD_OPTION_BOOL:
        snprintf(text, AD_OPTION_TEXT_SIZE, "true or false");
        return;
    case AD_OPTION_NUMBER:
        snprintf(text, AD_OPTION_TEXT_SIZE, "an integer %" PRIu64 "..%" PRIu64 "%s%s",
                 option->min, option->max, option->unit ? " of " : "",
                 option->unit ? option->unit : "");
        return;
    case AD_OPTION_TEXT:
        snprintf(text, AD_OPTION_TEXT_SIZE, "a text that is not empty");
        return;
    case AD_OPTION_WORD:
        ad_option_list_words(option->words, text);
        return;
    }
}

int ad_option_word_index(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            return i;
        }
    }
    return -1;
}
