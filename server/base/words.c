/* words.c - split a text at its commas. One block holds the pointers and, behind them, the letters.
 * No state; any thread. */
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

#define SPACES " \t"

/* The word at text, up to a comma or the end, without the spaces around it. */
static size_t trim(const char **text)
{
    *text += strspn(*text, SPACES);
    size_t n = strcspn(*text, ",");
    while (n > 0 && strchr(SPACES, (*text)[n - 1])) {
        n--;
    }
    return n;
}

static size_t count_commas(const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        n += *text == ',';
    }
    return n;
}

bool ad_words_split(const char *text, struct ad_words *words)
{
    *words = (struct ad_words){NULL, 0};
    if (!text) {
        return true;
    }
    const size_t n_most = count_commas(text) + 1;
    size_t n_pointers = 0;
    size_t n_bytes = 0;
    /* every word's NUL has the place of a comma, or of the text's own */
    if (__builtin_mul_overflow(n_most, sizeof(char *), &n_pointers) ||
        __builtin_add_overflow(n_pointers, strlen(text) + 1, &n_bytes)) {
        return false;
    }
    const char **items = malloc(n_bytes);
    if (!items) {
        return false;
    }
    char *out = (char *)items + n_pointers;
    while (*text) {
        const size_t n = trim(&text);
        if (n > 0) {
            memcpy(out, text, n);
            out[n] = '\0';
            items[words->n++] = out;
            out += n + 1;
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
    words->items = items;
    return true;
}

void ad_words_reset(struct ad_words *words)
{
    free(words->items);
    *words = (struct ad_words){NULL, 0};
}
